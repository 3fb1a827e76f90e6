// The compiled form of a tokenizer: one flat run of bytes that is used where it lies, mapped from an artifact.
//
// Little-endian, version 1. A header of fixed size names the sections (byte offset and byte count, from the start of
// the blob, each 8-aligned); the sections are arrays of fixed-size records:
//   pool          the bytes of all strings
//   tokens        per id: {u32 offset, u32 length (24 bits) and TokenFlag (8 bits)} into the pool; what decode writes
//   token_slots   u32 ids, kNoToken if empty; a power of two many; open addressing with linear probing by
//                 hash_bytes(bytes, seed + (verbatim ? 1 : 0)), at most `token_probe` slots from home
//   merge_slots   {u32 left, u32 right, u32 rank, u32 merged}; empty if rank is kNoToken; the same by hash_pair
//   byte_ids      256 × u32: the token that is this one byte, or kNoToken
//   added_raw     {u32 offset, u32 length, u32 id, u32 AddedFlag}, sorted by bytes: matched in the text as it comes
//   added_normal  the same, matched in normalized text
//   normalizers   u32 NormalizerKind
//   steps         {u32 PreTokenizerKind, u32 SplitBehavior | invert << 8, u32 offset, u32 length}
//   prefix, suffix  u32 ids
// The bytes come from a file and may be anything: open() checks the header and the short sections, and every look-up
// in the long ones checks what it reads, so that loading touches few pages.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "text/tokenizer_spec.h"

namespace tandem {

enum TokenFlag : uint32_t {
  kTokenPresent = 1,   // The id is in use.
  kTokenModel = 2,     // In the model's vocabulary; encode may produce it.
  kTokenAdded = 4,     // An added token.
  kTokenSpecial = 8,   // Left out by decode(…, skip_special).
  kTokenVerbatim = 16  // Has characters outside of the byte-level alphabet, so it stands for itself.
};

enum AddedFlag : uint32_t { kAddedSingleWord = 1, kAddedLstrip = 2, kAddedRstrip = 4 };

struct TokenView {
  std::string_view bytes;
  uint32_t flags;
};

struct AddedRecord {
  std::string_view content;
  uint32_t id;
  uint32_t flags;
};

struct MergeHit {
  uint32_t rank = kNoToken;
  uint32_t merged = kNoToken;
};

uint64_t hash_bytes(std::string_view bytes, uint64_t seed);

class TokenizerBlob {
 public:
  // The bytes must outlive the object.
  static Result<TokenizerBlob> open(std::span<const uint8_t> bytes);
  // The blob of a tokenizer. Fails only for what the format cannot hold.
  static Result<std::vector<uint8_t>> build(const TokenizerSpec& spec);

  std::span<const uint8_t> bytes() const { return bytes_; }
  uint32_t vocab_size() const { return vocab_size_; }
  bool ignore_merges() const { return (flags_ & kIgnoreMerges) != 0; }
  bool fuse_unk() const { return (flags_ & kFuseUnk) != 0; }
  bool has_unk() const { return (flags_ & kHasUnk) != 0; }
  uint32_t unk_id() const { return unk_id_; }
  const std::array<uint32_t, 256>& byte_ids() const { return byte_ids_; }

  // An id that is not in use gives a view without kTokenPresent.
  TokenView token(uint32_t id) const;
  // The id of the token that stands for these bytes.
  std::optional<uint32_t> find(std::string_view bytes, bool verbatim) const;
  MergeHit merge(uint32_t left, uint32_t right) const;

  size_t added_count(bool normalized) const { return added(normalized).size / kAddedBytes; }
  AddedRecord added_token(bool normalized, size_t index) const;

  std::vector<NormalizerKind> normalizers() const;
  std::vector<PreTokenizerStep> pre_tokenizers() const;
  std::span<const uint32_t> prefix() const { return prefix_; }
  std::span<const uint32_t> suffix() const { return suffix_; }

 private:
  friend class BlobWriter;

  enum Flag : uint32_t { kIgnoreMerges = 1, kFuseUnk = 2, kHasUnk = 4, kKnownFlags = 7 };
  enum Section {
    kPool,
    kTokens,
    kTokenSlots,
    kMergeSlots,
    kByteIds,
    kAddedRaw,
    kAddedNormal,
    kNormalizers,
    kSteps,
    kPrefix,
    kSuffix,
    kSectionCount
  };
  struct Header {
    char magic[8];
    uint32_t version;
    uint32_t flags;
    uint64_t size;
    uint32_t vocab_size;
    uint32_t unk_id;
    uint64_t seed;
    uint32_t token_probe;
    uint32_t merge_probe;
    struct {
      uint64_t offset;
      uint64_t size;
    } sections[kSectionCount];
  };
  static_assert(sizeof(Header) == 48 + 16 * kSectionCount);
  struct Bytes {
    const uint8_t* data = nullptr;
    uint64_t size = 0;
  };

  static constexpr uint32_t kVersion = 1;
  static constexpr size_t kTokenBytes = 8;
  static constexpr size_t kMergeBytes = 16;
  static constexpr size_t kAddedBytes = 16;
  static constexpr size_t kStepBytes = 16;

  static uint32_t load(const uint8_t* at) {
    uint32_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static uint64_t hash_pair(uint32_t left, uint32_t right, uint64_t seed);
  const Bytes& added(bool normalized) const { return sections_[normalized ? kAddedNormal : kAddedRaw]; }
  // Empty if it does not lie inside of the pool.
  std::string_view pooled(uint32_t offset, uint32_t length) const;
  Status check_added(bool normalized) const;
  Status read_small_sections();

  std::span<const uint8_t> bytes_;
  std::array<Bytes, kSectionCount> sections_{};
  uint32_t flags_ = 0;
  uint32_t vocab_size_ = 0;
  uint32_t unk_id_ = kNoToken;
  uint64_t seed_ = 0;
  uint32_t token_probe_ = 0;
  uint32_t merge_probe_ = 0;
  uint64_t token_mask_ = 0;
  uint64_t merge_mask_ = 0;
  std::array<uint32_t, 256> byte_ids_{};
  std::vector<uint32_t> prefix_;
  std::vector<uint32_t> suffix_;
};

}  // namespace tandem
