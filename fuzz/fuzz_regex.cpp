// A pattern, a line break, a text: any pattern compiles or is refused, and all matches in any text, also in one that
// repeats itself, are found in order within the budget, or the budget ends them.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tokenizer/regex.h"
#include "tokenizer/regex/regex_compiler.h"
#include "unicode/utf8.h"

namespace {

// Looks at a text, and gives the number of its matches; -1 if the budget did not suffice.
int64_t search(const tandem::Regex& regex, std::string_view text) {
  tandem::RegexMatcher matcher(regex);
  tandem::WorkBudget budget(text.size(), 1 << 12);
  matcher.start(text, budget);
  size_t last = 0;
  int64_t count = 0;
  while (true) {
    const auto match = matcher.next();
    if (!match.ok()) {
      if (match.error().code != tandem::ErrorCode::kResourceExhausted) std::abort();
      return -1;
    }
    if (!*match) return count;
    if ((*match)->begin < last || (*match)->end < (*match)->begin || (*match)->end > text.size()) std::abort();
    if (!tandem::is_valid_utf8(text.substr((*match)->begin, (*match)->end - (*match)->begin))) std::abort();
    last = (*match)->end;
    ++count;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t line = bytes.find('\n');
  const auto regex = tandem::make_regex(bytes.substr(0, line));
  if (!regex.ok()) {
    if (regex.error().message.empty()) std::abort();
    return 0;
  }
  std::string text;
  if (line != std::string_view::npos) tandem::append_utf8_lossy(text, bytes.substr(line + 1));
  if (search(*regex, text) < 0 && text.empty()) std::abort();
  std::string pumped;
  while (!text.empty() && pumped.size() + text.size() < 4096) pumped += text;
  search(*regex, pumped);
  return 0;
}
