// Compiles the regular expressions of tokenizer files ahead of time, into what the run time reads (tokenizer/regex.h).
#pragma once

#include <string>
#include <string_view>

#include "tandem/status.h"
#include "tokenizer/regex.h"

namespace tandem {

// The compiled form of a pattern in Oniguruma's syntax. kUnsupported names the construct that is not known to mean the
// same as in Oniguruma.
Result<std::string> compile_regex(std::string_view pattern);
// The same, ready to run.
Result<Regex> make_regex(std::string_view pattern);

}  // namespace tandem
