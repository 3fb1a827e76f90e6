#include "text/tokenizer.h"

#include <deque>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/byte_level.h"
#include "text/gzip.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_blob.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxJsonBytes = 256u << 20;
constexpr size_t kMaxTextBytes = 1u << 30;

// Remembers where in a call's output the ids of a word are, so that a word that comes again costs a copy.
class WordCache {
 public:
  explicit WordCache(size_t text_bytes) {
    // In short texts too few words come twice to be worth a table.
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
  std::vector<uint8_t> owned;  // Empty if the blob belongs to somebody else.
  TokenizerBlob blob;
  AddedTokenMatcher raw;
  AddedTokenMatcher normal;
  std::vector<NormalizerKind> normalizers;
  PreTokenizer pre_tokenizer;
};

Result<Tokenizer> Tokenizer::open(std::vector<uint8_t> owned, std::span<const uint8_t> blob) {
  auto impl = std::make_shared<Impl>();
  impl->owned = std::move(owned);
  TANDEM_ASSIGN(impl->blob, TokenizerBlob::open(impl->owned.empty() ? blob : impl->owned));
  impl->raw = AddedTokenMatcher(impl->blob, false);
  impl->normal = AddedTokenMatcher(impl->blob, true);
  impl->normalizers = impl->blob.normalizers();
  TANDEM_ASSIGN(impl->pre_tokenizer, PreTokenizer::create(impl->blob.pre_tokenizers()));
  return Tokenizer(std::move(impl));
}

Result<Tokenizer> Tokenizer::from_json(std::string_view tokenizer_json) {
  if (tokenizer_json.size() > kMaxJsonBytes) {
    return corrupt("tokenizer.json has {} bytes, more than such a file can have", tokenizer_json.size());
  }
  std::vector<uint8_t> blob;
  {
    TANDEM_ASSIGN(const Json json, parse_json(tokenizer_json, "tokenizer.json"));
    TANDEM_ASSIGN(const TokenizerSpec spec, read_tokenizer_spec(json));
    TANDEM_ASSIGN(blob, TokenizerBlob::build(spec));
  }
  return open(std::move(blob), {});
}

Result<Tokenizer> Tokenizer::from_file(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  const auto read = [&]() -> Result<Tokenizer> {
    if (!is_gzip(bytes)) return from_json(bytes);
    TANDEM_ASSIGN(const std::string json, gunzip(bytes, kMaxJsonBytes));
    return from_json(json);
  };
  Result<Tokenizer> tokenizer = read();
  if (!tokenizer.ok()) return with_context(std::move(tokenizer).error(), "{}", path.string());
  return tokenizer;
}

Result<Tokenizer> Tokenizer::from_blob(std::span<const uint8_t> blob) { return open({}, blob); }

std::vector<uint8_t> Tokenizer::serialize() const { return {impl_->blob.bytes().begin(), impl_->blob.bytes().end()}; }

Result<std::vector<int32_t>> Tokenizer::encode(std::string_view text, bool add_special) const {
  if (text.size() > kMaxTextBytes) {
    return invalid_argument("a text of {} bytes is too long to tokenize at once; {} are the most", text.size(),
                            kMaxTextBytes);
  }
  const Impl& impl = *impl_;
  std::string repaired;
  if (!is_valid_utf8(text)) {
    append_utf8_lossy(repaired, text);
    text = repaired;
  }

  std::vector<int32_t> ids;
  ids.reserve(text.size() / 4 + 16);
  if (add_special) {
    for (const uint32_t id : impl.blob.prefix()) ids.push_back(static_cast<int32_t>(id));
  }

  std::vector<TextSection> raw_sections;
  impl.raw.split(impl.blob, text, raw_sections);

  std::vector<TextSection> sections;
  std::deque<std::string> normalized;  // Keeps its strings in place: the cache points at words.
  std::optional<PreTokenizerRun> pre_tokenizer;
  BpeEncoder bpe(impl.blob);
  WordCache cache(text.size());
  for (const TextSection& raw : raw_sections) {
    if (raw.token) {
      ids.push_back(static_cast<int32_t>(*raw.token));
      continue;
    }
    std::string_view run = raw.text;
    if (!impl.normalizers.empty() && !is_trivially_nfc(run)) {
      run = normalized.emplace_back(normalize(impl.normalizers, run));
    }
    sections.clear();
    impl.normal.split(impl.blob, run, sections);
    for (const TextSection& section : sections) {
      if (section.token) {
        ids.push_back(static_cast<int32_t>(*section.token));
        continue;
      }
      if (!pre_tokenizer) pre_tokenizer.emplace(impl.pre_tokenizer);
      TANDEM_ASSIGN(const std::vector<std::string_view>* words, pre_tokenizer->split(section.text));
      for (const std::string_view word : *words) {
        if (cache.append(word, ids)) continue;
        const size_t begin = ids.size();
        TANDEM_TRY(bpe.encode(word, ids));
        cache.remember(word, begin, ids.size());
      }
    }
  }
  if (add_special) {
    for (const uint32_t id : impl.blob.suffix()) ids.push_back(static_cast<int32_t>(id));
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0) continue;
    const TokenView token = impl_->blob.token(static_cast<uint32_t>(id));
    if (skip_special && (token.flags & kTokenSpecial) != 0) continue;
    bytes.append(token.bytes);
  }
  if (is_valid_utf8(bytes)) return bytes;
  std::string text;
  append_utf8_lossy(text, bytes);
  return text;
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->blob.vocab_size()); }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const auto find = [&](std::string_view written) {
    const std::optional<std::string> bytes = bytes_from_byte_level(written);
    return bytes ? impl_->blob.find(*bytes, false) : impl_->blob.find(written, true);
  };
  std::optional<uint32_t> id = find(token);
  // Added tokens that are matched in normalized text are kept in normalized form.
  if (!id && !impl_->normalizers.empty() && is_valid_utf8(token)) id = find(normalize(impl_->normalizers, token));
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
