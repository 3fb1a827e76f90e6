#include "compiler/target_rules.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "compiler/calibration/calibration_input.h"
#include "compiler/calibration/choose_activations.h"
#include "compiler/tuning/tune_job.h"

namespace tandem {
namespace {

bool contains(const auto& list, const auto& item) { return std::ranges::find(list, item) != list.end(); }

// An option of another back end, silently ignored, would seem to have had an effect.
Status check_other_options(const Target& target, const BackendOptions& options) {
  std::vector<OptionSpec> all;
  for (const BackendCompiler* compiler : backend_compilers()) {
    const std::span<const OptionSpec> specs = compiler->options();
    all.insert(all.end(), specs.begin(), specs.end());
    if (compiler->name() == target.backend) continue;
    for (const OptionSpec& spec : specs) {
      const auto given = options.find(spec.name);
      const bool asks = given != options.end() && given->second != spec.default_value && !spec.is_about_machine;
      if (!asks || find_option(compiler_of(target).options(), spec.name) != nullptr) continue;
      return invalid_argument("`{}` is for {} (see `tandem targets`), and {} is none; leave it out", spec.name,
                              compiler->target_group(), target.name);
    }
  }
  for (const auto& [name, value] : options) {
    if (find_option(all, name) != nullptr) continue;
    return invalid_argument("no back end has the option `{}`; these are known: {}", name, option_names(all));
  }
  return ok_status();
}

}  // namespace

Status apply_target_rules(const TargetRequest& request, Recipe& recipe, std::vector<std::string>& notes) {
  const BackendOptions& given = request.options.backend;
  TANDEM_TRY(check_other_options(request.target, given));
  const BackendCompiler& compiler = compiler_of(request.target);
  TANDEM_TRY(compiler.check_options(own_options(compiler.options(), given)));
  return compiler.resolve_recipe(request, recipe, notes);
}

void override_recipe(const CompileOptions& options, Recipe& recipe) {
  if (options.head) recipe.head = *options.head;
  if (options.rescore) recipe.rescore = *options.rescore;
  if (options.kv) recipe.kv = *options.kv;
  if (options.activations) recipe.activations = *options.activations;
}

Status check_plain_target(const TargetRequest& request, const Recipe& recipe) {
  const Target& target = request.target;
  if (recipe.rescore.value_or(0) > 0) {
    return unsupported("rescoring logits is for NPU targets (see `tandem targets`), and {} is none; leave it out",
                       target.name);
  }
  for (const WeightSource& weight : request.plan.weights) {
    const WeightFormat format = recipe.spec_for(weight.name).format;
    if (!contains(target.weight_formats, format)) {
      return unsupported("target {} cannot do {} weights (\"{}\")", target.name, weight_format_name(format),
                         weight.name);
    }
  }
  if (!contains(target.kv_dtypes, kv_dtype(recipe.kv))) {
    return unsupported("target {} cannot keep its KV cache as {}; use `kv` fp32, fp16 or u8", target.name,
                       kv_format_name(recipe.kv));
  }
  const CalibrationOptions& calibration = request.options.calibration;
  const bool tunes = request.options.bits || tunes_weights(request.options, recipe, request.plan);
  TANDEM_TRY(check_calibration(calibration, recipe, true, tunes));
  // Choosing open activations needs a text as well.
  const bool reads_text = tunes || leaves_activations_open(recipe, request.plan);
  const std::string_view text = calibration_text_field_of(calibration);
  std::string_view field = encodings_field_of(calibration);
  if (field.empty() && !calibration.report.empty() && !reads_text) field = "`calibration.report`";
  const bool reads_calibration = reads_text || request.options.calibration_is_optional;
  if (field.empty() && (reads_calibration || text.empty())) return ok_status();
  return invalid_argument("{} is for NPU targets (see `tandem targets`){}, and {} is none; leave it out",
                          field.empty() ? text : field, field.empty() ? " and for `tune` and `activations` auto" : "",
                          target.name);
}

}  // namespace tandem
