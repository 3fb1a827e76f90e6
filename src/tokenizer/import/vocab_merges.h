// Reads vocab.json with merges.txt, as GPT-2, CodeGen and Qwen2 have them.
#pragma once

#include <string_view>

#include "tandem/status.h"
#include "tokenizer/import/tokenizer_extras.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

// The pipeline is not in the files: it is known by the tokenizer's class; without one it is GPT-2's.
Result<TokenizerSpec> read_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                            const TokenizerExtras& extras);

}  // namespace tandem
