#include "text/stream_decoder.h"

#include "text/utf8.h"

namespace tandem {

std::string StreamDecoder::push(int32_t id) {
  if (skip_special_ && tokenizer_.is_special(id)) return {};
  pending_.append(tokenizer_.token_bytes(id));
  std::string text;
  size_t at = 0;
  while (at < pending_.size()) {
    const Utf8Sequence sequence = next_utf8(std::string_view(pending_).substr(at));
    if (sequence.kind == Utf8Kind::kIncomplete) break;
    if (sequence.kind == Utf8Kind::kValid) {
      text.append(pending_, at, sequence.length);
    } else {
      text.append(kReplacementCharacter);
    }
    at += sequence.length;
  }
  pending_.erase(0, at);
  return text;
}

std::string StreamDecoder::flush() {
  std::string text;
  append_utf8_lossy(text, pending_);
  pending_.clear();
  return text;
}

}  // namespace tandem
