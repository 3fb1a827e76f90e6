#include "ir/purpose.h"

#include <array>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "ir/graph.h"

namespace tandem::ir {
namespace {

enum class Layer : uint8_t { kNone, kOptional, kRequired };

// What a purpose requires of its tensor.
struct PurposeRule {
  PurposeKind kind;
  std::string_view name;
  uint8_t roles;  // Bits by TensorRole.
  Layer layer = Layer::kNone;
  bool has_kv_head = false;
  bool has_limit = false;
  bool unique = true;
};

constexpr uint8_t role_bit(TensorRole role) { return static_cast<uint8_t>(1u << static_cast<unsigned>(role)); }
constexpr uint8_t kInputs = role_bit(TensorRole::kInput), kStates = role_bit(TensorRole::kState);
constexpr uint8_t kWeights = role_bit(TensorRole::kWeight), kVectors = role_bit(TensorRole::kVector);
// Computed values; they are inputs where a graph is split after them.
constexpr uint8_t kComputed = role_bit(TensorRole::kActivation) | role_bit(TensorRole::kOutput) | kInputs;
constexpr uint8_t kAnyRole = kComputed | kStates | kWeights | kVectors;

using P = PurposeKind;
constexpr std::array<PurposeRule, kPurposeKindCount> kRules = {{
    {.kind = P::kNone, .name = "none", .roles = kAnyRole, .layer = Layer::kOptional, .unique = false},
    {.kind = P::kTokens, .name = "tokens", .roles = kInputs},
    {.kind = P::kPositions, .name = "positions", .roles = kInputs},
    {.kind = P::kMask, .name = "mask", .roles = kInputs},
    {.kind = P::kWindowMask, .name = "window_mask", .roles = kInputs, .has_limit = true},
    {.kind = P::kRopeRows, .name = "rope_rows", .roles = kInputs, .has_limit = true},
    {.kind = P::kKeyCache, .name = "key_cache", .roles = kStates, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kValueCache, .name = "value_cache", .roles = kStates, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kKeyScales, .name = "key_scales", .roles = kStates, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kValueScales, .name = "value_scales", .roles = kStates, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kNewKeys, .name = "new_keys", .roles = kComputed, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kNewValues, .name = "new_values", .roles = kComputed, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kAllKeys, .name = "all_keys", .roles = kComputed, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kAllValues, .name = "all_values", .roles = kComputed, .layer = Layer::kRequired, .has_kv_head = true},
    {.kind = P::kHidden, .name = "hidden", .roles = kComputed, .layer = Layer::kRequired},
    {.kind = P::kLogits, .name = "logits", .roles = kComputed},
    {.kind = P::kEmbedding, .name = "embedding", .roles = kWeights, .unique = false},
    {.kind = P::kFinalNorm, .name = "final_norm", .roles = kVectors | kComputed, .unique = false},
    {.kind = P::kLmHead, .name = "lm_head", .roles = kWeights | kVectors | kComputed, .unique = false},
}};

constexpr bool rules_are_in_order() {
  for (size_t i = 0; i < kRules.size(); ++i) {
    if (kRules[i].kind != static_cast<PurposeKind>(i)) return false;
  }
  return true;
}
static_assert(rules_are_in_order(), "a rule stands at the place of its kind");

// A number as we write it: digits without leading zeros.
std::optional<int32_t> number_of(std::string_view text) {
  int32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < 0 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  return number;
}

// Names of caches and of rows for them: "k_cache.3" of layer 3, "k_cache.3.0" of its first head.
struct RowsPrefix {
  std::string_view prefix;
  PurposeKind kind;
  PurposeKind scales = PurposeKind::kNone;  // "k_cache.3.scales"
  uint8_t roles = 0;
};
constexpr uint8_t kMadeInside = role_bit(TensorRole::kActivation) | role_bit(TensorRole::kOutput);
constexpr RowsPrefix kRowsPrefixes[] = {
    {"k_cache.", P::kKeyCache, P::kKeyScales, kStates},
    {"v_cache.", P::kValueCache, P::kValueScales, kStates},
    {"k_new.", P::kNewKeys, P::kNone, role_bit(TensorRole::kOutput)},
    {"v_new.", P::kNewValues, P::kNone, role_bit(TensorRole::kOutput)},
    {"k_all.", P::kAllKeys, P::kNone, kMadeInside},
    {"v_all.", P::kAllValues, P::kNone, kMadeInside},
};
constexpr std::string_view kScales = ".scales", kLayers = "layers.", kHiddenPart = "mlp.residual";

Result<Purpose> rows_purpose(const RowsPrefix& rows, std::string_view name) {
  std::string_view rest = name.substr(rows.prefix.size());
  Purpose purpose{.kind = rows.kind};
  if (rows.scales != P::kNone && rest.ends_with(kScales)) {
    purpose.kind = rows.scales;
    rest.remove_suffix(kScales.size());
  }
  const size_t dot = rest.find('.');
  const auto layer = number_of(rest.substr(0, dot));
  if (layer) purpose.layer = *layer;
  if (layer && dot == std::string_view::npos) return purpose;
  const auto head = layer ? number_of(rest.substr(dot + 1)) : std::nullopt;
  if (!head) {
    return corrupt("tensor \"{}\" should be named {}LAYER or {}LAYER.HEAD", name, rows.prefix, rows.prefix);
  }
  purpose.kv_head = *head;
  return purpose;
}

Result<Purpose> input_purpose(std::string_view name) {
  if (name == "tokens") return Purpose{.kind = P::kTokens};
  if (name == "positions") return Purpose{.kind = P::kPositions};
  if (name == "mask") return Purpose{.kind = P::kMask};
  constexpr std::pair<std::string_view, PurposeKind> kLimited[] = {{"window_mask.", P::kWindowMask},
                                                                   {"rope_rows.", P::kRopeRows}};
  for (const auto& [prefix, kind] : kLimited) {
    if (!name.starts_with(prefix)) continue;
    const auto limit = number_of(name.substr(prefix.size()));
    if (!limit || *limit < 1) return corrupt("tensor \"{}\" should have a number behind \"{}\"", name, prefix);
    return Purpose{.kind = kind, .limit = *limit};
  }
  return Purpose{};
}

// "head" itself, or a part of it: "head.bias".
bool belongs_to(std::string_view name, std::string_view whole) {
  return name.starts_with(whole) && (name.size() == whole.size() || name[whole.size()] == '.');
}

}  // namespace

std::string_view purpose_kind_name(PurposeKind kind) {
  const auto index = static_cast<size_t>(kind);
  return index < kRules.size() ? kRules[index].name : "unknown";
}

bool is_unique(PurposeKind kind) { return kRules[static_cast<size_t>(kind)].unique; }

Status verify_purpose(const Purpose& purpose, TensorRole role) {
  if (static_cast<int>(purpose.kind) >= kPurposeKindCount) return corrupt("has an unknown purpose");
  const PurposeRule& rule = kRules[static_cast<size_t>(purpose.kind)];
  if ((rule.roles & role_bit(role)) == 0)
    return corrupt("cannot be {}: its role is {}", rule.name, tensor_role_name(role));
  const bool has_layer = purpose.layer >= 0;
  const bool layer_fits =
      purpose.layer >= -1 && (rule.layer == Layer::kOptional || has_layer == (rule.layer == Layer::kRequired));
  if (!layer_fits) return corrupt("is {} of layer {}", rule.name, purpose.layer);
  if (purpose.kv_head < -1 || (purpose.kv_head >= 0 && !rule.has_kv_head)) {
    return corrupt("is {} of KV head {}", rule.name, purpose.kv_head);
  }
  if (rule.has_limit ? purpose.limit < 1 : purpose.limit != 0) {
    return corrupt("is {} with a limit of {}", rule.name, purpose.limit);
  }
  return ok_status();
}

NameParts split_name(std::string_view name) {
  if (name.starts_with(kLayers)) {
    const std::string_view rest = name.substr(kLayers.size());
    const size_t dot = rest.find('.');
    const auto layer = dot == std::string_view::npos ? std::nullopt : number_of(rest.substr(0, dot));
    if (layer) return {*layer, rest.substr(dot + 1)};
  }
  for (const RowsPrefix& rows : kRowsPrefixes) {
    if (!name.starts_with(rows.prefix) || rows.roles == kMadeInside) continue;
    const std::string_view rest = name.substr(rows.prefix.size());
    const auto layer = number_of(rest.substr(0, rest.find_first_of(".[@")));
    if (layer) return {*layer, rows.prefix.substr(0, rows.prefix.size() - 1)};
  }
  return {-1, name};
}

Result<Purpose> purpose_from_name(TensorRole role, std::string_view name) {
  if (role == TensorRole::kInput) return input_purpose(name);
  for (const RowsPrefix& rows : kRowsPrefixes) {
    if (!name.starts_with(rows.prefix) || (rows.roles & role_bit(role)) == 0) continue;
    auto purpose = rows_purpose(rows, name);
    // Tensors that no caller sees may have any name.
    if (!purpose.ok() && role == TensorRole::kActivation) return Purpose{};
    return purpose;
  }
  if (role == TensorRole::kState) return Purpose{};
  const bool is_computed = role == TensorRole::kActivation || role == TensorRole::kOutput;
  if (is_computed && name == "logits") return Purpose{.kind = P::kLogits};
  if (role == TensorRole::kWeight && name == "embedding") return Purpose{.kind = P::kEmbedding};
  if (belongs_to(name, "head")) return Purpose{.kind = P::kLmHead};
  if (role != TensorRole::kWeight && belongs_to(name, "final_norm")) return Purpose{.kind = P::kFinalNorm};
  if (!name.starts_with(kLayers)) return Purpose{};
  const NameParts parts = split_name(name);
  if (is_computed && parts.layer >= 0 && parts.part == kHiddenPart) {
    return Purpose{.kind = P::kHidden, .layer = parts.layer};
  }
  return Purpose{.layer = parts.layer};
}

}  // namespace tandem::ir
