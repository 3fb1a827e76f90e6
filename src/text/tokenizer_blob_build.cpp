// Writes compiled tokenizers; tokenizer_blob.h has the layout.
#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "base/checked.h"
#include "base/error.h"
#include "text/byte_level.h"
#include "text/tokenizer_blob.h"

namespace tandem {
namespace {

constexpr uint32_t kProbeLimit = 128;  // A table that needs more gets another seed.
constexpr int kSeeds = 16;
constexpr uint64_t kMaxBlobBytes = 1u << 30;

void put32(std::vector<uint8_t>& bytes, uint32_t value) {
  const size_t at = bytes.size();
  bytes.resize(at + 4);
  std::memcpy(bytes.data() + at, &value, 4);
}

void put32_at(std::vector<uint8_t>& bytes, size_t at, uint32_t value) { std::memcpy(bytes.data() + at, &value, 4); }

// Slots for `count` entries, at most two thirds full.
size_t slot_count(size_t count) { return std::bit_ceil(std::max<size_t>(4, count + count / 2)); }

}  // namespace

class BlobWriter {
 public:
  explicit BlobWriter(const TokenizerSpec& spec) : spec_(spec) {}

  Result<std::vector<uint8_t>> run() {
    TANDEM_TRY(write_tokens());
    TANDEM_TRY(write_hash_tables());
    write_byte_ids();
    write_added(true);
    write_added(false);
    write_lists();
    return assemble();
  }

 private:
  using Blob = TokenizerBlob;

  struct Token {
    std::string bytes;
    uint32_t flags = 0;
  };

  static Token decoded(const std::string& written) {
    if (std::optional<std::string> bytes = bytes_from_byte_level(written)) return {*std::move(bytes), 0};
    return {written, kTokenVerbatim};
  }

  uint32_t pool(std::string_view text) {
    const auto offset = static_cast<uint32_t>(section(Blob::kPool).size());
    section(Blob::kPool).insert(section(Blob::kPool).end(), text.begin(), text.end());
    return offset;
  }

  std::vector<uint8_t>& section(Blob::Section which) { return sections_[which]; }

  Status write_tokens() {
    uint32_t vocab_size = 0;
    for (const VocabularyEntry& entry : spec_.vocabulary) vocab_size = std::max(vocab_size, entry.id + 1);
    for (const AddedToken& token : spec_.added_tokens) vocab_size = std::max(vocab_size, token.id + 1);
    tokens_.resize(vocab_size);
    for (const VocabularyEntry& entry : spec_.vocabulary) {
      Token& token = tokens_[entry.id];
      if (token.flags != 0) return corrupt("two tokens of the vocabulary have the id {}", entry.id);
      token = decoded(entry.token);
      token.flags |= kTokenPresent | kTokenModel;
    }
    for (const AddedToken& added : spec_.added_tokens) {
      Token& token = tokens_[added.id];
      const uint32_t model = token.flags & kTokenModel;
      token = decoded(added.normalized ? normalize(spec_.normalizers, added.content) : added.content);
      token.flags |= kTokenPresent | kTokenAdded | model | (added.special ? kTokenSpecial : 0u);
    }
    uint64_t bytes = 0;
    for (const Token& token : tokens_) bytes += token.bytes.size();
    if (bytes > kMaxBlobBytes) return unsupported("the tokenizer's vocabulary has more than {} bytes", kMaxBlobBytes);
    for (const Token& token : tokens_) {
      put32(section(Blob::kTokens), pool(token.bytes));
      put32(section(Blob::kTokens), static_cast<uint32_t>(token.bytes.size()) | (token.flags << 24));
    }
    return ok_status();
  }

  Status write_hash_tables() {
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> ranks;
    for (size_t i = 0; i < spec_.merges.size(); ++i) {
      ranks[{spec_.merges[i].left, spec_.merges[i].right}] = static_cast<uint32_t>(i);  // The last one counts.
    }
    for (int attempt = 0; attempt < kSeeds; ++attempt) {
      seed_ = static_cast<uint64_t>(attempt) * 0x632be59bd9b4e019u;
      if (fill_token_slots() && fill_merge_slots(ranks)) return ok_status();
    }
    return unsupported("the tokenizer's vocabulary cannot be put into a hash table");
  }

  bool fill_token_slots() {
    const size_t slots = slot_count(tokens_.size());
    std::vector<uint8_t>& table = section(Blob::kTokenSlots);
    table.assign(slots * 4, 0xff);
    token_probe_ = 0;
    for (uint32_t id = 0; id < tokens_.size(); ++id) {
      const Token& token = tokens_[id];
      if ((token.flags & kTokenPresent) == 0) continue;
      const bool verbatim = (token.flags & kTokenVerbatim) != 0;
      uint64_t slot = hash_bytes(token.bytes, seed_ + (verbatim ? 1 : 0)) & (slots - 1);
      uint32_t probe = 0;
      while (Blob::load(table.data() + 4 * slot) != kNoToken) {
        slot = (slot + 1) & (slots - 1);
        if (++probe > kProbeLimit) return false;
      }
      token_probe_ = std::max(token_probe_, probe);
      put32_at(table, 4 * slot, id);
    }
    return true;
  }

