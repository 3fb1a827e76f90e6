#include "text/tokenizer_blob.h"

#include <bit>

#include "base/checked.h"
#include "base/error.h"

namespace tandem {

static_assert(std::endian::native == std::endian::little, "compiled tokenizers are little-endian and used in place");

namespace {

constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15u;  // 2^64 over the golden ratio, odd.
// Bounds the cost of a look-up in a hostile table. Honest ones stay near 30.
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
  Header header;
  if (bytes.size() < sizeof header) return corrupt("the compiled tokenizer is cut off in its header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, "TDMTOKEN", 8) != 0) return corrupt("these bytes are not a compiled tokenizer");
  if (header.version != kVersion) {
    return unsupported("the compiled tokenizer has version {}, this build reads {}; compile the model again",
                       header.version, kVersion);
  }
  if (header.size != bytes.size()) {
    return corrupt("the compiled tokenizer says it has {} bytes, but {} are there", header.size, bytes.size());
  }
  if ((header.flags & ~uint32_t{kKnownFlags}) != 0) return corrupt("the compiled tokenizer has unknown flags");

  TokenizerBlob blob;
  blob.bytes_ = bytes;
  constexpr std::array<uint64_t, kSectionCount> kRecordBytes = {
      1, kTokenBytes, 4, kMergeBytes, 4, kAddedBytes, kAddedBytes, 4, kStepBytes, 4, 4};
  for (size_t i = 0; i < kSectionCount; ++i) {
    const auto& section = header.sections[i];
    if (!range_inside(section.offset, section.size, bytes.size()) || section.size % kRecordBytes[i] != 0) {
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
  for (const Section section : {kNormalizers, kSteps, kPrefix, kSuffix}) {
    if (sections_[section].size > kMaxSmallRecords * 4) return corrupt("a list of the compiled tokenizer is too long");
  }
  for (uint64_t at = 0; at < sections_[kNormalizers].size; at += 4) {
    if (load(sections_[kNormalizers].data + at) != static_cast<uint32_t>(NormalizerKind::kNfc)) {
      return unsupported("the compiled tokenizer has a normalizer that this build does not know");
    }
  }
  for (uint64_t at = 0; at < sections_[kSteps].size; at += kStepBytes) {
    const uint8_t* step = sections_[kSteps].data + at;
    const uint32_t kind = load(step);
    if (kind < static_cast<uint32_t>(PreTokenizerKind::kAddPrefixSpace) ||
        kind > static_cast<uint32_t>(PreTokenizerKind::kDigits) ||
        (load(step + 4) & 0xff) > static_cast<uint32_t>(SplitBehavior::kContiguous)) {
      return unsupported("the compiled tokenizer has a pre-tokenizer that this build does not know");
    }
    if (!range_inside(load(step + 8), load(step + 12), sections_[kPool].size)) {
      return corrupt("a pattern of the compiled tokenizer lies outside of it");
    }
  }
  for (const auto& [section, ids] : {std::pair{kPrefix, &prefix_}, std::pair{kSuffix, &suffix_}}) {
    for (uint64_t at = 0; at < sections_[section].size; at += 4) {
      ids->push_back(load(sections_[section].data + at));
      if (ids->back() >= kMaxTokenId) return corrupt("the compiled tokenizer adds a token with an impossible id");
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
    // The search for the longest match goes by this order.
    const std::string_view content = added_token(normalized, i).content;
    if (i > 0 && !(previous < content)) return corrupt("the compiled tokenizer's added tokens are not sorted");
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

std::vector<NormalizerKind> TokenizerBlob::normalizers() const {
  std::vector<NormalizerKind> kinds;
  for (uint64_t at = 0; at < sections_[kNormalizers].size; at += 4) {
    kinds.push_back(static_cast<NormalizerKind>(load(sections_[kNormalizers].data + at)));
  }
  return kinds;
}

std::vector<PreTokenizerStep> TokenizerBlob::pre_tokenizers() const {
  std::vector<PreTokenizerStep> steps;
  for (uint64_t at = 0; at < sections_[kSteps].size; at += kStepBytes) {
    const uint8_t* record = sections_[kSteps].data + at;
    PreTokenizerStep step;
    step.kind = static_cast<PreTokenizerKind>(load(record));
    step.behavior = static_cast<SplitBehavior>(load(record + 4) & 0xff);
    step.invert = (load(record + 4) & 0x100) != 0;
    step.pattern = pooled(load(record + 8), load(record + 12));
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace tandem
