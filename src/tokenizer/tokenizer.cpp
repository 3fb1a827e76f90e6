#include "tokenizer/tokenizer.h"

#include <array>
#include <deque>

#include "base/error.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalized_origins.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/tokenizer_blob.h"
#include "tokenizer/unigram.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr size_t kMaxTextBytes = 1u << 30;
// The buffers for a word take about 20 times its size. Only tokenizers without a pre-tokenizer see long words.
constexpr size_t kMaxWordBytes = 64u << 20;

// Remembers where in a call's output the ids of a word are, so that a repeated word costs only a copy.
class WordCache {
 public:
  explicit WordCache(size_t text_bytes) {
    // In short texts, too few words repeat to be worth a table.
    if (text_bytes < 256) return;
    size_t slots = 64;
    while (slots < 4096 && slots * 16 < text_bytes) slots *= 2;
    slots_.resize(slots);
  }

  // Appends the ids of the word if it is known.
  bool append(std::string_view word, std::vector<int32_t>& ids) {
    if (slots_.empty() || word.size() > kMaxWord) return false;
    const Slot& slot = slots_[place(word)];
    if (slot.word != word || word.empty()) return false;
    if (slot.count == 1) {
      ids.push_back(ids[slot.begin]);
      return true;
    }
    ids.reserve(ids.size() + slot.count);
    for (size_t i = 0; i < slot.count; ++i) ids.push_back(ids[slot.begin + i]);
    return true;
  }

  // `word` must stay where it is for the rest of the call.
  void remember(std::string_view word, size_t begin, size_t end) {
    if (slots_.empty() || word.size() > kMaxWord) return;
    slots_[place(word)] = {word, begin, end - begin};
  }

 private:
  static constexpr size_t kMaxWord = 64;
  struct Slot {
    std::string_view word;
    size_t begin = 0;
    size_t count = 0;
  };

  size_t place(std::string_view word) const { return hash_bytes(word, 0) & (slots_.size() - 1); }

  std::vector<Slot> slots_;
};

}  // namespace

struct Tokenizer::Impl {
  std::vector<uint8_t> owned;  // Empty if the tokenizer does not own the blob.
  TokenizerBlob blob;
  AddedTokenMatcher raw;
  AddedTokenMatcher normal;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Decoder decoder;
  double lowest_score = 0;  // Unigram.
};

namespace {

// Encodes the words of one call.
class WordEncoder {
 public:
  WordEncoder(const TokenizerBlob& blob, double lowest_score, size_t text_bytes, const TokenRules& rules,
              WorkBudget& budget)
      : rules_(rules), budget_(budget), text_bytes_(text_bytes) {
    if (blob.model() == ModelKind::kUnigram) {
      unigram_.emplace(blob, lowest_score, budget);
    } else {
      bpe_.emplace(blob);
    }
  }

  // The words that follow belong to a section with this strictest origin.
  void start_section(Origin origin) {
    origin_ = origin;
    std::optional<WordCache>& cache = caches_[static_cast<size_t>(origin)];
    if (!cache) cache.emplace(text_bytes_);
    cache_ = &*cache;
  }

  Status encode(std::string_view word, std::vector<int32_t>& ids) {
    if (cache_->append(word, ids)) return ok_status();
    if (word.size() > kMaxWordBytes) {
      return invalid_argument("the text has a word of {} bytes; {} are the most", word.size(), kMaxWordBytes);
    }
    if (!budget_.spend(word.size())) {
      return resource_exhausted("the tokenizer makes too many words of this text");
    }
    const size_t begin = ids.size();
    TANDEM_TRY(encode_word(word, {}, ids));
    // Only words that would become such a token are encoded differently.
    if (origin_ != Origin::kTemplate && rules_.refuses_any(std::span(ids).subspan(begin), origin_)) {
      ids.resize(begin);
      TANDEM_TRY(encode_word(word, {&rules_, origin_}, ids));
    }
    cache_->remember(word, begin, ids.size());
    return ok_status();
  }

 private:
  Status encode_word(std::string_view word, const Refusal& refused, std::vector<int32_t>& ids) {
    return bpe_ ? bpe_->encode(word, ids, refused) : unigram_->encode(word, ids, refused);
  }

  const TokenRules& rules_;
  WorkBudget& budget_;
  size_t text_bytes_;
  Origin origin_ = Origin::kTemplate;
  WordCache* cache_ = nullptr;
  std::array<std::optional<WordCache>, 3> caches_;  // By origin: the same word may have other ids.
  std::optional<BpeEncoder> bpe_;
  std::optional<UnigramEncoder> unigram_;
};

}  // namespace

Result<Tokenizer> Tokenizer::open(std::vector<uint8_t> owned, std::span<const uint8_t> blob) {
  auto impl = std::make_shared<Impl>();
  impl->owned = std::move(owned);
  TANDEM_ASSIGN(impl->blob, TokenizerBlob::open(impl->owned.empty() ? blob : impl->owned));
  impl->raw = AddedTokenMatcher(impl->blob, false);
  impl->normal = AddedTokenMatcher(impl->blob, true);
  TANDEM_ASSIGN(impl->normalizer, Normalizer::create(impl->blob.normalizers()));
  TANDEM_ASSIGN(impl->pre_tokenizer, PreTokenizer::create(impl->blob.pre_tokenizers()));
  TANDEM_ASSIGN(impl->decoder, Decoder::create(impl->blob.decoders(), impl->blob.byte_level()));
  if (impl->blob.model() == ModelKind::kUnigram) impl->lowest_score = lowest_score(impl->blob);
  return Tokenizer(std::move(impl));
}

