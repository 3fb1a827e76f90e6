#include "tokenizer/import/tokenizer_json_steps.h"

#include "base/try.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

Result<std::string> required_string(const Json& object, const char* key, std::string_view type) {
  TANDEM_ASSIGN(std::optional<std::string> value, json_string(object, key));
  if (!value) return corrupt("the tokenizer's {} has no \"{}\"", type, key);
  return *std::move(value);
}

Result<std::string> required_character(const Json& object, const char* key, std::string_view type) {
  TANDEM_ASSIGN(std::string text, required_string(object, key, type));
  if (text.empty() || next_utf8(text).length != text.size()) {
    return corrupt("the tokenizer's {} should have one character as \"{}\", but has \"{}\"", type, key, text);
  }
  return text;
}

struct Pattern {
  bool is_regex = false;
  std::string text;
};

// {"Regex": …} or {"String": …}
Result<Pattern> read_pattern(const Json& object, std::string_view type) {
  const Json* pattern = json_member(object, "pattern");
  if (pattern == nullptr) return corrupt("the tokenizer's {} has no \"pattern\"", type);
  TANDEM_ASSIGN(std::optional<std::string> regex, json_string(*pattern, "Regex"));
  if (regex) return Pattern{true, *std::move(regex)};
  TANDEM_ASSIGN(std::optional<std::string> literal, json_string(*pattern, "String"));
  if (!literal) return corrupt("the tokenizer's {} has neither a \"Regex\" nor a \"String\" pattern", type);
  return Pattern{false, *std::move(literal)};
}

Result<SplitBehavior> read_behavior(const Json& step, std::string_view type) {
  TANDEM_ASSIGN(const std::optional<std::string> name, json_string(step, "behavior"));
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated" || (!name && type == "Punctuation")) return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  return unsupported("the tokenizer's {} has the unknown behavior \"{}\"", type, name.value_or(""));
}

// Metaspace is a pre-tokenizer and a decoder with the same options.
template <typename Kind>
Result<TokenizerStep<Kind>> read_metaspace(const Json& object, Kind kind) {
  TokenizerStep<Kind> step;
  step.kind = kind;
  TANDEM_ASSIGN(step.pattern, required_character(object, "replacement", "Metaspace"));
  TANDEM_ASSIGN(const std::optional<std::string> name, json_string(object, "prepend_scheme"));
  TANDEM_ASSIGN(const std::optional<bool> add_prefix_space, json_bool(object, "add_prefix_space"));
  PrependScheme scheme = PrependScheme::kAlways;
  if (name == "first") {
    scheme = PrependScheme::kFirst;
  } else if (name == "never") {
    scheme = PrependScheme::kNever;
  } else if (name && name != "always") {
    return unsupported("the tokenizer's Metaspace has the unknown prepend_scheme \"{}\"", *name);
  }
  // Old files have add_prefix_space only.
  if (add_prefix_space == false) {
    if (name && scheme != PrependScheme::kNever) {
      return corrupt("the tokenizer's Metaspace has add_prefix_space false and prepend_scheme \"{}\"", *name);
    }
    scheme = PrependScheme::kNever;
  }
  TANDEM_ASSIGN(const bool split, json_flag(object, "split", true));
  step.options = metaspace_options(scheme, split);
  return step;
}

Result<NormalizerStep> read_normalizer_step(const Json& object, const std::string& type) {
  NormalizerStep step;
  if (type == "NFC") {
    step.kind = NormalizerKind::kNfc;
  } else if (type == "NFD") {
    step.kind = NormalizerKind::kNfd;
  } else if (type == "NFKC") {
    step.kind = NormalizerKind::kNfkc;
  } else if (type == "NFKD") {
    step.kind = NormalizerKind::kNfkd;
  } else if (type == "Lowercase") {
    step.kind = NormalizerKind::kLowercase;
  } else if (type == "StripAccents") {
    step.kind = NormalizerKind::kStripAccents;
  } else if (type == "Nmt") {
    step.kind = NormalizerKind::kNmt;
  } else if (type == "ByteLevel") {
    step.kind = NormalizerKind::kByteLevel;
  } else if (type == "Strip") {
    step.kind = NormalizerKind::kStrip;
    TANDEM_ASSIGN(const bool left, json_flag(object, "strip_left", true));
    TANDEM_ASSIGN(const bool right, json_flag(object, "strip_right", true));
    step.options = (left ? kStripLeft : 0u) | (right ? kStripRight : 0u);
  } else if (type == "Prepend") {
    step.kind = NormalizerKind::kPrepend;
    TANDEM_ASSIGN(step.content, required_string(object, "prepend", type));
  } else if (type == "Replace") {
    TANDEM_ASSIGN(Pattern pattern, read_pattern(object, type));
    step.kind = pattern.is_regex ? NormalizerKind::kReplaceRegex : NormalizerKind::kReplaceLiteral;
    step.pattern = std::move(pattern.text);
    TANDEM_ASSIGN(step.content, required_string(object, "content", type));
  } else {
    return unsupported("the tokenizer's normalizer \"{}\" is not supported", type);
  }
  return step;
}

Status read_byte_level(const Json& object, TokenizerSpec& spec) {
  TANDEM_ASSIGN(const bool prefix, json_flag(object, "add_prefix_space", true));
  TANDEM_ASSIGN(const bool use_regex, json_flag(object, "use_regex", true));
  if (prefix) spec.pre_tokenizers.push_back({PreTokenizerKind::kAddPrefixSpace});
  if (use_regex) {
    spec.pre_tokenizers.push_back(
        {PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated), std::string(kGpt2Pattern)});
  }
  spec.pre_tokenizers.push_back({PreTokenizerKind::kByteLevel});
  return ok_status();
}

