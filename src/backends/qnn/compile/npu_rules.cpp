#include "backends/qnn/compile/npu_rules.h"

#include <algorithm>
#include <bit>

#include "backends/qnn/compile/npu_targets.h"
#include "base/error.h"
#include "base/format.h"
#include "compiler/calibration/calibration_input.h"
#include "compiler/tuning/tune_job.h"
#include "weights/transform_rules.h"

namespace tandem {
namespace {

// In an NPU's graph the embedding is a table of 16-bit numbers. Up to this size it is worth having there: only tokens
// and masks are left to the CPU.
constexpr int64_t kLargestNpuEmbedding = int64_t{32} << 20;

bool is_large_embedding(const ModelPlan& plan) { return plan.vocab_size * plan.hidden_size * 2 > kLargestNpuEmbedding; }

bool contains(const auto& list, const auto& item) { return std::ranges::find(list, item) != list.end(); }

Status check_formats(const NpuTarget& target, const ModelPlan& plan, const Recipe& recipe) {
  for (const WeightSource& weight : plan.weights) {
    if (weight.name == "embedding") continue;  // A table of its own, or the CPU's.
    const WeightFormat format = recipe.spec_for(weight.name).format;
    if (format == WeightFormat::kLpbq4 && !contains(target.weight_formats, format)) {
      return unsupported(
          "target {} (Hexagon V{}) cannot do weights of 4 bits in blocks (\"{}\" is lpbq4), which are possible from "
          "V69 on; use `recipe` w8",
          target.name, target.arch, weight.name);
    }
    if (!contains(target.weight_formats, format)) {
      return unsupported("target {} cannot do {} weights (\"{}\"); use `recipe` w4, w8 or fp16", target.name,
                         weight_format_name(format), weight.name);
    }
    if (is_quantized(format) == computes_in_f16(recipe)) {
      return unsupported(
          "target {} computes all of a graph in integers or all of it in fp16, and the recipe has both (\"{}\" is {}); "
          "use int8 where 4 bits are too few",
          target.name, weight.name, weight_format_name(format));
    }
  }
  return ok_status();
}

Status check_kv(const NpuTarget& target, const CompileOptions& options, Recipe& recipe,
                std::vector<std::string>& notes) {
  if (options.kv) recipe.kv = *options.kv;
  const bool in_f16 = computes_in_f16(recipe);
  const KvFormat usual = in_f16 ? KvFormat::kFp16 : KvFormat::kU8;
  const bool fits = in_f16 ? recipe.kv == KvFormat::kFp16 : recipe.kv == KvFormat::kU8 || recipe.kv == KvFormat::kU16;
  if (!fits) {
    if (options.kv) {
      return unsupported("target {} keeps keys and values as {} with this recipe, not as {}", target.name,
                         in_f16 ? "fp16" : "u8 or u16", kv_format_name(recipe.kv));
    }
    if (recipe.name.ends_with(".json")) {
      notes.push_back(str_format("the KV cache is {} on target {}, not {} as in the recipe", kv_format_name(usual),
                                 target.name, kv_format_name(recipe.kv)));
    }
    recipe.kv = usual;
  }
  if (!contains(target.kv_dtypes, kv_dtype(recipe.kv))) {
    return unsupported(
        "target {} (Hexagon V{}) cannot keep its KV cache as {}: products of 16-bit with 16-bit numbers are possible "
        "from V73 on; use `kv` u8",
        target.name, target.arch, kv_format_name(recipe.kv));
  }
  return ok_status();
}

// Before it the op is there, and off by 14 steps of 16 bits with heads of 128.
constexpr int kFirstArchWithRotation = 73;
// Sizes of heads that HTP rotates.
constexpr int64_t kSmallestRotation = 64, kLargestRotation = 2048;

// Why the target cannot rotate keys while the model runs; "" if it can, or if no target could.
std::string rotation_obstacle(const NpuTarget& target, const ModelPlan& plan, const Recipe& recipe) {
  if (!std::has_single_bit(static_cast<uint64_t>(plan.head_dim))) return {};
  if (computes_in_f16(recipe)) return "it rotates 16-bit integers only";
  if (target.arch < kFirstArchWithRotation) {
    return str_format("Hexagon V{} rotates inaccurately, V{} and later do not", target.arch, kFirstArchWithRotation);
  }
  if (plan.head_dim < kSmallestRotation || plan.head_dim > kLargestRotation) {
    return str_format("it rotates heads of {} to {}, and the model's have {}", kSmallestRotation, kLargestRotation,
                      plan.head_dim);
  }
  return {};
}

void check_rotation(const NpuTarget& target, const ModelPlan& plan, Recipe& recipe, std::vector<std::string>& notes) {
  if (!recipe.transforms.rotate_keys) return;
  const std::string obstacle = rotation_obstacle(target, plan, recipe);
  if (obstacle.empty()) return;
  recipe.transforms.rotate_keys = false;
  notes.push_back(str_format("recipe: the rotation r3 is left out on target {}: {}", target.name, obstacle));
}

Status check_activations(const NpuTarget& target, const ModelPlan& plan, const CompileOptions& options, Recipe& recipe,
                         std::vector<std::string>& notes) {
  if (options.activations) {
    return unsupported("`activations` is for the CPU; target {} computes with {} throughout; leave it out", target.name,
                       computes_in_f16(recipe) ? "fp16" : "16 bits");
  }
  for (const WeightSource& weight : plan.weights) {
    if (computes_in_f16(recipe) || recipe.activations_for(weight.name) == ActivationFormat::kInt8) continue;
    notes.push_back(str_format("activations have 16 bits on target {}, whatever the recipe says", target.name));
    break;
  }
  return ok_status();
}

// Why the CPU cannot rescore the logits of an LM head in few bits; "" if it can.
std::string_view rescore_obstacle(const ModelPlan& plan, const Recipe& recipe) {
  if (!plan.tied) return "the LM head is not tied to the embedding, whose rows the CPU has";
  if (plan.family->lm_head_bias) return "the LM head has a bias";
  if (recipe.spec_for("embedding").format != WeightFormat::kI8) return "the embedding is not int8";
  std::vector<std::string> ignored;
  if (applicable_transforms(plan, recipe.transforms, ignored).rotate_residual) {
    return "the rotation r1 gives the LM head rows of its own";
  }
  return {};
}

bool has_small_lm_head(const ModelPlan& plan, const Recipe& recipe) {
  const WeightSpec head = recipe.spec_for("head");
  return head.format == WeightFormat::kLpbq4 && plan.hidden_size % head.block == 0;
}

// The LM head is read once for every token. In 4 bits that takes half the time, and where the CPU has the rows of the
// tied embedding it makes up for the lost bits at next to no cost: there the preset w4 includes the LM head.
Status resolve_lm_head(const NpuTarget& target, const ModelPlan& plan, const CompileOptions& options, Recipe& recipe,
                       std::vector<std::string>& notes) {
  if (options.head) recipe.head = *options.head;
  if (options.rescore) recipe.rescore = *options.rescore;
  const bool asked = recipe.rescore.value_or(0) > 0;
  const std::string_view obstacle = rescore_obstacle(plan, recipe);
  if (recipe == recipe_preset("w4") && !options.head && obstacle.empty() && is_large_embedding(plan) &&
      contains(target.weight_formats, WeightFormat::kLpbq4) && plan.hidden_size % WeightSpec().block == 0) {
    recipe.head = WeightSpec();
  }
  const bool is_small = has_small_lm_head(plan, recipe);
  if (const WeightSpec head = recipe.spec_for("head"); asked && !is_small && head.format == WeightFormat::kLpbq4) {
    return unsupported(
        "the logits cannot be rescored: the LM head takes 8 bits, because its {} inputs are no multiple of the block "
        "of "
        "{}; "
        "leave `rescore` out",
        plan.hidden_size, head.block);
  }
  if (asked && !is_small) {
    return invalid_argument(
        "only the logits of an LM head in lpbq4 are rescored, and this one is {}; use `head` lpbq4, or "
        "leave `rescore` out",
        weight_format_name(recipe.spec_for("head").format));
  }
  if (asked && !obstacle.empty()) {
    return unsupported("the logits cannot be rescored: {}; leave `rescore` out, or use `head` int8", obstacle);
  }
  if (is_small && !recipe.rescore && !obstacle.empty()) {
    notes.push_back(
        str_format("the LM head has 4 bits, and its logits cannot be rescored: {}; `head` int8 loses less", obstacle));
  }
  if (!recipe.rescore) recipe.rescore = is_small && obstacle.empty() ? kDefaultRescore : 0;
  return ok_status();
}

// With exactly this many rows the vendor's compiler miscompiles integer graphs, on every architecture; which forms of
// attention are affected depends on the model. 15 and 17 are right, and so is fp16.
constexpr int64_t kWrongTokens = 16;

Status check_methods(const NpuTarget& target, const NpuOptions& options, const std::vector<int64_t>& prefill,
                     const Recipe& recipe) {
  if (contains(prefill, kWrongTokens) && !computes_in_f16(recipe)) {
    return unsupported(
        "methods of {} tokens in integers are computed wrongly by QNN's library; use another length, such as "
        "`prefill` 8 or 32, or `recipe` fp16",
        kWrongTokens);
  }
  if (!prefill.empty() && !target.shares_weights && options.share_weights && !options.emulator) {
    return unsupported(
        "target {} (Hexagon V{}) cannot share weights between prefill and decode, which is possible from V73 on; use "
        "`decode_only`, or `unshared` (each method then has its own copy of the weights)",
        target.name, target.arch);
  }
  return ok_status();
}

}  // namespace

bool computes_in_f16(const Recipe& recipe) { return !is_quantized(recipe.weights.format); }

bool embedding_on_host(const ModelPlan& plan, const Recipe& recipe) {
  return is_large_embedding(plan) || recipe.rescore.value_or(0) > 0;
}

Status apply_npu_rules(const TargetRequest& request, const NpuOptions& npu, Recipe& recipe,
                       std::vector<std::string>& notes) {
  TANDEM_ASSIGN(const NpuTarget target, chosen_target(request.target, npu));
  const ModelPlan& plan = request.plan;
  TANDEM_TRY(resolve_lm_head(target, plan, request.options, recipe, notes));
  TANDEM_TRY(check_formats(target, plan, recipe));
  TANDEM_TRY(check_kv(target, request.options, recipe, notes));
  check_rotation(target, plan, recipe, notes);
  TANDEM_TRY(check_activations(target, plan, request.options, recipe, notes));
  TANDEM_TRY(check_methods(target, npu, request.prefill, recipe));
  const bool tunes = request.options.bits || tunes_weights(request.options, recipe, plan);
  TANDEM_TRY(check_calibration(request.options.calibration, recipe, !computes_in_f16(recipe), tunes));
  // LPBQ blocks must divide a row there. The few weights where they do not get 8 bits.
  for (const WeightSource& weight : plan.weights) {
    const WeightSpec spec = recipe.spec_for(weight.name);
    if (weight.name == "embedding" || spec.format != WeightFormat::kLpbq4 || weight.cols % spec.block == 0) continue;
    TANDEM_ASSIGN(Glob exact, Glob::compile(weight.name));
    recipe.rules.push_back({std::move(exact), WeightSpec{WeightFormat::kI8, 0}});
    notes.push_back(str_format("\"{}\" takes 8 bits: its {} inputs are no multiple of the block of {}", weight.name,
                               weight.cols, spec.block));
  }
  if (!embedding_on_host(plan, recipe)) {
    // In the graph it is a table in the encoding of its output, which is its only rounding.
    TANDEM_ASSIGN(Glob exact, Glob::compile("embedding"));
    recipe.rules.push_back({std::move(exact), WeightSpec{WeightFormat::kF32, 0}});
  }
  const DType io_dtype = computes_in_f16(recipe) ? DType::kF16 : DType::kU16;
  if (recipe.name.ends_with(".json") && (recipe.mask != io_dtype || recipe.logits != io_dtype)) {
    notes.push_back(
        str_format("mask and logits are {} on target {}, whatever the recipe says", dtype_name(io_dtype), target.name));
  }
  recipe.mask = recipe.logits = io_dtype;
  return ok_status();
}

}  // namespace tandem