Result<Tokenizer> Tokenizer::from_blob(std::span<const uint8_t> blob) { return open({}, blob); }

Result<Tokenizer> Tokenizer::from_owned_blob(std::vector<uint8_t> blob) { return open(std::move(blob), {}); }

std::span<const uint8_t> Tokenizer::blob() const { return impl_->blob.bytes(); }

ControlTokens Tokenizer::control_tokens(std::string_view template_sources) const {
  return ControlTokens(impl_->blob, template_sources);
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, bool add_special) const {
  return encode(text, EncodeOptions{.add_special = add_special});
}

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return invalid_argument("a text of {} bytes is too long to tokenize at once; {} are the most", text.size(),
                            kMaxTextBytes);
  }
  if (is_valid_utf8(text)) return encode_valid(text, options);
  std::string repaired;
  append_utf8_lossy(repaired, text);
  // Tracking where the parts have moved is not worthwhile: templates write valid text.
  const OriginSpan all{0, repaired.size(), strictest_origin(options.origins, 0, text.size())};
  EncodeOptions strict = options;
  if (!options.origins.empty()) strict.origins = {&all, 1};
  return encode_valid(repaired, strict);
}

Result<std::vector<int32_t>> Tokenizer::encode_valid(std::string_view text, const EncodeOptions& options) const {
  const Impl& impl = *impl_;
  const std::span<const OriginSpan> origins = options.origins;
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 16);
  if (options.add_special) {
    for (const uint32_t id : impl.blob.prefix()) ids.push_back(static_cast<int32_t>(id));
  }

  WorkBudget budget(text.size());
  const TokenRules rules(impl.blob, options.control);
  const SectionRules raw_rules{rules, origins};
  std::vector<TextSection> raw_sections;
  TANDEM_TRY(impl.raw.split(impl.blob, text, budget, raw_sections, origins.empty() ? nullptr : &raw_rules));

  std::vector<TextSection> sections;
  std::deque<std::string> normalized;  // Keeps its strings in place: the cache points at words.
  std::optional<PreTokenizerRun> pre_tokenizer;
  WordEncoder encoder(impl.blob, impl.lowest_score, text.size(), rules, budget);
  for (const TextSection& raw : raw_sections) {
    if (raw.token) {
      ids.push_back(static_cast<int32_t>(*raw.token));
      continue;
    }
    TANDEM_ASSIGN(const std::string_view run, impl.normalizer.normalize(raw.text, normalized, budget));
    const auto raw_begin = static_cast<size_t>(raw.text.data() - text.data());
    const auto raw_origins = clip_origins(origins, raw_begin, raw_begin + raw.text.size());
    encoder.start_section(strictest_origin(raw_origins, 0, raw.text.size()));
    sections.clear();
    if (raw_origins.empty() || impl.normal.empty()) {
      TANDEM_TRY(impl.normal.split(impl.blob, run, budget, sections));
    } else {
      const auto run_origins = normalized_origins(impl.normalizer, raw.text, raw_origins, run, budget);
      const SectionRules run_rules{rules, run_origins};
      TANDEM_TRY(impl.normal.split(impl.blob, run, budget, sections, &run_rules));
    }
    for (const TextSection& section : sections) {
      if (section.token) {
        ids.push_back(static_cast<int32_t>(*section.token));
        continue;
      }
      if (!pre_tokenizer) pre_tokenizer.emplace(impl.pre_tokenizer, budget);
      const bool at_start = raw.text.data() == text.data() && section.text.data() == run.data();
      TANDEM_ASSIGN(const std::vector<std::string_view>* words, pre_tokenizer->split(section.text, at_start));
      for (const std::string_view word : *words) TANDEM_TRY(encoder.encode(word, ids));
    }
  }
  if (options.add_special) {
    for (const uint32_t id : impl.blob.suffix()) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  DecodeStream stream(impl_->decoder);
  std::string text;
  if (impl_->blob.byte_level()) {  // The same as below, at once.
    for (const int32_t id : ids) text.append(decoded_token(id, skip_special).value_or(std::string_view()));
    if (is_valid_utf8(text)) return text;
    text = stream.push(text);
    return text.append(stream.flush());
  }
  for (const int32_t id : ids) {
    if (const auto token = decoded_token(id, skip_special)) text.append(stream.push(*token));
  }
  return text.append(stream.flush());
}

const Decoder& Tokenizer::decoder() const { return impl_->decoder; }

std::optional<std::string_view> Tokenizer::decoded_token(int32_t id, bool skip_special) const {
  if (id < 0) return std::nullopt;
  const TokenView token = impl_->blob.token(static_cast<uint32_t>(id));
  if ((token.flags & kTokenPresent) == 0 || (skip_special && (token.flags & kTokenSpecial) != 0)) return std::nullopt;
  return impl_->blob.decoded(static_cast<uint32_t>(id), token);
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->blob.vocab_size()); }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  std::optional<uint32_t> id;
  if (!impl_->blob.byte_level()) {
    id = impl_->blob.find(token, false);
  } else if (const std::optional<std::string> bytes = bytes_from_byte_level(token)) {
    id = impl_->blob.find(*bytes, false);
  } else {
    id = impl_->blob.find(token, true);
  }
  if (!id) return std::nullopt;
  return static_cast<int32_t>(*id);
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && (impl_->blob.token(static_cast<uint32_t>(id)).flags & kTokenSpecial) != 0;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return id < 0 ? std::string_view() : impl_->blob.token(static_cast<uint32_t>(id)).bytes;
}

}  // namespace tandem
