// Writes compiled tokenizers; tokenizer_blob.h has the layout.
#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/import/compile_steps.h"
#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer_blob.h"

namespace tandem {
namespace {

constexpr uint32_t kProbeLimit = 128;  // A table that needs more gets another seed.
constexpr int kSeeds = 16;
constexpr uint64_t kMaxBlobBytes = 1u << 30;
constexpr size_t kMaxTrieNodes = 1u << 26;

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
    byte_level_ = is_byte_level();
    TANDEM_ASSIGN(normalizers_, compile_steps(std::span<const NormalizerStep>(spec_.normalizers)));
    TANDEM_ASSIGN(pre_tokenizers_, compile_steps(std::span<const PreTokenizerStep>(spec_.pre_tokenizers)));
    TANDEM_ASSIGN(decoders_, compile_steps(std::span<const DecoderStep>(spec_.decoders)));
    TANDEM_TRY(normalize_added());
    TANDEM_TRY(write_tokens());
    TANDEM_TRY(write_hash_tables());
    write_byte_ids();
    write_added(true);
    write_added(false);
    if (spec_.model == ModelKind::kUnigram) {
      write_scores();
      TANDEM_TRY(write_trie());
    }
    write_steps(Blob::kNormalizers, normalizers_);
    write_steps(Blob::kSteps, std::span(pre_tokenizers_).first(pre_tokenizers_.size() - byte_level_));
    write_steps(Blob::kDecoders, decoders_);
    for (const uint32_t id : spec_.prefix) put32(section(Blob::kPrefix), id);
    for (const uint32_t id : spec_.suffix) put32(section(Blob::kSuffix), id);
    return assemble();
  }

 private:
  using Blob = TokenizerBlob;
  using Merges = std::map<std::pair<uint32_t, uint32_t>, const BpeMerge*>;

  struct Token {
    std::string bytes;
    uint32_t flags = 0;
  };

  // Byte-level tokenizers whose words and tokens can be stored as bytes instead of the characters that represent them.
  bool is_byte_level() const {
    return spec_.model == ModelKind::kBpe && !spec_.byte_fallback && !spec_.pre_tokenizers.empty() &&
           spec_.pre_tokenizers.back().kind == PreTokenizerKind::kByteLevel &&
           std::count_if(spec_.pre_tokenizers.begin(), spec_.pre_tokenizers.end(),
                         [](const auto& step) { return step.kind == PreTokenizerKind::kByteLevel; }) == 1 &&
           spec_.decoders.size() == 1 && spec_.decoders[0].kind == DecoderKind::kByteLevel;
  }

  Token stored(const std::string& written) const {
    if (!byte_level_) return {written, 0};
    if (std::optional<std::string> bytes = bytes_from_byte_level(written)) return {*std::move(bytes), 0};
    return {written, kTokenVerbatim};
  }

