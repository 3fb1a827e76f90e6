// Documents of text tasks.
#pragma once

#include "tasks/task.h"

namespace tandem {

// WikiText was tokenized by its authors. The model predicts its text with the most obvious traces of that removed;
// words and bytes are those of the original.
TextDocument wikitext_document(std::string_view page);
// As it is.
TextDocument plain_document(std::string_view text);

// The articles of a raw WikiText file: each begins with a line "= Title =".
std::vector<std::string_view> wikitext_pages(std::string_view text);

}  // namespace tandem
