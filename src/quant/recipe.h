// Recipes: the format of each weight, and the dtypes of the methods' inputs and outputs.
//
//   TANDEM_ASSIGN(Recipe recipe, Recipe::load("w4"));               // a preset, or the path of a JSON file
//   WeightSpec spec = recipe.spec_for("layers.3.mlp.down");
//
// docs/quantization.md is the reference of the JSON form.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "quant/glob.h"
#include "quant/quantize.h"
#include "quant/transforms.h"
#include "tandem/status.h"

namespace tandem {

// How keys and values are stored. On a CPU u8 has a scale and a minimum per position and head (numerics/fake_quant.h);
// on an NPU u8 and u16 have one encoding per layer, from calibration.
enum class KvFormat { kFp32, kFp16, kU8, kU16 };
std::string_view kv_format_name(KvFormat format);  // "fp32", "fp16", "u8", "u16"
std::optional<KvFormat> kv_format_from_name(std::string_view name);
DType kv_dtype(KvFormat format);

// The format of the inputs of linear layers with int8 or lpbq4 weights on a CPU: quantized at run time, with one scale
// per token (numerics/fake_quant.h).
enum class ActivationFormat {
  kInt8,
  kInt16,
  kAuto,  // One of the two for each layer, by what int8 does to it on some text
          // (compiler/calibration/choose_activations.h).
};
std::string_view activation_format_name(ActivationFormat format);  // "int8", "int16", "auto"

// What a rule leaves out is not changed by it.
struct RecipeRule {
  Glob match;
  std::optional<WeightSpec> spec;
  std::optional<ActivationFormat> activations = {};

  friend bool operator==(const RecipeRule&, const RecipeRule&) = default;
};

struct Recipe {
  std::string name = "w4";
  WeightSpec weights;  // Everything not named below.
  WeightSpec embedding{WeightFormat::kI8, 0};
  WeightSpec head{WeightFormat::kI8, 0};
  ActivationFormat activations = ActivationFormat::kInt8;
  std::vector<RecipeRule> rules;  // The last one that matches wins, over all of the above.
  KvFormat kv = KvFormat::kFp16;
  DType mask = DType::kF32;    // kF32, kF16, kU16 or kU8
  DType logits = DType::kF32;  // kF32, kF16 or kU16
  // This many of the LM head's largest logits are recomputed from the embedding's int8 rows, if the two are tied: for
  // NPUs and an LM head in 4 bits. Unset: kDefaultRescore where that is possible (compiler/target_rules.h).
  std::optional<int> rescore = {};
  Transforms transforms = {};  // Of the float weights, before they are quantized.

  // The name of a preset, or the path of a JSON file.
  static Result<Recipe> load(std::string_view preset_or_json_path);
  static Result<Recipe> from_json(std::string_view text);
  // All fields spelled out; from_json() gives an equal recipe.
  std::string to_json() const;

  // Names: "embedding", "head", "layers.N.attention.{q,k,v,o}", "layers.N.mlp.{gate,up,down}", and what models add.
  WeightSpec spec_for(std::string_view weight_name) const;
  // For the input of the linear layer with this weight.
  ActivationFormat activations_for(std::string_view weight_name) const;
  // The patterns of rules that match none of these weights: most likely misspelt.
  std::vector<std::string> unmatched_rules(std::span<const std::string> weight_names) const;

  friend bool operator==(const Recipe&, const Recipe&) = default;
};

// docs/quantization.md has the perplexities behind it.
inline constexpr int kDefaultRescore = 256;
inline constexpr int kMaxRescore = 4096;

// "fp32", "fp16", "bf16", "w8", "w4".
std::span<const std::string_view> recipe_presets();
std::optional<Recipe> recipe_preset(std::string_view name);

// For command-line options such as --kv: the value, or an error that lists the possible ones.
Result<KvFormat> parse_kv_format(std::string_view name);
Result<ActivationFormat> parse_activation_format(std::string_view name);
Result<WeightSpec> parse_weight_spec(std::string_view format);  // lpbq4 with its default block.

}  // namespace tandem
