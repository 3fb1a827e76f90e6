// The compiled form of a tokenizer: one flat range of bytes that is used in place, mapped from an artifact.
//
// Little-endian, version 3. A header of fixed size names the sections (byte offset and byte count, from the start of
// the blob, each 8-aligned); the sections are arrays of fixed-size records:
//   pool          the bytes of all strings
//   tokens        per id: {u32 offset, u32 length (24 bits) and TokenFlag (8 bits)} into the pool
//   token_slots   u32 ids, kNoToken if empty; their number is a power of two; open addressing with linear probing by
//                 hash_bytes(bytes, seed + (verbatim ? 1 : 0)), at most `token_probe` slots from home
//   merge_slots   {u32 left, u32 right, u32 rank, u32 merged}; empty if rank is kNoToken; the same by hash_pair
//   byte_ids      256 × u32: the token that is this one byte (kByteLevel), or <0xNN> (kByteFallback), or kNoToken
//   added_raw     {u32 offset, u32 length, u32 id, u32 AddedFlag}, sorted by bytes: matched in the unnormalized text
//   added_normal  the same, matched in normalized text
//   normalizers   {u32 kind, u32 options, u32 offset and u32 length of the pattern, the same of the content}; the
//                 pattern of a regular expression is in its compiled form (regex_format.h)
//   steps         the same: the pre-tokenizers
//   prefix, suffix  u32 ids
//   decoders      as normalizers
//   decode_as     {u32 id, u32 offset, u32 length, u32 zero}, sorted by id: tokens that decode to something other than
//                 their name (kTokenDecodesAs)
//   scores        f64 per id; Unigram only
//   trie          {u32 first child, u32 id or kNoToken, u32 label (8 bits) and number of children (9 bits)}; the
//                 root is the first; the children of a node are next to each other, sorted by label; Unigram only
// Older versions are read too. Version 2 has regular expressions as text: those that most byte-level tokenizers split
// by are known (split_patterns.h), others are refused. Version 1, from the first release, also ends after the suffix,
// its normalizers are only {u32 kind}, its steps have no content, and it is always kByteLevel. With kByteLevel, tokens
// are stored as the bytes that they stand for, else as they are written. The bytes of a blob come from a file and may
// be anything: open() checks the header and the short sections, and every look-up in the long ones checks what it
// reads, so that loading touches few pages.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

enum TokenFlag : uint32_t {
  kTokenPresent = 1,    // The id is in use.
  kTokenModel = 2,      // In the model's vocabulary; encode may produce it.
  kTokenAdded = 4,      // An added token.
  kTokenSpecial = 8,    // Omitted by decode(…, skip_special).
  kTokenVerbatim = 16,  // kByteLevel: has characters outside the byte-level alphabet, so it stands for itself.
  kTokenDecodesAs = 32  // Its decoded form is in another section.
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

  std::span<const uint8_t> bytes() const { return bytes_; }
  uint32_t vocab_size() const { return vocab_size_; }
  bool ignore_merges() const { return (flags_ & kIgnoreMerges) != 0; }
  bool fuse_unk() const { return (flags_ & kFuseUnk) != 0; }
  bool has_unk() const { return (flags_ & kHasUnk) != 0; }
  // Words are bytes, tokens are bytes, and decoding concatenates them.
  bool byte_level() const { return (flags_ & kByteLevel) != 0; }
  bool byte_fallback() const { return (flags_ & kByteFallback) != 0; }
  ModelKind model() const { return (flags_ & kUnigram) != 0 ? ModelKind::kUnigram : ModelKind::kBpe; }
  uint32_t unk_id() const { return unk_id_; }
  const std::array<uint32_t, 256>& byte_ids() const { return byte_ids_; }

  // An unused id gives a view without kTokenPresent.
  TokenView token(uint32_t id) const;
  // What decoding writes for a token.
  std::string_view decoded(uint32_t id, const TokenView& token) const;
  // The id of the token that stands for these bytes.
  std::optional<uint32_t> find(std::string_view bytes, bool verbatim) const;
  MergeHit merge(uint32_t left, uint32_t right) const;

