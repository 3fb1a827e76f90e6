// The patterns that most byte-level tokenizers split by, written by hand: several times as fast as the regular
// expression, with the same words. A pattern is recognised by its exact text; all others run as expressions.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace tandem {

enum class KnownPattern {
  kGpt2,    // kGpt2Pattern: GPT-2, CodeGen, SmolLM2, Granite.
  kLlama3,  // kLlama3Pattern: Llama 3, GLM-4, SmolLM3; numbers in threes.
  kQwen2,   // kQwen2Pattern: single digits.
  kO200k,   // GPT-4o, Phi-4-mini: words are cut where case changes.
};

std::optional<KnownPattern> find_known_pattern(std::string_view pattern);

// Appends the matches of the pattern in `text` (valid UTF-8), which together are the whole text.
void split_by_known_pattern(KnownPattern pattern, std::string_view text, std::vector<std::string_view>& words);

}  // namespace tandem
