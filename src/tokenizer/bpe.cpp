#include "tokenizer/bpe.h"

#include <algorithm>

#include "base/error.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

// Up to this length, scanning all pairs for each merge is faster than a heap.
constexpr size_t kShortWord = 48;
constexpr uint32_t kEnd = 0xffffffffu;

Error only_special(std::string_view text) {
  return unsupported(
      "the text has \"{}\", which this vocabulary has as a special token only; leave it out, or let text become "
      "special "
      "tokens (parse_special)",
      text);
}

}  // namespace

// A merge that yields a refused token does not apply, so no symbol ever is one.
MergeHit BpeEncoder::merge(uint32_t left, uint32_t right) const {
  const MergeHit hit = blob_.merge(left, right);
  return hit.rank != kNoToken && refused_(hit.merged) ? MergeHit() : hit;
}

Status BpeEncoder::encode(std::string_view word, std::vector<int32_t>& ids, const Refusal& refused) {
  refused_ = refused;
  if (blob_.ignore_merges()) {
    if (const std::optional<uint32_t> id = blob_.find(word, false);
        id && (blob_.token(*id).flags & kTokenModel) != 0 && !refused(*id)) {
      ids.push_back(static_cast<int32_t>(*id));
      return ok_status();
    }
  }
  TANDEM_TRY(blob_.byte_level() ? start_bytes(word) : start_characters(word));
  if (symbols_.size() > kShortWord) {
    merge_long();
  } else if (symbols_.size() > 1) {
    merge_short();
  }
  for (const uint32_t symbol : symbols_) ids.push_back(static_cast<int32_t>(symbol));
  return ok_status();
}

Status BpeEncoder::start_bytes(std::string_view word) {
  symbols_.clear();
  bool last_unknown = false;
  for (const char c : word) {
    const uint32_t id = blob_.byte_ids()[static_cast<uint8_t>(c)];
    const bool is_refused = id != kNoToken && refused_(id);
    if (id != kNoToken && !is_refused) {
      symbols_.push_back(id);
      last_unknown = false;
      continue;
    }
    if (is_refused && (!blob_.has_unk() || blob_.unk_id() == kNoToken)) return only_special({&c, 1});
    // Without an unknown token, such bytes vanish; the library does the same.
    if (!blob_.has_unk()) continue;
    if (blob_.unk_id() == kNoToken) {
      return corrupt("the text has the byte 0x{:02x}, which is not in the vocabulary, and neither is the unknown token",
                     static_cast<unsigned>(static_cast<uint8_t>(c)));
    }
    if (!last_unknown || !blob_.fuse_unk()) symbols_.push_back(blob_.unk_id());
    last_unknown = true;
  }
  return ok_status();
}

Status BpeEncoder::start_characters(std::string_view word) {
  symbols_.clear();
  // An unknown character waits for the next known one, and does not break a run of bytes; the library does the same.
  bool unknown = false;
  while (!word.empty()) {
    const size_t length = next_valid_utf8(word).length;
    const std::string_view character = word.substr(0, length);
    word.remove_prefix(character.size());
    const std::optional<uint32_t> id = blob_.find(character, false);
    const bool is_known = id && (blob_.token(*id).flags & kTokenModel) != 0;
    const bool is_refused = is_known && refused_(*id);
    if (is_known && !is_refused) {
      if (unknown) symbols_.push_back(blob_.unk_id());
      unknown = false;
      symbols_.push_back(*id);
      continue;
    }
    const auto byte_id = [&](char byte) { return blob_.byte_ids()[static_cast<uint8_t>(byte)]; };
    if (blob_.byte_fallback() &&
        std::none_of(character.begin(), character.end(), [&](char byte) { return byte_id(byte) == kNoToken; })) {
      for (const char byte : character) symbols_.push_back(byte_id(byte));
      continue;
    }
    if (is_refused && (!blob_.has_unk() || blob_.unk_id() == kNoToken)) return only_special(character);
    if (!blob_.has_unk()) continue;
    if (blob_.unk_id() == kNoToken) {
      return corrupt("the text has \"{}\", which is not in the vocabulary, and neither is the unknown token",
                     character);
    }
    if (unknown && !blob_.fuse_unk()) symbols_.push_back(blob_.unk_id());
    unknown = true;
  }
  if (unknown) symbols_.push_back(blob_.unk_id());
  return ok_status();
}

void BpeEncoder::merge_short() {
  size_t count = symbols_.size();
  hits_.resize(count);
  for (size_t i = 0; i + 1 < count; ++i) hits_[i] = merge(symbols_[i], symbols_[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (hits_[i].rank < hits_[best].rank) best = i;
    }
    if (hits_[best].rank == kNoToken) break;
    symbols_[best] = hits_[best].merged;
    for (size_t i = best + 1; i + 1 < count; ++i) {
      symbols_[i] = symbols_[i + 1];
      hits_[i] = hits_[i + 1];
    }
    --count;
    if (best + 1 < count) hits_[best] = merge(symbols_[best], symbols_[best + 1]);
    if (best > 0) hits_[best - 1] = merge(symbols_[best - 1], symbols_[best]);
  }
  symbols_.resize(count);
}

void BpeEncoder::merge_long() {
  const auto count = static_cast<uint32_t>(symbols_.size());
  links_.resize(count);
  heap_.clear();
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  for (uint32_t i = 0; i < count; ++i) {
    links_[i] = {i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1};
    if (i + 1 == count) break;
    const MergeHit hit = merge(symbols_[i], symbols_[i + 1]);
    if (hit.rank != kNoToken) heap_.push_back({hit.rank, i, hit.merged});
  }
  std::make_heap(heap_.begin(), heap_.end(), later);
  const auto push = [&](uint32_t at) {
    const MergeHit hit = merge(symbols_[at], symbols_[links_[at].next]);
    if (hit.rank == kNoToken) return;
    heap_.push_back({hit.rank, at, hit.merged});
    std::push_heap(heap_.begin(), heap_.end(), later);
  };
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Candidate top = heap_.back();
    heap_.pop_back();
    // Entries are not removed when their pair changes; they are checked when they are popped.
    if (symbols_[top.at] == kNoToken || links_[top.at].next == kEnd) continue;
    const uint32_t right = links_[top.at].next;
    const MergeHit now = merge(symbols_[top.at], symbols_[right]);
    if (now.rank == kNoToken || now.merged != top.merged) continue;
    symbols_[top.at] = top.merged;
    symbols_[right] = kNoToken;
    links_[top.at].next = links_[right].next;
    if (links_[right].next != kEnd) {
      links_[links_[right].next].previous = top.at;
      push(top.at);
    }
    if (links_[top.at].previous != kEnd) push(links_[top.at].previous);
  }
  symbols_.erase(std::remove(symbols_.begin(), symbols_.end(), kNoToken), symbols_.end());
}

}  // namespace tandem
