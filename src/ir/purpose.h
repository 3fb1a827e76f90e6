// What a tensor is for. Code reads a tensor's purpose; names are for people, for JSON, and keys into the artifact.
#pragma once

#include <cstdint>
#include <string_view>

#include "tandem/status.h"

namespace tandem::ir {

enum class TensorRole : uint8_t;

// The numeric values are stored in artifacts: only append.
enum class PurposeKind : uint8_t {
  kNone = 0,         // Nothing that code looks up: an intermediate value or a weight, of `layer` or of no layer.
  kTokens = 1,       // Token ids of the call.
  kPositions = 2,    // Their positions; -1 for padding.
  kMask = 3,         // What each token sees.
  kWindowMask = 4,   // The same for layers that see the last `limit` positions only.
  kRopeRows = 5,     // Rows of a rotary table of two halves; the second is for sequences of more than `limit` tokens.
  kKeyCache = 6,     // States of `layer`: of `kv_head`, or of all heads where that is -1.
  kValueCache = 7,   //
  kKeyScales = 8,    // Scales of a quantized cache.
  kValueScales = 9,  //
  kNewKeys = 10,     // The call's own keys, which the run time writes to the key cache of the same layer and head.
  kNewValues = 11,   //
  kAllKeys = 12,     // Cached keys followed by the call's own.
  kAllValues = 13,   //
  kHidden = 14,      // The residual stream after `layer`.
  kLogits = 15,      //
  kEmbedding = 16,   // The table of token embeddings.
  kFinalNorm = 17,   // The norm after the last layer: its weights and its output.
  kLmHead = 18,      // The LM head: its weight, its bias, and the intermediate values between it and the logits.
};
inline constexpr int kPurposeKindCount = 19;

struct Purpose {
  PurposeKind kind = PurposeKind::kNone;
  int32_t layer = -1;    // -1: of no layer.
  int32_t kv_head = -1;  // Of caches and rows for them: -1 for all heads.
  int64_t limit = 0;     // kWindowMask: positions that are seen; kRopeRows: tokens of a sequence that is not long.

  bool operator==(const Purpose&) const = default;
};

std::string_view purpose_kind_name(PurposeKind kind);  // "key_cache"

constexpr bool is_mask(const Purpose& purpose) {
  return purpose.kind == PurposeKind::kMask || purpose.kind == PurposeKind::kWindowMask;
}
// Rows that are keys: of a cache, new ones, or both together. Not a cache's scales.
constexpr bool is_keys(const Purpose& purpose) {
  return purpose.kind == PurposeKind::kKeyCache || purpose.kind == PurposeKind::kNewKeys ||
         purpose.kind == PurposeKind::kAllKeys;
}
constexpr bool is_values(const Purpose& purpose) {
  return purpose.kind == PurposeKind::kValueCache || purpose.kind == PurposeKind::kNewValues ||
         purpose.kind == PurposeKind::kAllValues;
}
constexpr bool is_new_rows(const Purpose& purpose) {
  return purpose.kind == PurposeKind::kNewKeys || purpose.kind == PurposeKind::kNewValues;
}
// The final norm, the LM head and the logits: what comes after the last layer.
constexpr bool is_after_layers(const Purpose& purpose) {
  return purpose.kind == PurposeKind::kFinalNorm || purpose.kind == PurposeKind::kLmHead ||
         purpose.kind == PurposeKind::kLogits;
}

// Whether a tensor of this role may have this purpose, with the layer, head and limit that the purpose requires. The
// error says what is wrong, without the tensor's name.
Status verify_purpose(const Purpose& purpose, TensorRole role);
// Whether a graph has at most one tensor of this kind, layer, head and limit.
bool is_unique(PurposeKind kind);

// The only code that derives meaning from names: for files written before purposes were stored. Names that begin like a
// known input, output or state but do not continue like one are an error; other unknown names have no purpose.
Result<Purpose> purpose_from_name(TensorRole role, std::string_view name);

// "layers.3.mlp.residual" is {3, "mlp.residual"}, "k_new.3.0" is {3, "k_new"}; -1 and the whole name for others. For
// tables of encodings, which people exchange as JSON and which hold only names.
struct NameParts {
  int32_t layer = -1;
  std::string_view part;
};
NameParts split_name(std::string_view name);

}  // namespace tandem::ir
