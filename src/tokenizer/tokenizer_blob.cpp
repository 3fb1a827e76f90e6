#include "tokenizer/tokenizer_blob.h"

#include <bit>
#include <cstddef>

#include "base/checked.h"
#include "base/error.h"
#include "unicode/utf8.h"

namespace tandem {

static_assert(std::endian::native == std::endian::little, "compiled tokenizers are little-endian and used in place");

namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio, odd.
// Bounds the cost of a look-up in a hostile table. Genuine ones stay near 30.
constexpr uint32_t kMaxProbe = 256;
constexpr size_t kMaxSmallRecords = 1 << 16;
constexpr size_t kMaxAddedBytes = 1024;

uint64_t mix(uint64_t value) {
  value ^= value >> 32;
  value *= kMultiplier;
  value ^= value >> 29;
  return value;
}

}  // namespace

uint64_t hash_bytes(std::string_view bytes, uint64_t seed) {
  uint64_t hash = seed ^ (bytes.size() * kMultiplier);
  while (bytes.size() >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data(), 8);
    hash = mix(hash ^ word);
    bytes.remove_prefix(8);
  }
  uint64_t word = 0;
  if (!bytes.empty()) std::memcpy(&word, bytes.data(), bytes.size());
  return mix(mix(hash ^ word));
}

uint64_t TokenizerBlob::hash_pair(uint32_t left, uint32_t right, uint64_t seed) {
  return mix(mix(((uint64_t{left} << 32) | right) ^ seed) * kMultiplier);
}

Result<TokenizerBlob> TokenizerBlob::open(std::span<const uint8_t> bytes) {
  Header header{};
  constexpr size_t kHeadBytes = offsetof(Header, sections);
  if (bytes.size() < kHeadBytes) return corrupt("the compiled tokenizer is cut off in its header");
  std::memcpy(&header, bytes.data(), kHeadBytes);
  if (std::memcmp(header.magic, "TDMTOKEN", 8) != 0) return corrupt("these bytes are not a compiled tokenizer");
  if (header.version < 1 || header.version > kVersion) {
    return unsupported("the compiled tokenizer has version {}, this build reads up to {}; compile the model again",
                       header.version, kVersion);
  }
  const size_t section_count = header.version == 1 ? kFirstVersionSections : size_t{kSectionCount};
  const size_t table_bytes = section_count * sizeof header.sections[0];
  if (bytes.size() - kHeadBytes < table_bytes) return corrupt("the compiled tokenizer is cut off in its header");
  std::memcpy(header.sections, bytes.data() + kHeadBytes, table_bytes);
  if (header.size != bytes.size()) {
    return corrupt("the compiled tokenizer says it has {} bytes, but {} are there", header.size, bytes.size());
  }
  if ((header.flags & ~uint32_t{kKnownFlags}) != 0) return corrupt("the compiled tokenizer has unknown flags");

  if (header.version == 1) header.flags |= kByteLevel;

  TokenizerBlob blob;
  blob.bytes_ = bytes;
  blob.version_ = header.version;
  const std::array<uint64_t, kSectionCount> record_bytes = {1,  // The pool.
                                                            kTokenBytes,
                                                            4,
                                                            kMergeBytes,
                                                            4,
                                                            kAddedBytes,
                                                            kAddedBytes,
                                                            blob.step_bytes(kNormalizers),
                                                            blob.step_bytes(kSteps),
                                                            4,
                                                            4,
                                                            kStepBytes,
                                                            kDecodeAsBytes,
                                                            kScoreBytes,
                                                            kTrieBytes};
  for (size_t i = 0; i < section_count; ++i) {
    const auto& section = header.sections[i];
    if (!range_inside(section.offset, section.size, bytes.size()) || section.size % record_bytes[i] != 0) {
      return corrupt("section {} of the compiled tokenizer lies outside of it", i);
    }
    blob.sections_[i] = {bytes.data() + section.offset, section.size};
  }
  if (header.vocab_size > kMaxTokenId || blob.sections_[kTokens].size != uint64_t{header.vocab_size} * kTokenBytes) {
    return corrupt("the compiled tokenizer's token table does not have {} tokens", header.vocab_size);
  }
  const uint64_t token_slots = blob.sections_[kTokenSlots].size / 4;
  const uint64_t merge_slots = blob.sections_[kMergeSlots].size / kMergeBytes;
  if (!std::has_single_bit(token_slots) || !std::has_single_bit(merge_slots) || header.token_probe > kMaxProbe ||
      header.merge_probe > kMaxProbe) {
    return corrupt("the compiled tokenizer's hash tables have impossible sizes");
  }
  if (header.unk_id != kNoToken && header.unk_id >= header.vocab_size) {
    return corrupt("the compiled tokenizer's unknown token is not in its vocabulary");
  }
  const uint64_t scores = blob.sections_[kScores].size / kScoreBytes;
  if ((header.flags & kUnigram) != 0 ? scores != header.vocab_size : scores != 0) {
    return corrupt("the compiled tokenizer does not have a score for each token");
  }
  blob.flags_ = header.flags;
  blob.vocab_size_ = header.vocab_size;
  blob.unk_id_ = header.unk_id;
  blob.seed_ = header.seed;
  blob.token_probe_ = header.token_probe;
  blob.merge_probe_ = header.merge_probe;
  blob.token_mask_ = token_slots - 1;
  blob.merge_mask_ = merge_slots - 1;
  TANDEM_TRY(blob.read_small_sections());
  return blob;
}

