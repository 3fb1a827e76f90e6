#include "generation/stop_strings.h"

#include <algorithm>

#include "base/error.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr size_t kMaxStopBytes = 1 << 16;

}  // namespace

Result<StopStrings> StopStrings::create(std::vector<std::string> strings) {
  StopStrings result;
  for (std::string& text : strings) {
    if (text.empty()) return invalid_argument("a stop string is empty; leave it out");
    if (text.size() > kMaxStopBytes) {
      return invalid_argument("a stop string has {} bytes, more than the {} supported", text.size(), kMaxStopBytes);
    }
    if (!is_valid_utf8(text)) return invalid_argument("a stop string is not valid UTF-8");
    Matcher matcher;
    matcher.failure.resize(text.size(), 0);
    uint32_t border = 0;
    for (size_t i = 1; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = matcher.failure[border - 1];
      if (text[i] == text[border]) ++border;
      matcher.failure[i] = border;
    }
    matcher.text = std::move(text);
    result.matchers_.push_back(std::move(matcher));
  }
  return result;
}

std::string StopStrings::push(std::string_view text) {
  if (reached_) return {};
  for (size_t i = 0; i < text.size(); ++i) {
    const Matcher* complete = nullptr;
    for (Matcher& matcher : matchers_) {
      while (matcher.matched > 0 && text[i] != matcher.text[matcher.matched]) {
        matcher.matched = matcher.failure[matcher.matched - 1];
      }
      if (text[i] == matcher.text[matcher.matched]) ++matcher.matched;
      if (matcher.matched == matcher.text.size()) {
        if (complete == nullptr || matcher.text.size() > complete->text.size()) complete = &matcher;
        matcher.matched = matcher.failure[matcher.matched - 1];
      }
    }
    if (complete != nullptr) {
      held_.append(text.substr(0, i + 1));
      held_.resize(held_.size() - complete->text.size());
      reached_ = complete->text;
      return std::exchange(held_, {});
    }
  }
  held_.append(text);
  size_t keep = 0;
  for (const Matcher& matcher : matchers_) keep = std::max(keep, matcher.matched);
  std::string safe = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return safe;
}

std::string StopStrings::flush() { return std::exchange(held_, {}); }

void StopStrings::reset() {
  held_.clear();
  reached_.reset();
  for (Matcher& matcher : matchers_) matcher.matched = 0;
}

}  // namespace tandem
