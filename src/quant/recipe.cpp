#include "quant/recipe.h"

#include <algorithm>
#include <array>

namespace tandem {
namespace {

constexpr std::string_view kKvNames[] = {"fp32", "fp16", "u8", "u16"};
constexpr std::string_view kActivationNames[] = {"int8", "int16", "auto"};
constexpr std::string_view kPresets[] = {"fp32", "fp16", "bf16", "w8", "w4"};

// Where weights are rounded to integers. They cost nothing at run time, and docs/quantization.md has what they gain.
constexpr Transforms kIntegerTransforms = {
    .fold_norms = true, .equalize_norms = true, .equalize_keys = true, .equalize_values = true, .equalize_mlp = true};

Recipe uniform(std::string_view name, WeightFormat format) {
  Recipe recipe;
  recipe.name = name;
  recipe.weights = recipe.embedding = recipe.head = {format, 0};
  return recipe;
}

}  // namespace

std::string_view kv_format_name(KvFormat format) { return kKvNames[static_cast<size_t>(format)]; }

std::optional<KvFormat> kv_format_from_name(std::string_view name) {
  const auto it = std::find(std::begin(kKvNames), std::end(kKvNames), name);
  if (it == std::end(kKvNames)) return std::nullopt;
  return static_cast<KvFormat>(it - std::begin(kKvNames));
}

DType kv_dtype(KvFormat format) {
  switch (format) {
    case KvFormat::kFp32: return DType::kF32;
    case KvFormat::kFp16: return DType::kF16;
    case KvFormat::kU8: return DType::kU8;
    case KvFormat::kU16: return DType::kU16;
  }
  return DType::kF32;
}

std::string_view activation_format_name(ActivationFormat format) {
  return kActivationNames[static_cast<size_t>(format)];
}

std::span<const std::string_view> recipe_presets() { return kPresets; }

std::optional<Recipe> recipe_preset(std::string_view name) {
  if (name == "w4" || name == "w8") {
    Recipe recipe = name == "w4" ? Recipe{} : uniform(name, WeightFormat::kI8);
    recipe.transforms = kIntegerTransforms;
    return recipe;
  }
  if (name == "fp16") return uniform(name, WeightFormat::kF16);
  if (name == "bf16") return uniform(name, WeightFormat::kBF16);
  if (name == "fp32") {
    Recipe recipe = uniform(name, WeightFormat::kF32);
    recipe.kv = KvFormat::kFp32;  // Lossless everywhere: the preset to compare others with.
    return recipe;
  }
  return std::nullopt;
}

WeightSpec Recipe::spec_for(std::string_view weight_name) const {
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) {
    if (rule->spec && rule->match.matches(weight_name)) return *rule->spec;
  }
  if (weight_name == "embedding") return embedding;
  if (weight_name == "head") return head;
  return weights;
}

ActivationFormat Recipe::activations_for(std::string_view weight_name) const {
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) {
    if (rule->activations && rule->match.matches(weight_name)) return *rule->activations;
  }
  return activations;
}

std::vector<std::string> Recipe::unmatched_rules(std::span<const std::string> weight_names) const {
  std::vector<std::string> unmatched;
  for (const RecipeRule& rule : rules) {
    const bool any = std::any_of(weight_names.begin(), weight_names.end(),
                                 [&](const std::string& weight) { return rule.match.matches(weight); });
    if (!any) unmatched.push_back(rule.match.pattern());
  }
  return unmatched;
}

}  // namespace tandem