Status TokenizerBlob::read_small_sections() {
  const Bytes& byte_ids = sections_[kByteIds];
  if (byte_ids.size != 256 * 4) return corrupt("the compiled tokenizer does not have 256 byte tokens");
  for (size_t i = 0; i < 256; ++i) {
    byte_ids_[i] = load(byte_ids.data + 4 * i);
    if (byte_ids_[i] != kNoToken && byte_ids_[i] >= vocab_size_) {
      return corrupt("a byte token of the compiled tokenizer is not in its vocabulary");
    }
  }
  TANDEM_TRY(check_added(false));
  TANDEM_TRY(check_added(true));
  for (const Section section : {kPrefix, kSuffix}) {
    if (sections_[section].size > kMaxSmallRecords * 4) return corrupt("a list of the compiled tokenizer is too long");
  }
  TANDEM_TRY(check_steps(kNormalizers, static_cast<uint32_t>(NormalizerKind::kCharsMap)));
  TANDEM_TRY(check_steps(kSteps, static_cast<uint32_t>(PreTokenizerKind::kWhitespaceSplit)));
  TANDEM_TRY(check_steps(kDecoders, static_cast<uint32_t>(DecoderKind::kBpe)));
  for (const auto& [section, ids] : {std::pair{kPrefix, &prefix_}, std::pair{kSuffix, &suffix_}}) {
    for (uint64_t at = 0; at < sections_[section].size; at += 4) {
      ids->push_back(load(sections_[section].data + at));
      if (ids->back() >= kMaxTokenId) return corrupt("the compiled tokenizer adds a token with an impossible id");
    }
  }
  return ok_status();
}

Status TokenizerBlob::check_steps(Section section, uint32_t last_kind) const {
  // One pre-tokenizer in a file can be several steps here.
  const size_t bytes = step_bytes(section);
  if (sections_[section].size > 4 * kMaxTokenizerSteps * bytes) {
    return corrupt("a list of the compiled tokenizer is too long");
  }
  for (uint64_t at = 0; at < sections_[section].size; at += bytes) {
    const uint8_t* record = sections_[section].data + at;
    if (load(record) < 1 || load(record) > last_kind) {
      return unsupported("the compiled tokenizer has a step that this build does not know; compile the model again");
    }
    for (size_t text = 8; text < bytes; text += 8) {
      if (!range_inside(load(record + text), load(record + text + 4), sections_[kPool].size)) {
        return corrupt("a pattern of the compiled tokenizer lies outside of it");
      }
    }
  }
  return ok_status();
}

Status TokenizerBlob::check_added(bool normalized) const {
  const size_t count = added_count(normalized);
  std::string_view previous;
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* record = added(normalized).data + i * kAddedBytes;
    if (!range_inside(load(record), load(record + 4), sections_[kPool].size) || load(record + 4) == 0 ||
        load(record + 4) > kMaxAddedBytes || load(record + 8) >= vocab_size_) {
      return corrupt("an added token of the compiled tokenizer is damaged");
    }
    // The search for the longest match relies on this order.
    const std::string_view content = added_token(normalized, i).content;
    if (i > 0 && !(previous < content)) return corrupt("the compiled tokenizer's added tokens are not sorted");
    // Texts are split at added tokens: one that is part of a character would leave the other part behind.
    if (!is_valid_utf8(content)) return corrupt("an added token of the compiled tokenizer is not valid UTF-8");
    previous = content;
  }
  return ok_status();
}

