#include "tokenizer/decoder.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/normalizer.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr size_t kMaxContentBytes = 4096;
// Text that may be stripped from the end of a stream is held, and examined again with each token.
constexpr size_t kMaxStrippedBytes = 4096;
// In addition to what its bytes allow. A stream makes a call for each token.
constexpr uint64_t kWorkPerToken = 1 << 14;

// Removes the whole characters from `bytes`; bytes that can never become one yield U+FFFD.
std::string take_characters(std::string& bytes) {
  std::string text;
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Sequence sequence = next_utf8(std::string_view(bytes).substr(at));
    if (sequence.kind == Utf8Kind::kIncomplete) break;
    if (sequence.kind == Utf8Kind::kValid) {
      text.append(bytes, at, sequence.length);
    } else {
      text.append(kReplacementCharacter);
    }
    at += sequence.length;
  }
  bytes.erase(0, at);
  return text;
}

// The length of the longest suffix of `text` that is a proper prefix of `pattern`.
size_t begun_pattern(std::string_view text, std::string_view pattern) {
  size_t length = std::min(text.size(), pattern.size() - 1);
  while (length > 0 && text.substr(text.size() - length) != pattern.substr(0, length)) --length;
  return length;
}

std::string strip_token(std::string_view token, std::string_view content, size_t start, size_t stop) {
  for (; start > 0 && token.substr(0, content.size()) == content && !token.empty(); --start) {
    token.remove_prefix(content.size());
  }
  for (; stop > 0 && token.size() >= content.size() && token.substr(token.size() - content.size()) == content; --stop) {
    token.remove_suffix(content.size());
  }
  return std::string(token);
}

}  // namespace

Result<Decoder> Decoder::create(std::span<const DecoderStep> steps, bool tokens_are_bytes) {
  Decoder decoder;
  if (tokens_are_bytes) return decoder;
  decoder.spaces_between_ = steps.empty();
  bool fused = false;
  for (const DecoderStep& step : steps) {
    Step compiled{step.kind, step.options, step.pattern, step.content, std::nullopt, fused};
    if ((!step.is_compiled && !is_valid_utf8(step.pattern)) || !is_valid_utf8(step.content)) {
      return corrupt("a decoder of the tokenizer has text that is not valid UTF-8");
    }
    if (step.content.size() > kMaxContentBytes) {
      return unsupported("a decoder of the tokenizer puts in {} bytes; {} are the most", step.content.size(),
                         kMaxContentBytes);
    }
    if (step.kind != DecoderKind::kReplaceRegex && step.pattern.size() > kMaxLiteralBytes) {
      return unsupported("a decoder of the tokenizer looks for {} bytes; {} are the most", step.pattern.size(),
                         kMaxLiteralBytes);
    }
    if (step.kind == DecoderKind::kStrip && (step.options >> 16) * step.content.size() > kMaxStrippedBytes) {
      return unsupported("a decoder of the tokenizer strips up to {} bytes; {} are the most",
                         (step.options >> 16) * step.content.size(), kMaxStrippedBytes);
    }
    const bool needs_pattern = step.kind == DecoderKind::kMetaspace || step.kind == DecoderKind::kBpe;
    if ((needs_pattern && step.pattern.empty()) || (step.kind == DecoderKind::kStrip && step.content.empty())) {
      return corrupt("a decoder of the tokenizer has no text to look for");
    }
    if (step.kind == DecoderKind::kReplaceRegex) {
      TANDEM_ASSIGN(compiled.regex, load_step_regex(step.pattern, step.is_compiled));
      compiled.pattern.clear();
    } else if (step.kind == DecoderKind::kReplaceLiteral && step.pattern.empty()) {
      TANDEM_ASSIGN(compiled.regex, Regex::literal(""));  // Matches between all characters.
    }
    fused |= step.kind == DecoderKind::kFuse || step.kind == DecoderKind::kByteLevel;
    decoder.steps_.push_back(std::move(compiled));
  }
  return decoder;
}

std::string DecodeStream::push(std::string_view token) {
  budget_ = WorkBudget(token.size(), kWorkPerToken);
  if (decoder_->spaces_between_ && token_count_ > 0) give(0, " ");
  ++token_count_;
  give(0, token);
  return take_characters(pending_);
}

std::string DecodeStream::flush() {
  size_t held = 0;
  for (const State& state : states_) held += state.held.size();
  budget_ = WorkBudget(held, kWorkPerToken);
  for (size_t i = 0; i < states_.size(); ++i) {
    finish(i);
    states_[i] = {};
  }
  token_count_ = 0;
  std::string text;
  append_utf8_lossy(text, pending_);
  pending_.clear();
  return text;
}

void DecodeStream::give(size_t index, std::string_view text) {
  if (index == states_.size() || !budget_.spend(text.size() + 1)) {
    pending_.append(text);
  } else if (decoder_->steps_[index].fused) {
    give_part(index, text);
  } else {
    give_token(index, text);
  }
}

bool DecodeStream::may_replace(const Step& step, size_t text) const {
  return (text + 1) * step.content.size() <= budget_.left() / WorkBudget::kWorkPerKeptByte;
}

std::string DecodeStream::replaced(const Step& step, std::string_view token) {
  if (!may_replace(step, token.size())) return std::string(token);
  std::string text;
  if (step.regex) {
    std::string valid;
    append_utf8_lossy(valid, token);
    Result<std::string> changed = replace_matches(*step.regex, valid, step.content, SIZE_MAX, budget_);
    text = changed.ok() ? *std::move(changed) : valid;  // A pattern that gives up replaces nothing.
  } else {
    text = replace_literal(token, step.pattern, step.content);
  }
  if (text.size() > token.size()) budget_.keep(text.size() - token.size());
  return text;
}

