#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <new>

#include "base/error.h"
#include "text/utf8.h"

namespace tandem {
namespace {

// Patterns of real tokenizers have some hundred bytes.
constexpr size_t kMaxPatternBytes = 64 * 1024;
constexpr size_t kJitStackStart = 64 * 1024;
constexpr size_t kJitStackMax = 8 * 1024 * 1024;
constexpr uint32_t kHeapLimitKib = 256 * 1024;

std::string pcre2_message(int code) {
  PCRE2_UCHAR buffer[160];
  if (pcre2_get_error_message(code, buffer, sizeof buffer) < 0) return fmt::format("error {}", code);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* code = nullptr;
  bool jit = false;

  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

struct RegexMatcher::State {
  std::shared_ptr<const Regex::Code> code;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* jit_stack = nullptr;
  std::string_view text;
  size_t from = 0;                 // Where the next search begins.
  std::optional<size_t> last_end;  // Of the last match.

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    pcre2_jit_stack_free(jit_stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

Result<Regex> Regex::compile(const std::string& pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return unsupported("a regular expression of {} bytes is longer than supported ({} at most)", pattern.size(),
                       kMaxPatternBytes);
  }
  pcre2_compile_context* context = pcre2_compile_context_create(nullptr);
  if (context == nullptr) return resource_exhausted("no memory for a regular expression");
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int error = 0;
  PCRE2_SIZE where = 0;
  // In Oniguruma ^ and $ always work on lines. \C could cut a character in two.
  constexpr uint32_t kOptions = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  auto code = std::make_shared<Code>();
  code->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(), kOptions, &error, &where, context);
  pcre2_compile_context_free(context);
  if (code->code == nullptr && error == PCRE2_ERROR_HEAP_FAILED) {
    return resource_exhausted("no memory for a regular expression");
  }
  if (code->code == nullptr) {
    return unsupported("the regular expression \"{}\" cannot be compiled (at byte {}: {})", pattern, where,
                       pcre2_message(error));
  }
  code->jit = pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE) == 0;  // Without it, the interpreter does the same.
  Regex regex;
  regex.code_ = std::move(code);
  return regex;
}

RegexMatcher::RegexMatcher(const Regex& regex) : state_(std::make_unique<State>()) {
  state_->code = regex.code_;
  state_->data = pcre2_match_data_create(1, nullptr);  // Only the whole match is of interest.
  state_->context = pcre2_match_context_create(nullptr);
}

RegexMatcher::RegexMatcher(RegexMatcher&&) noexcept = default;
RegexMatcher::~RegexMatcher() = default;

void RegexMatcher::start(std::string_view text) {
  State& s = *state_;
  s.text = text;
  s.from = 0;
  s.last_end.reset();
  if (s.context != nullptr) {
    // Honest patterns step back at most a few times per byte of a match.
    const uint64_t limit = std::min<uint64_t>(1'000'000 + 16 * uint64_t{text.size()}, UINT32_MAX);
    pcre2_set_match_limit(s.context, static_cast<uint32_t>(limit));
    pcre2_set_heap_limit(s.context, kHeapLimitKib);
  }
}

Result<std::optional<RegexMatch>> RegexMatcher::next() {
  State& s = *state_;
  if (s.data == nullptr || s.context == nullptr) return resource_exhausted("no memory to run a regular expression");
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(s.text.empty() ? "" : s.text.data());
  while (s.from <= s.text.size()) {
    const auto match = [&] {
      return s.code->jit
                 ? pcre2_jit_match(s.code->code, subject, s.text.size(), s.from, 0, s.data, s.context)
                 : pcre2_match(s.code->code, subject, s.text.size(), s.from, PCRE2_NO_UTF_CHECK, s.data, s.context);
    };
    int status = match();
    if (status == PCRE2_ERROR_JIT_STACKLIMIT && s.jit_stack == nullptr) {
      // The 32 KB of the machine's stack that come for free are enough for all but strange texts.
      s.jit_stack = pcre2_jit_stack_create(kJitStackStart, kJitStackMax, nullptr);
      if (s.jit_stack == nullptr) return resource_exhausted("no memory to run a regular expression");
      pcre2_jit_stack_assign(s.context, nullptr, s.jit_stack);
      status = match();
    }
    if (status == PCRE2_ERROR_NOMATCH) break;
    if (status < 0) {
      return resource_exhausted("the tokenizer's regular expression gave up near byte {} of the text ({})", s.from,
                                pcre2_message(status));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(s.data);
    const RegexMatch found{offsets[0], offsets[1]};
    if (found.begin > found.end || found.end > s.text.size() || (s.last_end && found.begin < *s.last_end)) {
      return corrupt("the tokenizer's regular expression gives matches that run backwards");  // Only with \K.
    }
    if (found.begin == found.end && s.last_end == found.end) {
      if (s.from >= s.text.size()) break;
      s.from += next_valid_utf8(s.text.substr(s.from)).length;
      continue;
    }
    s.from = found.end;
    s.last_end = found.end;
    return std::optional<RegexMatch>(found);
  }
  s.from = s.text.size() + 1;
  return std::optional<RegexMatch>();
}

}  // namespace tandem
