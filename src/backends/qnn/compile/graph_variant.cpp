#include "backends/qnn/compile/graph_variant.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"

namespace tandem {
namespace {

constexpr AttentionForm kDecodeForm = {AttentionForm::Heads::kPerKvHead, true, true};
constexpr AttentionForm kPrefillForm = {AttentionForm::Heads::kPerQueryHead, true, false};

// A transfer of weights should be long, but several of them must fit into VTCM together with the activations. Above an
// eighth of 8 MB a step of a 4B or 8B model takes up to twice as long, and with 16 MB prefill still does not gain;
// below a tenth of that a step of a 0.6B model takes a third longer.
constexpr int kTileSizes[] = {256, 128, 64};
constexpr int kTilesInVtcm = 8;
constexpr int kMostVtcmMb = 8;
constexpr int kMaxTileChannels = 4096;

double bytes_per_weight(WeightFormat format) {
  switch (format) {
    case WeightFormat::kLpbq4: return 0.54;
    case WeightFormat::kI8: return 1.0;
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16: return 2.0;
  }
  return 2.0;
}

int choose_weight_tile(const NpuTarget& target, const ModelPlan& plan, const Recipe& recipe) {
  double longest = 0.0;  // Bytes of an output channel.
  for (const WeightSource& weight : plan.weights) {
    if (weight.purpose.layer < 0) continue;
    longest =
        std::max(longest, static_cast<double>(weight.cols) * bytes_per_weight(recipe.spec_for(weight.name).format));
  }
  const double available = static_cast<double>(std::min(target.vtcm_mb, kMostVtcmMb)) * (1 << 20) / kTilesInVtcm;
  for (const int channels : kTileSizes) {
    if (longest * channels <= available) return channels;
  }
  return std::end(kTileSizes)[-1];
}

Status check_shared_cache(const AttentionForms& attention) {
  const auto& forms = attention.by_tokens;
  const auto differs = std::ranges::find_if(
      forms, [&](const auto& entry) { return entry.second.splits_cache() != forms.begin()->second.splits_cache(); });
  if (differs == forms.end()) return ok_status();
  return invalid_argument(
      "methods of {} and of {} tokens cannot share a cache with the forms {} and {} of attention: mha keeps all heads "
      "in one tensor, gqa and sha one each; give mha for both or for none",
      forms.begin()->first, differs->first, attention_form_name(forms.begin()->second),
      attention_form_name(differs->second));
}

}  // namespace

std::string GraphVariant::to_json() const {
  Json forms = Json::object();
  for (const auto& [tokens, form] : attention.by_tokens) forms[std::to_string(tokens)] = attention_form_name(form);
  return dump_json(Json{{"attention", forms}, {"weight_tile", weight_tile_channels}, {"fold_mask", fold_mask}});
}

Result<GraphVariant> GraphVariant::from_json(std::string_view text) {
  TANDEM_ASSIGN(const Json json, parse_json(text, "a variant of graphs"));
  const auto has = [&](const char* key, auto is) { return json.is_object() && json.contains(key) && is(json[key]); };
  if (!has("attention", [](const Json& v) { return v.is_object(); }) ||
      !has("weight_tile", [](const Json& v) { return v.is_number_integer(); }) ||
      !has("fold_mask", [](const Json& v) { return v.is_boolean(); })) {
    return corrupt("a variant of graphs lacks \"attention\", \"weight_tile\" or \"fold_mask\"");
  }
  GraphVariant variant;
  variant.fold_mask = json["fold_mask"].get<bool>();
  const auto tile = json["weight_tile"].get<int64_t>();
  if (tile < 0 || tile > kMaxTileChannels) return corrupt("a tile of {} channels makes no sense", tile);
  variant.weight_tile_channels = static_cast<int>(tile);
  for (const auto& [key, name] : json["attention"].items()) {
    int64_t tokens = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), tokens);
    if (error != std::errc() || end != key.data() + key.size() || tokens < 1 || !name.is_string()) {
      return corrupt("\"{}\" is no number of tokens with a form of attention", key);
    }
    TANDEM_ASSIGN(variant.attention.by_tokens[tokens], parse_attention_form(name.get<std::string>()));
  }
  TANDEM_TRY(check_shared_cache(variant.attention));
  return variant;
}

GraphVariant choose_graph_variant(const NpuTarget& target, const ModelPlan& plan, const Recipe& recipe,
                                  std::span<const MethodShape> methods) {
  GraphVariant variant;
  variant.weight_tile_channels = choose_weight_tile(target, plan, recipe);
  variant.fold_mask = true;
  for (const MethodShape& method : methods) {
    variant.attention.by_tokens[method.tokens] = method.tokens == 1 ? kDecodeForm : kPrefillForm;
  }
  return variant;
}

std::string describe(const GraphVariant& variant, std::span<const MethodShape> methods, bool shares_weights) {
  std::string text;
  for (const MethodShape& method : methods) {
    text += str_format("{} {} ({})", text.empty() ? "attention" : ",",
                       attention_form_name(variant.attention.of(method.tokens)), method.name);
  }
  if (shares_weights) text += str_format("; weights by {} channels", variant.weight_tile_channels);
  if (!variant.fold_mask) text += "; masks added apart";
  return text;
}

Status apply_attention_options(const std::optional<AttentionForm>& decode, const std::optional<AttentionForm>& prefill,
                               std::span<const MethodShape> methods, GraphVariant& variant) {
  for (const MethodShape& method : methods) {
    const std::optional<AttentionForm>& given = method.tokens == 1 ? decode : prefill;
    if (given) variant.attention.by_tokens[method.tokens] = *given;
  }
  return check_shared_cache(variant.attention);
}

}  // namespace tandem
