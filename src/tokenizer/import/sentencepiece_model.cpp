#include "tokenizer/import/sentencepiece_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "tokenizer/import/piece_merges.h"
#include "unicode/utf8.h"

namespace tandem {
namespace {

constexpr std::string_view kSpace = "\xE2\x96\x81";  // U+2581, which stands for a space.

// One field of a protocol buffer message: its number, and a number or some bytes.
struct Field {
  uint64_t number = 0;
  uint64_t value = 0;      // Variable-length and fixed-size numbers.
  std::string_view bytes;  // Strings and messages.
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  // The next field, or nothing at the end.
  Result<std::optional<Field>> next() {
    if (rest_.empty()) return std::optional<Field>();
    TANDEM_ASSIGN(const uint64_t key, variable_number());
    Field field;
    field.number = key >> 3;
    switch (key & 7) {
      case 0: {
        TANDEM_ASSIGN(field.value, variable_number());
        break;
      }
      case 1: {
        TANDEM_ASSIGN(field.value, fixed_number(8));
        break;
      }
      case 2: {
        TANDEM_ASSIGN(const uint64_t length, variable_number());
        if (length > rest_.size()) return corrupt("the sentencepiece model is cut off");
        field.bytes = rest_.substr(0, length);
        rest_.remove_prefix(length);
        break;
      }
      case 5: {
        TANDEM_ASSIGN(field.value, fixed_number(4));
        break;
      }
      default: return corrupt("the sentencepiece model has a field of an unknown kind");
    }
    return std::optional<Field>(field);
  }

 private:
  Result<uint64_t> variable_number() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return corrupt("the sentencepiece model is cut off");
      const auto byte = static_cast<uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return corrupt("the sentencepiece model has a number that does not end");
  }

  Result<uint64_t> fixed_number(size_t bytes) {
    if (rest_.size() < bytes) return corrupt("the sentencepiece model is cut off");
    uint64_t value = 0;
    std::memcpy(&value, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
    return value;
  }

  std::string_view rest_;
};

// Calls visit(field) for all fields of a message.
template <typename Visit>
Status for_each_field(std::string_view message, Visit&& visit) {
  FieldReader reader(message);
  while (true) {
    TANDEM_ASSIGN(const std::optional<Field> field, reader.next());
    if (!field) return ok_status();
    TANDEM_TRY(visit(*field));
  }
}

Status read_piece(std::string_view message, SentencePieceModel& model) {
  if (model.pieces.size() >= kMaxTokenId) return unsupported("the sentencepiece model has too many pieces");
  SentencePieceModel::Piece piece;
  TANDEM_TRY(for_each_field(message, [&](const Field& field) -> Status {
    if (field.number == 1) piece.text = field.bytes;
    if (field.number == 2) {
      const auto bits = static_cast<uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof bits);
    }
    if (field.number == 3) {
      if (field.value < 1 || field.value > 6) return unsupported("the sentencepiece model has a piece of unknown type");
      piece.type = static_cast<PieceType>(field.value);
    }
    return ok_status();
  }));
  if (!is_valid_utf8(piece.text)) return corrupt("the sentencepiece model has a piece that is not valid UTF-8");
  if (piece.text.size() > kMaxAddedTokenBytes || !std::isfinite(piece.score)) {
    return corrupt("the sentencepiece model has an impossible piece (number {})", model.pieces.size());
  }
  model.pieces.push_back(std::move(piece));
  return ok_status();
}

Status read_trainer(std::string_view message, SentencePieceModel& model) {
  return for_each_field(message, [&](const Field& field) -> Status {
    switch (field.number) {
      case 3: model.model_type = field.value; break;
      case 24: model.whitespace_is_suffix = field.value != 0; break;
      case 35: model.byte_fallback = field.value != 0; break;
      case 41: model.bos_id = static_cast<int32_t>(field.value); break;
      case 42: model.eos_id = static_cast<int32_t>(field.value); break;
      default: break;
    }
    return ok_status();
  });
}

Status read_normalizer(std::string_view message, SentencePieceModel& model) {
  return for_each_field(message, [&](const Field& field) -> Status {
    switch (field.number) {
      case 1: model.normalizer = field.bytes; break;
      case 2: model.chars_map = field.bytes; break;
      case 3: model.add_dummy_prefix = field.value != 0; break;
      case 4: model.remove_extra_whitespaces = field.value != 0; break;
      case 5: model.escape_whitespaces = field.value != 0; break;
      default: break;
    }
    return ok_status();
  });
}

void make_steps(const SentencePieceModel& model, TokenizerSpec& spec) {
  if (!model.chars_map.empty()) spec.normalizers.push_back({NormalizerKind::kCharsMap, 0, model.chars_map});
  if (model.remove_extra_whitespaces) {
    spec.normalizers.push_back({NormalizerKind::kReplaceRegex, 0, R"(\A +| +\z)", ""});
    spec.normalizers.push_back({NormalizerKind::kReplaceRegex, 0, " {2,}", " "});
  }
  const std::string space(model.escape_whitespaces ? kSpace : " ");
  if (model.add_dummy_prefix) spec.normalizers.push_back({NormalizerKind::kPrepend, 0, "", space});
  if (model.escape_whitespaces) {
    spec.normalizers.push_back({NormalizerKind::kReplaceLiteral, 0, " ", std::string(kSpace)});
  }
  spec.decoders.push_back({DecoderKind::kReplaceLiteral, 0, std::string(kSpace), " "});
  spec.decoders.push_back({DecoderKind::kByteFallback});
  spec.decoders.push_back({DecoderKind::kFuse});
  if (model.add_dummy_prefix) spec.decoders.push_back({DecoderKind::kStrip, 1, "", " "});
}

}  // namespace