void DecodeStream::give_token(size_t index, std::string_view token) {
  const Step& step = decoder_->steps_[index];
  State& state = states_[index];
  switch (step.kind) {
    case DecoderKind::kByteLevel:
      if (const std::optional<std::string> bytes = bytes_from_byte_level(token)) {
        state.held.append(*bytes);
      } else {
        state.held.append(token);
      }
      give(index + 1, take_characters(state.held));
      break;
    case DecoderKind::kMetaspace: {
      const bool drop = state.count++ == 0 && (step.options & 0xff) != static_cast<uint32_t>(PrependScheme::kNever);
      give(index + 1, replace_literal(token, step.pattern, drop ? "" : " "));
      break;
    }
    case DecoderKind::kReplaceLiteral:
    case DecoderKind::kReplaceRegex: give(index + 1, replaced(step, token)); break;
    case DecoderKind::kByteFallback:
      if (const std::optional<uint8_t> byte = byte_of_fallback_token(token)) {
        state.held.push_back(static_cast<char>(*byte));
      } else {
        release_bytes(index);
        give(index + 1, token);
      }
      break;
    case DecoderKind::kFuse: give(index + 1, token); break;
    case DecoderKind::kStrip:
      give(index + 1, strip_token(token, step.content, step.options & 0xffff, step.options >> 16));
      break;
    case DecoderKind::kBpe:
      if (state.count++ > 0) give(index + 1, replace_literal(state.held, step.pattern, " "));
      state.held = token;
      break;
  }
}

void DecodeStream::give_part(size_t index, std::string_view part) {
  const Step& step = decoder_->steps_[index];
  switch (step.kind) {
    case DecoderKind::kFuse: give(index + 1, part); break;
    case DecoderKind::kMetaspace: {
      const bool drop = (step.options & 0xff) != static_cast<uint32_t>(PrependScheme::kNever);
      give(index + 1, replace_literal(part, step.pattern, drop ? "" : " "));
      break;
    }
    case DecoderKind::kStrip: strip_part(index, part); break;
    case DecoderKind::kReplaceLiteral:
      if (!step.regex) {
        replace_part(index, part);
        break;
      }
      [[fallthrough]];
    default: states_[index].held.append(part);  // The result depends on the whole token.
  }
}

void DecodeStream::finish(size_t index) {
  const Step& step = decoder_->steps_[index];
  State& state = states_[index];
  if (step.fused) {
    switch (step.kind) {
      case DecoderKind::kFuse:
      case DecoderKind::kMetaspace:
      case DecoderKind::kStrip: return;  // Strip holds exactly what it strips.
      default: break;
    }
    const std::string held = std::exchange(state.held, {});
    if (step.kind == DecoderKind::kReplaceLiteral && !step.regex) {
      give(index + 1, held);
      return;
    }
    give_token(index, held);
  }
  switch (step.kind) {
    case DecoderKind::kByteLevel: {
      std::string rest;
      append_utf8_lossy(rest, state.held);
      give(index + 1, rest);
      break;
    }
    case DecoderKind::kByteFallback: release_bytes(index); break;
    case DecoderKind::kBpe:
      if (state.count > 0) give(index + 1, replace_literal(state.held, step.pattern, ""));
      break;
    default: break;
  }
}

// A run of bytes is text only if all of it is valid.
void DecodeStream::release_bytes(size_t index) {
  const std::string bytes = std::exchange(states_[index].held, {});
  if (bytes.empty()) return;
  if (is_valid_utf8(bytes)) {
    give(index + 1, bytes);
    return;
  }
  for (size_t i = 0; i < bytes.size(); ++i) give(index + 1, kReplacementCharacter);
}

void DecodeStream::strip_part(size_t index, std::string_view part) {
  const Step& step = decoder_->steps_[index];
  State& state = states_[index];
  const std::string_view content = step.content;
  while (!state.started && !part.empty()) {
    if (state.count < (step.options & 0xffff) && part.substr(0, content.size()) == content) {
      part.remove_prefix(content.size());
      ++state.count;
    } else {
      state.started = true;
    }
  }
  // Hold what might be stripped at the end until more text follows.
  state.held.append(part);
  const size_t kept = state.held.size() - strip_token(state.held, content, 0, step.options >> 16).size();
  const std::string ready = state.held.substr(0, state.held.size() - kept);
  state.held.erase(0, ready.size());
  give(index + 1, ready);
}

void DecodeStream::replace_part(size_t index, std::string_view part) {
  const Step& step = decoder_->steps_[index];
  State& state = states_[index];
  state.held.append(part);
  if (!may_replace(step, state.held.size())) {
    give(index + 1, std::exchange(state.held, {}));
    return;
  }
  std::string ready;
  size_t done = 0;
  for (size_t at; (at = state.held.find(step.pattern, done)) != std::string::npos; done = at + step.pattern.size()) {
    ready.append(state.held, done, at - done).append(step.content);
  }
  state.held.erase(0, done);
  const size_t kept = begun_pattern(state.held, step.pattern);
  ready.append(state.held, 0, state.held.size() - kept);
  state.held.erase(0, state.held.size() - kept);
  budget_.keep(ready.size());
  give(index + 1, ready);
}

}  // namespace tandem
