#include "compiler/tuning/choose_bits.h"

#include <algorithm>

#include "base/error.h"
#include "compiler/tuning/bit_budget.h"
#include "compiler/tuning/sensitivity.h"

namespace tandem {
namespace {

constexpr WeightSpec kMeasured = {WeightFormat::kLpbq4, 32};
constexpr WeightSpec kPossible[] = {
    {WeightFormat::kLpbq4, 64}, {WeightFormat::kLpbq4, 32}, {WeightFormat::kLpbq4, 16}, {WeightFormat::kI8, 0}};
// Rows of a matrix that errors of formats are compared on.
constexpr int64_t kComparedRows = 256;

// Whether a rule of the recipe says which format the weight has.
bool has_rule(const Recipe& recipe, const std::string& name) {
  return std::ranges::any_of(recipe.rules,
                             [&](const RecipeRule& rule) { return rule.spec && rule.match.matches(name); });
}

// The squared error of some rows in each possible format.
Result<std::vector<double>> errors_of(const BitsJob& job, const WeightSource& weight, std::span<const WeightSpec> specs,
                                      ThreadPool& pool) {
  const int64_t count = std::min(kComparedRows, weight.rows);
  std::vector<float> values(static_cast<size_t>(count * weight.cols));
  for (int64_t i = 0; i < count; ++i) {
    TANDEM_TRY(job.weights.read_rows(weight.name, i * weight.rows / count, 1, values.data() + i * weight.cols));
  }
  std::vector<double> errors;
  for (const WeightSpec& spec : specs) {
    auto matrix = quantize_matrix(values.data(), count, weight.cols, spec, pool);
    if (!matrix.ok()) return with_context(std::move(matrix).error(), "weight \"{}\"", weight.name);
    errors.push_back(quantization_report(values.data(), *matrix).noise);
  }
  return errors;
}

Result<BudgetItem> item_of(const BitsJob& job, const WeightSource& weight, double measured, ThreadPool& pool) {
  BudgetItem item{weight.name, weight.rows * weight.cols, {}};
  if (has_rule(job.recipe, weight.name)) {
    item.choices.push_back({job.recipe.spec_for(weight.name), 0.0});
    return item;
  }
  std::vector<WeightSpec> specs;
  for (const WeightSpec& spec : kPossible) {
    const bool fits = spec.format != WeightFormat::kLpbq4 || !job.whole_blocks || weight.cols % spec.block == 0;
    if (fits) specs.push_back(spec);
  }
  std::vector<WeightSpec> compared = specs;
  compared.push_back(kMeasured);
  TANDEM_ASSIGN(const std::vector<double> errors, errors_of(job, weight, compared, pool));
  for (size_t i = 0; i < specs.size(); ++i) {
    const double share = errors.back() > 0.0 ? errors[i] / errors.back() : 0.0;
    item.choices.push_back({specs[i], measured * share});
  }
  return item;
}

}  // namespace

Result<BitsChoice> choose_bits(const BitsJob& job, ThreadPool& pool) {
  std::vector<const WeightSource*> weights;
  SensitivityJob measuring{job.plan, job.weights, job.samples, kMeasured, {}, job.progress, job.stop};
  for (const WeightSource& weight : job.plan.weights) {
    if (weight.purpose.layer < 0) continue;
    weights.push_back(&weight);
    if (!has_rule(job.recipe, weight.name)) measuring.names.push_back(weight.name);
  }
  TANDEM_ASSIGN(const std::vector<double> losses, measure_sensitivity(measuring, pool));
  std::vector<BudgetItem> items;
  size_t measured = 0;
  for (const WeightSource* weight : weights) {
    const bool is_open = !has_rule(job.recipe, weight->name);
    TANDEM_ASSIGN(BudgetItem item, item_of(job, *weight, is_open ? losses[measured++] : 0.0, pool));
    items.push_back(std::move(item));
  }
  TANDEM_ASSIGN(const Allocation allocation, allocate_bits(items, job.bits));
  BitsChoice choice{job.recipe, allocation.bits, {}};
  for (size_t i = 0; i < items.size(); ++i) {
    const WeightSpec& spec = allocation.specs[i];
    const auto chosen = std::ranges::find(items[i].choices, spec, &BudgetItem::Choice::spec);
    choice.weights.push_back({items[i].name, spec, chosen->loss});
    if (job.recipe.spec_for(items[i].name) == spec) continue;
    TANDEM_ASSIGN(Glob exact, Glob::compile(items[i].name));
    choice.recipe.rules.push_back({std::move(exact), spec});
  }
  return choice;
}

}  // namespace tandem