  // Unigram: the score of a token, and a walk through the trie, from node 0.
  double score(uint32_t id) const;
  struct TrieNode {
    uint32_t first_child = 0;
    uint32_t child_count = 0;
    uint32_t id = kNoToken;
  };
  TrieNode trie_root() const { return trie_node(0); }
  std::optional<TrieNode> trie_child(const TrieNode& node, uint8_t label) const;

  size_t added_count(bool normalized) const { return added(normalized).size / kAddedBytes; }
  AddedRecord added_token(bool normalized, size_t index) const;

  std::vector<NormalizerStep> normalizers() const { return steps<NormalizerKind>(kNormalizers); }
  std::vector<PreTokenizerStep> pre_tokenizers() const { return steps<PreTokenizerKind>(kSteps); }
  std::vector<DecoderStep> decoders() const { return steps<DecoderKind>(kDecoders); }
  std::span<const uint32_t> prefix() const { return prefix_; }
  std::span<const uint32_t> suffix() const { return suffix_; }

 private:
  friend class BlobWriter;

  enum Flag : uint32_t {
    kIgnoreMerges = 1,
    kFuseUnk = 2,
    kHasUnk = 4,
    kByteLevel = 8,
    kByteFallback = 16,
    kUnigram = 32,
    kKnownFlags = 63
  };
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
    kDecoders,
    kDecodeAs,
    kScores,
    kTrie,
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

  static constexpr uint32_t kVersion = 3;
  static constexpr uint32_t kFirstCompiledVersion = 3;
  static constexpr size_t kFirstVersionSections = kDecoders;
  static constexpr size_t kTokenBytes = 8;
  static constexpr size_t kMergeBytes = 16;
  static constexpr size_t kAddedBytes = 16;
  static constexpr size_t kStepBytes = 24;
  static constexpr size_t kDecodeAsBytes = 16;
  static constexpr size_t kScoreBytes = 8;
  static constexpr size_t kTrieBytes = 12;

  static uint32_t load(const uint8_t* at) {
    uint32_t value;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  static uint64_t hash_pair(uint32_t left, uint32_t right, uint64_t seed);
  const Bytes& added(bool normalized) const { return sections_[normalized ? kAddedNormal : kAddedRaw]; }
  // Empty if it is not inside the pool.
  std::string_view pooled(uint32_t offset, uint32_t length) const;
  TrieNode trie_node(uint64_t index) const;
  template <typename Kind>
  std::vector<TokenizerStep<Kind>> steps(Section section) const;
  // For a record of a normalizer, pre-tokenizer or decoder.
  size_t step_bytes(Section section) const {
    if (version_ > 1) return kStepBytes;
    return section == kNormalizers ? 4 : 16;
  }
  Status check_added(bool normalized) const;
  Status check_steps(Section section, uint32_t last_kind) const;
  Status read_small_sections();

  std::span<const uint8_t> bytes_;
  std::array<Bytes, kSectionCount> sections_{};
  uint32_t version_ = kVersion;
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

template <typename Kind>
std::vector<TokenizerStep<Kind>> TokenizerBlob::steps(Section section) const {
  std::vector<TokenizerStep<Kind>> steps;
  const size_t bytes = step_bytes(section);
  for (uint64_t at = 0; at < sections_[section].size; at += bytes) {
    const uint8_t* record = sections_[section].data + at;
    TokenizerStep<Kind> step;
    step.kind = static_cast<Kind>(load(record));
    if (bytes >= 16) {
      step.options = load(record + 4);
      step.pattern = pooled(load(record + 8), load(record + 12));
    }
    step.is_compiled = version_ >= kFirstCompiledVersion && is_regex(step.kind);
    if (bytes >= 24) step.content = pooled(load(record + 16), load(record + 20));
    steps.push_back(std::move(step));
  }
  return steps;
}

}  // namespace tandem