  Status normalize_added() {
    TANDEM_ASSIGN(const Normalizer normalizer, Normalizer::create(normalizers_));
    for (const AddedToken& token : spec_.added_tokens) {
      std::string content = token.content;
      if (token.normalized && !token.as_is) {
        WorkBudget budget(token.content.size());
        TANDEM_ASSIGN(content, normalizer.normalize(token.content, budget));
      }
      if (content.size() > kMaxAddedTokenBytes) {
        return unsupported("an added token of {} bytes is longer than supported ({} at most)", content.size(),
                           kMaxAddedTokenBytes);
      }
      contents_.push_back(std::move(content));
    }
    return ok_status();
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
      token = stored(entry.token);
      token.flags |= kTokenPresent | kTokenModel;
    }
    std::map<uint32_t, std::string> decode_as;
    for (size_t i = 0; i < spec_.added_tokens.size(); ++i) {
      const AddedToken& added = spec_.added_tokens[i];
      Token& token = tokens_[added.id];
      if ((token.flags & kTokenModel) == 0) token = stored(added.content);
      token.flags |= kTokenPresent | kTokenAdded | (added.special ? kTokenSpecial : 0u);
      // Its name is for look-ups; its normalized form is what is matched in texts and decoded to.
      if (const Token form = stored(contents_[i]); form.bytes != token.bytes) {
        token.flags |= kTokenDecodesAs;
        decode_as[added.id] = form.bytes;
      }
    }
    for (const auto& [id, text] : decode_as) {
      std::vector<uint8_t>& records = section(Blob::kDecodeAs);
      put32(records, id);
      put32(records, pool(text));
      put32(records, static_cast<uint32_t>(text.size()));
      put32(records, 0);
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
    Merges ranks;
    for (const BpeMerge& merge : spec_.merges) ranks[{merge.left, merge.right}] = &merge;  // The last one counts.
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
    for (uint32_t i = 0; i < tokens_.size(); ++i) {
      // Of two tokens with the same name, the first is found; in Unigram's list, the last.
      const auto id = spec_.model == ModelKind::kUnigram ? static_cast<uint32_t>(tokens_.size()) - 1 - i : i;
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

  bool fill_merge_slots(const Merges& ranks) {
    const size_t slots = slot_count(ranks.size());
    std::vector<uint8_t>& table = section(Blob::kMergeSlots);
    table.assign(slots * Blob::kMergeBytes, 0xff);
    merge_probe_ = 0;
    for (const auto& [pair, merge] : ranks) {
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
      put32_at(table, at + 8, merge->rank);
      put32_at(table, at + 12, merge->merged);
    }
    return true;
  }

  void write_byte_ids() {
    // A byte's token comes from the model's vocabulary, even if an added token of the same name hides it.
    std::array<uint32_t, 256> ids;
    ids.fill(kNoToken);
    for (const VocabularyEntry& entry : spec_.vocabulary) {
      if (byte_level_) {
        const std::optional<std::string> bytes = bytes_from_byte_level(entry.token);
        if (bytes && bytes->size() == 1) ids[static_cast<uint8_t>((*bytes)[0])] = entry.id;
      } else if (const std::optional<uint8_t> byte = byte_of_fallback_token(entry.token)) {
        // Decoding accepts both cases, encoding only capitals.
        if (entry.token == str_format("<0x{:02X}>", *byte)) ids[*byte] = entry.id;
      }
    }
    for (const uint32_t id : ids) put32(section(Blob::kByteIds), id);
  }

  void write_added(bool normalized) {
    std::map<std::string_view, const AddedToken*> sorted;
    for (size_t i = 0; i < spec_.added_tokens.size(); ++i) {
      if (spec_.added_tokens[i].normalized != normalized || contents_[i].empty()) continue;
      sorted.emplace(contents_[i], &spec_.added_tokens[i]);
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

  template <typename Steps>
  void write_steps(Blob::Section which, const Steps& steps) {
    std::vector<uint8_t>& records = section(which);
    for (const auto& step : steps) {
      put32(records, static_cast<uint32_t>(step.kind));
      put32(records, step.options);
      put32(records, pool(step.pattern));
      put32(records, static_cast<uint32_t>(step.pattern.size()));
      put32(records, pool(step.content));
      put32(records, static_cast<uint32_t>(step.content.size()));
    }
  }

  void write_scores() {
    std::vector<uint8_t>& scores = section(Blob::kScores);
    scores.resize(tokens_.size() * Blob::kScoreBytes);
    for (const VocabularyEntry& entry : spec_.vocabulary) {
      std::memcpy(scores.data() + entry.id * Blob::kScoreBytes, &entry.score, sizeof entry.score);
    }
  }

  // Breadth first, so that the children of a node are next to each other.
  Status write_trie() {
    std::vector<std::pair<std::string_view, uint32_t>> sorted;
    for (const VocabularyEntry& entry : spec_.vocabulary) {
      if (!entry.token.empty()) sorted.emplace_back(entry.token, entry.id);
    }
    std::sort(sorted.begin(), sorted.end());
    struct Pending {
      size_t begin;  // These tokens are below the node, or end at it.
      size_t end;
      size_t depth;
      uint32_t label;
    };
    std::vector<Pending> nodes = {{0, sorted.size(), 0, 0}};
    std::vector<uint8_t>& records = section(Blob::kTrie);
    for (size_t i = 0; i < nodes.size(); ++i) {
      auto [begin, end, depth, label] = nodes[i];
      uint32_t id = kNoToken;
      // Of equal tokens, which are sorted by id, the last one counts.
      for (; begin < end && sorted[begin].first.size() == depth; ++begin) id = sorted[begin].second;
      const size_t first_child = nodes.size();
      while (begin < end) {
        const char byte = sorted[begin].first[depth];
        size_t last = begin;
        while (last < end && sorted[last].first[depth] == byte) ++last;
        nodes.push_back({begin, last, depth + 1, static_cast<uint8_t>(byte)});
        begin = last;
      }
      if (nodes.size() > kMaxTrieNodes) return unsupported("the tokenizer's vocabulary is too large for a trie");
      put32(records, static_cast<uint32_t>(first_child));
      put32(records, id);
      put32(records, label | (static_cast<uint32_t>(nodes.size() - first_child) << 8));
    }
    return ok_status();
  }

  Result<std::vector<uint8_t>> assemble() {
    Blob::Header header{};
    std::memcpy(header.magic, "TDMTOKEN", 8);
    header.version = Blob::kVersion;
    header.flags = (spec_.ignore_merges ? Blob::kIgnoreMerges : 0u) | (spec_.fuse_unk ? Blob::kFuseUnk : 0u) |
                   (spec_.has_unk ? Blob::kHasUnk : 0u) | (byte_level_ ? Blob::kByteLevel : 0u) |
                   (spec_.byte_fallback ? Blob::kByteFallback : 0u) |
                   (spec_.model == ModelKind::kUnigram ? Blob::kUnigram : 0u);
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
  bool byte_level_ = false;
  std::vector<NormalizerStep> normalizers_;  // The steps with their patterns compiled.
  std::vector<PreTokenizerStep> pre_tokenizers_;
  std::vector<DecoderStep> decoders_;
  std::vector<std::string> contents_;  // Of the added tokens, normalized where they are matched in normalized text.
  std::vector<Token> tokens_;
  std::array<std::vector<uint8_t>, Blob::kSectionCount> sections_;
  uint64_t seed_ = 0;
  uint32_t token_probe_ = 0;
  uint32_t merge_probe_ = 0;
};

Result<std::vector<uint8_t>> compile_tokenizer(const TokenizerSpec& spec) { return BlobWriter(spec).run(); }

}  // namespace tandem
