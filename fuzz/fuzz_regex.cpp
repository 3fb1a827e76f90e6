// A pattern, a line break, a text: any pattern compiles or is refused, and all matches in any text, also in one that
// repeats itself, are found in order within the budget, or the budget ends them. By its automaton or by the machine
// alone, the matches are the same. Then the same for the compiled form with bytes of it changed (pairs of a 16-bit
// offset and a byte in the text), which is read or refused.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tokenizer/regex.h"
#include "tokenizer/regex/regex_compiler.h"
#include "unicode/utf8.h"

namespace {

// Looks at a text, and gives the number of its matches; -1 if the budget did not suffice.
int64_t search(const tandem::Regex& regex, std::string_view text, bool use_dfa = true) {
  tandem::RegexMatcher matcher(regex, use_dfa);
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
  auto compiled = tandem::compile_regex(bytes.substr(0, line));
  if (!compiled.ok()) {
    if (compiled.error().message.empty()) std::abort();
    return 0;
  }
  const auto regex = tandem::Regex::load(*compiled);
  if (!regex.ok()) std::abort();
  std::string text;
  if (line != std::string_view::npos) tandem::append_utf8_lossy(text, bytes.substr(line + 1));
  const int64_t count = search(*regex, text);
  if (count < 0 && text.empty()) std::abort();
  const int64_t by_machine = search(*regex, text, /*use_dfa=*/false);
  if (count >= 0 && by_machine >= 0 && count != by_machine) std::abort();
  std::string pumped;
  while (!text.empty() && pumped.size() + text.size() < 4096) pumped += text;
  search(*regex, pumped);

  for (size_t i = line == std::string_view::npos ? size : line + 1; i + 3 <= size; i += 3) {
    const size_t at = data[i] | size_t{data[i + 1]} << 8;
    (*compiled)[at % compiled->size()] = static_cast<char>(data[i + 2]);
  }
  const auto changed = tandem::Regex::load(*compiled);
  if (!changed.ok()) return 0;
  search(*changed, text);
  search(*changed, text, /*use_dfa=*/false);
  return 0;
}
