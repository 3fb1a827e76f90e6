// Reads vocab.json with merges.txt, the files of GPT-2, CodeGen and Qwen2.
#pragma once

#include <string_view>

#include "tandem/status.h"
#include "tokenizer/import/tokenizer_extras.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

// The pipeline is not in the files: it follows from the tokenizer's class; without one it is GPT-2's.
Result<TokenizerSpec> read_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                            const TokenizerExtras& extras);

}  // namespace tandem