Status read_pre_tokenizer_step(const Json& object, const std::string& type, TokenizerSpec& spec) {
  if (type == "ByteLevel") return read_byte_level(object, spec);
  PreTokenizerStep step;
  if (type == "Split") {
    TANDEM_ASSIGN(Pattern pattern, read_pattern(object, type));
    TANDEM_ASSIGN(const SplitBehavior behavior, read_behavior(object, type));
    TANDEM_ASSIGN(const bool invert, json_flag(object, "invert", false));
    step.kind = pattern.is_regex ? PreTokenizerKind::kSplitRegex : PreTokenizerKind::kSplitLiteral;
    step.options = split_options(behavior, invert);
    step.pattern = std::move(pattern.text);
  } else if (type == "Digits") {
    TANDEM_ASSIGN(const bool individual, json_flag(object, "individual_digits", false));
    step.kind = PreTokenizerKind::kDigits;
    step.options = split_options(individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  } else if (type == "Punctuation") {
    TANDEM_ASSIGN(const SplitBehavior behavior, read_behavior(object, type));
    step.kind = PreTokenizerKind::kPunctuation;
    step.options = split_options(behavior);
  } else if (type == "Whitespace") {
    step = {PreTokenizerKind::kWhitespace, split_options(SplitBehavior::kRemoved)};
  } else if (type == "WhitespaceSplit") {
    step = {PreTokenizerKind::kWhitespaceSplit, split_options(SplitBehavior::kRemoved)};
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    step = {PreTokenizerKind::kSplitLiteral, split_options(SplitBehavior::kRemoved)};
    TANDEM_ASSIGN(step.pattern, required_character(object, "delimiter", type));
  } else if (type == "Metaspace") {
    TANDEM_ASSIGN(step, read_metaspace(object, PreTokenizerKind::kMetaspace));
  } else {
    return unsupported("the tokenizer's pre-tokenizer \"{}\" is not supported", type);
  }
  spec.pre_tokenizers.push_back(std::move(step));
  return ok_status();
}

Result<DecoderStep> read_decoder_step(const Json& object, const std::string& type) {
  DecoderStep step;
  if (type == "ByteLevel") {
    step.kind = DecoderKind::kByteLevel;
  } else if (type == "ByteFallback") {
    step.kind = DecoderKind::kByteFallback;
  } else if (type == "Fuse") {
    step.kind = DecoderKind::kFuse;
  } else if (type == "Metaspace") {
    return read_metaspace(object, DecoderKind::kMetaspace);
  } else if (type == "Replace") {
    TANDEM_ASSIGN(Pattern pattern, read_pattern(object, type));
    step.kind = pattern.is_regex ? DecoderKind::kReplaceRegex : DecoderKind::kReplaceLiteral;
    step.pattern = std::move(pattern.text);
    TANDEM_ASSIGN(step.content, required_string(object, "content", type));
  } else if (type == "Strip") {
    step.kind = DecoderKind::kStrip;
    TANDEM_ASSIGN(step.content, required_character(object, "content", type));
    TANDEM_ASSIGN(const std::optional<int64_t> start, json_int(object, "start"));
    TANDEM_ASSIGN(const std::optional<int64_t> stop, json_int(object, "stop"));
    for (const int64_t count : {start.value_or(0), stop.value_or(0)}) {
      if (count < 0 || count > 0xffff) return unsupported("the tokenizer's Strip takes {} characters off", count);
    }
    step.options = static_cast<uint32_t>(start.value_or(0)) | (static_cast<uint32_t>(stop.value_or(0)) << 16);
  } else if (type == "BPEDecoder") {
    step.kind = DecoderKind::kBpe;
    TANDEM_ASSIGN(step.pattern, required_string(object, "suffix", type));
  } else {
    return unsupported("the tokenizer's decoder \"{}\" is not supported", type);
  }
  return step;
}

}  // namespace

Status read_normalizer(const Json& object, TokenizerSpec& spec) {
  return for_each_step(object, "normalizer", "normalizers", [&](const Json& step, const std::string& type) -> Status {
    TANDEM_ASSIGN(NormalizerStep read, read_normalizer_step(step, type));
    spec.normalizers.push_back(std::move(read));
    if (spec.normalizers.size() > kMaxTokenizerSteps) return unsupported("the tokenizer has too many normalizers");
    return ok_status();
  });
}

Status read_pre_tokenizer(const Json& object, TokenizerSpec& spec) {
  return for_each_step(object, "pre-tokenizer", "pretokenizers",
                       [&](const Json& step, const std::string& type) -> Status {
                         if (spec.pre_tokenizers.size() > kMaxTokenizerSteps) {
                           return unsupported("the tokenizer has too many pre-tokenizers");
                         }
                         return read_pre_tokenizer_step(step, type, spec);
                       });
}

Status read_decoder(const Json& object, TokenizerSpec& spec) {
  return for_each_step(object, "decoder", "decoders", [&](const Json& step, const std::string& type) -> Status {
    TANDEM_ASSIGN(DecoderStep read, read_decoder_step(step, type));
    spec.decoders.push_back(std::move(read));
    if (spec.decoders.size() > kMaxTokenizerSteps) return unsupported("the tokenizer has too many decoders");
    return ok_status();
  });
}

}  // namespace tandem
