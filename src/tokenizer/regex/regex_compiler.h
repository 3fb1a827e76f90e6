// Compiles the regular expressions of tokenizer files ahead of time, for the run time (tokenizer/regex.h).
#pragma once

#include <string>
#include <string_view>

#include "tandem/status.h"
#include "tokenizer/regex.h"

namespace tandem {

// The compiled form of a pattern in Oniguruma's syntax. kUnsupported names a construct that might not mean the same as
// in Oniguruma.
Result<std::string> compile_regex(std::string_view pattern);
// The same, ready to run.
Result<Regex> make_regex(std::string_view pattern);

}  // namespace tandem
