// The steps of a tokenizer with their regular expressions compiled, as normalizers, pre-tokenizers and decoders
// require.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "tandem/status.h"
#include "tokenizer/regex/regex_compiler.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

template <typename Kind>
Result<std::vector<TokenizerStep<Kind>>> compile_steps(std::span<const TokenizerStep<Kind>> steps) {
  std::vector<TokenizerStep<Kind>> compiled(steps.begin(), steps.end());
  for (TokenizerStep<Kind>& step : compiled) {
    if (!is_regex(step.kind) || step.is_compiled) continue;
    TANDEM_ASSIGN(step.pattern, compile_regex(step.pattern));
    step.is_compiled = true;
  }
  return compiled;
}

}  // namespace tandem
