#include "tokenizer/import/vocab_merges.h"

#include "base/error.h"
#include "base/json.h"
#include "tokenizer/import/ranked_merges.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

Status read_vocab(const Json& vocab, TokenizerSpec& spec) {
  if (!vocab.is_object()) return corrupt("vocab.json is not an object of tokens and ids");
  for (const auto& [token, value] : vocab.items()) {
    if (!value.is_number_integer() || value < 0 || value >= kMaxTokenId) {
      return corrupt("the token \"{}\" of vocab.json has no valid id", token);
    }
    if (token.size() > kMaxTokenBytes) return unsupported("vocab.json has a token of {} bytes", token.size());
    spec.vocabulary.push_back({token, value.get<uint32_t>()});
  }
  return ok_status();
}

Status read_merges(std::string_view text, const TokenIds& ids, TokenizerSpec& spec) {
  if (!is_valid_utf8(text)) return corrupt("merges.txt is not valid UTF-8");
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const auto pair = split_merge(line);
    if (!pair) return corrupt("line {} of merges.txt is not two tokens with a space between them", number);
    if (const auto absent = append_merge(*pair, ids, spec)) {
      return corrupt("line {} of merges.txt needs the token \"{}\", which is not in vocab.json", number, *absent);
    }
  }
  return ok_status();
}

}  // namespace

Result<TokenizerSpec> read_vocab_and_merges(std::string_view vocab_json, std::string_view merges_txt,
                                            const TokenizerExtras& extras) {
  const std::string& name = extras.tokenizer_class;
  const bool qwen = name == "Qwen2Tokenizer";
  if (!qwen && !name.empty() && name != "GPT2Tokenizer" && name != "CodeGenTokenizer") {
    return unsupported("a vocab.json of the class \"{}\" is not supported; convert it to a tokenizer.json", name);
  }
  TokenizerSpec spec;
  TANDEM_ASSIGN(const Json vocab, parse_json(vocab_json, "vocab.json"));
  TANDEM_TRY(read_vocab(vocab, spec));
  TokenIds ids;
  for (const VocabularyEntry& entry : spec.vocabulary) ids.emplace(entry.token, entry.id);
  TANDEM_TRY(read_merges(merges_txt, ids, spec));
  if (qwen) spec.normalizers.push_back({NormalizerKind::kNfc});
  if (extras.add_prefix_space.value_or(false)) spec.pre_tokenizers.push_back({PreTokenizerKind::kAddPrefixSpace});
  spec.pre_tokenizers.push_back({PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated),
                                 std::string(qwen ? kQwen2Pattern : kGpt2Pattern)});
  spec.pre_tokenizers.push_back({PreTokenizerKind::kByteLevel});
  spec.decoders.push_back({DecoderKind::kByteLevel});
  // The special token of these classes, which their files need not name.
  if (const auto it = ids.find("<|endoftext|>"); it != ids.end()) {
    AddedToken end;
    end.content = "<|endoftext|>";
    end.id = it->second;
    end.special = true;
    spec.added_tokens.push_back(std::move(end));
  }
  return spec;
}

}  // namespace tandem