  bool fill_merge_slots(const std::map<std::pair<uint32_t, uint32_t>, uint32_t>& ranks) {
    const size_t slots = slot_count(ranks.size());
    std::vector<uint8_t>& table = section(Blob::kMergeSlots);
    table.assign(slots * Blob::kMergeBytes, 0xff);
    merge_probe_ = 0;
    for (const auto& [pair, rank] : ranks) {
      uint64_t slot = Blob::hash_pair(pair.first, pair.second, seed_) & (slots - 1);
      uint32_t probe = 0;
      while (Blob::load(table.data() + Blob::kMergeBytes * slot + 8) != kNoToken) {
        slot = (slot + 1) & (slots - 1);
        if (++probe > kProbeLimit) return false;
      }
      merge_probe_ = std::max(merge_probe_, probe);
      const size_t at = Blob::kMergeBytes * slot;
      put32_at(table, at, pair.first);
      put32_at(table, at + 4, pair.second);
      put32_at(table, at + 8, rank);
      put32_at(table, at + 12, spec_.merges[rank].merged);
    }
    return true;
  }

  void write_byte_ids() {
    // A byte's token comes from the model's vocabulary, also if an added token of the same name hides it.
    std::array<uint32_t, 256> ids;
    ids.fill(kNoToken);
    for (const VocabularyEntry& entry : spec_.vocabulary) {
      const std::optional<std::string> bytes = bytes_from_byte_level(entry.token);
      if (bytes && bytes->size() == 1) ids[static_cast<uint8_t>((*bytes)[0])] = entry.id;
    }
    for (const uint32_t id : ids) put32(section(Blob::kByteIds), id);
  }

  void write_added(bool normalized) {
    std::map<std::string, const AddedToken*> sorted;
    for (const AddedToken& token : spec_.added_tokens) {
      if (token.normalized != normalized) continue;
      std::string content = normalized ? normalize(spec_.normalizers, token.content) : token.content;
      if (!content.empty()) sorted.emplace(std::move(content), &token);
    }
    std::vector<uint8_t>& records = section(normalized ? Blob::kAddedNormal : Blob::kAddedRaw);
    for (const auto& [content, token] : sorted) {
      put32(records, pool(content));
      put32(records, static_cast<uint32_t>(content.size()));
      put32(records, token->id);
      put32(records, (token->single_word ? kAddedSingleWord : 0u) | (token->lstrip ? kAddedLstrip : 0u) |
                         (token->rstrip ? kAddedRstrip : 0u));
    }
  }

  void write_lists() {
    for (const NormalizerKind kind : spec_.normalizers) put32(section(Blob::kNormalizers), static_cast<uint32_t>(kind));
    for (const PreTokenizerStep& step : spec_.pre_tokenizers) {
      std::vector<uint8_t>& records = section(Blob::kSteps);
      put32(records, static_cast<uint32_t>(step.kind));
      put32(records, static_cast<uint32_t>(step.behavior) | (step.invert ? 0x100u : 0u));
      put32(records, pool(step.pattern));
      put32(records, static_cast<uint32_t>(step.pattern.size()));
    }
    for (const uint32_t id : spec_.prefix) put32(section(Blob::kPrefix), id);
    for (const uint32_t id : spec_.suffix) put32(section(Blob::kSuffix), id);
  }

  Result<std::vector<uint8_t>> assemble() {
    Blob::Header header{};
    std::memcpy(header.magic, "TDMTOKEN", 8);
    header.version = Blob::kVersion;
    header.flags = (spec_.ignore_merges ? Blob::kIgnoreMerges : 0u) | (spec_.fuse_unk ? Blob::kFuseUnk : 0u) |
                   (spec_.has_unk ? Blob::kHasUnk : 0u);
    header.vocab_size = static_cast<uint32_t>(tokens_.size());
    header.unk_id = spec_.unk_id.value_or(kNoToken);
    header.seed = seed_;
    header.token_probe = token_probe_;
    header.merge_probe = merge_probe_;
    uint64_t size = round_up(sizeof header, 8);
    for (size_t i = 0; i < Blob::kSectionCount; ++i) {
      header.sections[i].offset = size;
      header.sections[i].size = sections_[i].size();
      size = round_up(size + sections_[i].size(), 8);
    }
    if (size > 2 * kMaxBlobBytes) return unsupported("the tokenizer is too large: {} bytes compiled", size);
    header.size = size;
    std::vector<uint8_t> blob(size);
    std::memcpy(blob.data(), &header, sizeof header);
    for (size_t i = 0; i < Blob::kSectionCount; ++i) {
      if (sections_[i].empty()) continue;
      std::memcpy(blob.data() + header.sections[i].offset, sections_[i].data(), sections_[i].size());
    }
    return blob;
  }

  const TokenizerSpec& spec_;
  std::vector<Token> tokens_;
  std::array<std::vector<uint8_t>, Blob::kSectionCount> sections_;
  uint64_t seed_ = 0;
  uint32_t token_probe_ = 0;
  uint32_t merge_probe_ = 0;
};

Result<std::vector<uint8_t>> TokenizerBlob::build(const TokenizerSpec& spec) { return BlobWriter(spec).run(); }

}  // namespace tandem