std::string_view TokenizerBlob::pooled(uint32_t offset, uint32_t length) const {
  const Bytes& pool = sections_[kPool];
  if (!range_inside(offset, length, pool.size)) return {};
  return {reinterpret_cast<const char*>(pool.data + offset), length};
}

TokenView TokenizerBlob::token(uint32_t id) const {
  if (id >= vocab_size_) return {{}, 0};
  const uint8_t* record = sections_[kTokens].data + uint64_t{id} * kTokenBytes;
  const uint32_t length_and_flags = load(record + 4);
  return {pooled(load(record), length_and_flags & 0xffffffu), length_and_flags >> 24};
}

std::optional<uint32_t> TokenizerBlob::find(std::string_view bytes, bool verbatim) const {
  uint64_t slot = hash_bytes(bytes, seed_ + (verbatim ? 1 : 0)) & token_mask_;
  for (uint32_t probe = 0; probe <= token_probe_; ++probe) {
    const uint32_t id = load(sections_[kTokenSlots].data + 4 * slot);
    if (id == kNoToken) return std::nullopt;
    const TokenView candidate = token(id);
    if (((candidate.flags & kTokenVerbatim) != 0) == verbatim && (candidate.flags & kTokenPresent) != 0 &&
        candidate.bytes == bytes) {
      return id;
    }
    slot = (slot + 1) & token_mask_;
  }
  return std::nullopt;
}

MergeHit TokenizerBlob::merge(uint32_t left, uint32_t right) const {
  uint64_t slot = hash_pair(left, right, seed_) & merge_mask_;
  for (uint32_t probe = 0; probe <= merge_probe_; ++probe) {
    const uint8_t* record = sections_[kMergeSlots].data + kMergeBytes * slot;
    const uint32_t rank = load(record + 8);
    if (rank == kNoToken) return {};
    if (load(record) == left && load(record + 4) == right) {
      const uint32_t merged = load(record + 12);
      if (merged >= vocab_size_) return {};
      return {rank, merged};
    }
    slot = (slot + 1) & merge_mask_;
  }
  return {};
}

AddedRecord TokenizerBlob::added_token(bool normalized, size_t index) const {
  const uint8_t* record = added(normalized).data + index * kAddedBytes;
  return {pooled(load(record), load(record + 4)), load(record + 8), load(record + 12)};
}

std::string_view TokenizerBlob::decoded(uint32_t id, const TokenView& token) const {
  if ((token.flags & kTokenDecodesAs) == 0) return token.bytes;
  const Bytes& records = sections_[kDecodeAs];
  uint64_t low = 0;
  uint64_t high = records.size / kDecodeAsBytes;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const uint8_t* record = records.data + middle * kDecodeAsBytes;
    if (load(record) == id) return pooled(load(record + 4), load(record + 8));
    if (load(record) < id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return token.bytes;
}

double TokenizerBlob::score(uint32_t id) const {
  double score = 0;
  if (id < vocab_size_ && model() == ModelKind::kUnigram) {
    std::memcpy(&score, sections_[kScores].data + uint64_t{id} * kScoreBytes, sizeof score);
  }
  return score;
}

TokenizerBlob::TrieNode TokenizerBlob::trie_node(uint64_t index) const {
  if (index >= sections_[kTrie].size / kTrieBytes) return {};
  const uint8_t* record = sections_[kTrie].data + index * kTrieBytes;
  const uint32_t id = load(record + 4);
  return {load(record), (load(record + 8) >> 8) & 0x1ff, id < vocab_size_ ? id : kNoToken};
}

std::optional<TokenizerBlob::TrieNode> TokenizerBlob::trie_child(const TrieNode& node, uint8_t label) const {
  uint64_t low = node.first_child;
  uint64_t high = low + node.child_count;
  if (high > sections_[kTrie].size / kTrieBytes) return std::nullopt;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    const uint32_t found = load(sections_[kTrie].data + middle * kTrieBytes + 8) & 0xff;
    if (found == label) return trie_node(middle);
    if (found < label) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return std::nullopt;
}

}  // namespace tandem