bool looks_like_sentencepiece(std::string_view bytes) {
  // The first field of the message is a piece, and the first field of that its text.
  return bytes.size() > 3 && bytes[0] == '\x0a' && bytes[2] == '\x0a';
}

Result<SentencePieceModel> read_sentencepiece_model(std::string_view bytes) {
  SentencePieceModel model;
  TANDEM_TRY(for_each_field(bytes, [&](const Field& field) -> Status {
    if (field.number == 1) return read_piece(field.bytes, model);
    if (field.number == 2) return read_trainer(field.bytes, model);
    if (field.number == 3) return read_normalizer(field.bytes, model);
    return ok_status();
  }));
  if (model.pieces.empty()) return corrupt("the sentencepiece model has no pieces");
  return model;
}

Result<TokenizerSpec> make_sentencepiece_spec(const SentencePieceModel& model) {
  if (model.model_type != 1 && model.model_type != 2) {
    return unsupported("a sentencepiece model over {} is not supported; BPE and Unigram are",
                       model.model_type == 3 ? "words" : "characters");
  }
  if (model.whitespace_is_suffix) {
    return unsupported("a sentencepiece model with treat_whitespace_as_suffix is not supported");
  }
  if (model.chars_map.empty() && !model.normalizer.empty() && model.normalizer != "identity") {
    return unsupported("the sentencepiece model names the normalizer \"{}\" but does not have its table",
                       model.normalizer);
  }
  TokenizerSpec spec;
  spec.model = model.model_type == 1 ? ModelKind::kUnigram : ModelKind::kBpe;
  spec.byte_fallback = model.byte_fallback;
  spec.fuse_unk = true;
  make_steps(model, spec);
  for (uint32_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    spec.vocabulary.push_back({piece.text, id, piece.score});
    AddedToken token;
    token.content = piece.text;
    token.id = id;
    switch (piece.type) {
      case PieceType::kUnused: return unsupported("a sentencepiece model with unused pieces is not supported");
      case PieceType::kUnknown:
        spec.has_unk = true;
        spec.unk_id = id;
        [[fallthrough]];
      case PieceType::kControl: token.special = true; [[fallthrough]];
      case PieceType::kUserDefined:
        // A text is split at control pieces; user-defined pieces are matched inside a text, where spaces have become
        // U+2581.
        token.normalized = !token.special;
        token.as_is = true;
        if (!token.content.empty()) spec.added_tokens.push_back(std::move(token));
        break;
      default: break;
    }
  }
  if (spec.model == ModelKind::kBpe) {
    // The higher the score, the earlier the merge; equal scores go from left to right.
    std::vector<PieceRank> ranked;
    std::vector<float> scores;
    for (const auto& piece : model.pieces) {
      if (piece.type == PieceType::kNormal || piece.type == PieceType::kUserDefined) scores.push_back(piece.score);
    }
    std::sort(scores.begin(), scores.end(), std::greater<>());
    scores.erase(std::unique(scores.begin(), scores.end()), scores.end());
    for (uint32_t id = 0; id < model.pieces.size(); ++id) {
      const auto& piece = model.pieces[id];
      if (piece.type != PieceType::kNormal && piece.type != PieceType::kUserDefined) continue;
      const auto place = std::lower_bound(scores.begin(), scores.end(), piece.score, std::greater<>());
      ranked.push_back({piece.text, id, static_cast<uint32_t>(place - scores.begin())});
    }
    TANDEM_ASSIGN(spec.merges, merges_of_pieces(ranked));
  }
  const auto is_control = [&](int64_t id) {
    return id >= 0 && static_cast<uint64_t>(id) < model.pieces.size() &&
           model.pieces[static_cast<size_t>(id)].type == PieceType::kControl;
  };
  if (is_control(model.bos_id)) spec.prefix.push_back(static_cast<uint32_t>(model.bos_id));
  return spec;
}

}  // namespace tandem
