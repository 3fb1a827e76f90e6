#include "compiler/tuning/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "compiler/tuning/layer_stages.h"
#include "compiler/tuning/quantized_matrices.h"
#include "compiler/tuning/sequence_ops.h"
#include "models/builder.h"
#include "numerics/divergence.h"

namespace tandem {
namespace {

// Floating-point operations that the measurement may take: some minutes of two cores.
constexpr double kMostOperations = 4e13;
constexpr int64_t kFewestTokens = 256;
constexpr int64_t kMostTokens = 4096;

int64_t token_budget(const ModelPlan& plan, size_t weights) {
  // On average a weight's error goes through half of the layers.
  const double each = static_cast<double>(plan.parameters) * static_cast<double>(weights);
  return std::clamp(static_cast<int64_t>(kMostOperations / each), kFewestTokens, kMostTokens);
}

// The beginnings of samples, as many tokens as wanted.
std::vector<std::vector<int32_t>> some_of(std::span<const std::vector<int32_t>> samples, int64_t tokens) {
  constexpr int64_t kLength = 256;
  std::vector<std::vector<int32_t>> some;
  for (const std::vector<int32_t>& sample : samples) {
    const int64_t length = std::min({kLength, tokens, static_cast<int64_t>(sample.size())});
    if (length == 0) continue;
    some.emplace_back(sample.begin(), sample.begin() + length);
    tokens -= length;
  }
  return some;
}

// A float model with one weight replaced.
class OneRounded final : public MatrixProvider {
 public:
  OneRounded(const WeightProvider& weights, ThreadPool& pool) : floats_(weights, pool), pool_(pool) {}
  void round(std::string name, const WeightSpec& spec) {
    name_ = std::move(name);
    spec_ = spec;
    values_.clear();
  }
  Result<const float*> matrix(const std::string& name, int64_t rows, int64_t cols) override {
    if (name != name_) return floats_.matrix(name, rows, cols);
    if (!values_.empty()) return const_cast<const float*>(values_.data());
    TANDEM_ASSIGN(const float* original, floats_.matrix(name, rows, cols));
    auto matrix = quantize_matrix(original, rows, cols, spec_, pool_);
    if (!matrix.ok()) return with_context(std::move(matrix).error(), "weight \"{}\"", name);
    values_.resize(static_cast<size_t>(rows * cols));
    for (int64_t row = 0; row < rows; ++row) matrix->dequantize_row(row, values_.data() + row * cols);
    return const_cast<const float*>(values_.data());
  }
  Result<std::vector<float>> vector(const std::string& name) override { return floats_.vector(name); }
  Status embedding_rows(const std::string& name, std::span<const int32_t> tokens, int64_t cols, float* out) override {
    return floats_.embedding_rows(name, tokens, cols, out);
  }
  void forget() override { floats_.forget(); }

 private:
  FloatMatrices floats_;
  ThreadPool& pool_;
  std::string name_;
  WeightSpec spec_;
  std::vector<float> values_;
};

class SensitivityMeter {
 public:
  SensitivityMeter(const SensitivityJob& job, ThreadPool& pool)
      : job_(job),
        pool_(pool),
        samples_(some_of(job.samples, token_budget(job.plan, job.names.size()))),
        longest_(longest()),
        graph_(build_graph(job.plan, {"measure", 1, longest_})),
        ops_(graph_, longest_, pool),
        weights_(job.weights, pool),
        layers_(plan_stages(graph_)) {
    if (auto runs = group_sequences(samples_, kMostTokens); !runs.empty()) rows_ = std::move(runs.front());
  }

  Result<std::vector<double>> run() {
    if (rows_.rows() == 0) return invalid_argument("there is nothing to calibrate with");
    logits_ = *graph_.find(ir::PurposeKind::kLogits);
    TANDEM_TRY(run_float());
    std::vector<double> losses;
    for (const std::string& name : job_.names) {
      if (job_.stop && job_.stop()) return cancelled("stopped; the same command goes on where it was");
      if (job_.progress) job_.progress({"measuring sensitivities", losses.size(), job_.names.size()});
      TANDEM_ASSIGN(const double loss, loss_of(name));
      losses.push_back(loss);
    }
    return losses;
  }

 private:
  int64_t longest() const {
    size_t most = 1;
    for (const auto& sample : samples_) most = std::max(most, sample.size());
    return static_cast<int64_t>(most);
  }

  // The hidden state before each layer, and the float model's logits.
  Status run_float() {
    RowValues values;
    TANDEM_TRY(ops_.run(0, layers_.front().begin(), rows_, weights_, values));
    for (const LayerStages& layer : layers_) {
      hidden_.push_back(values);
      TANDEM_TRY(ops_.run(layer.begin(), layer.end(), rows_, weights_, values));
      weights_.forget();
    }
    TANDEM_TRY(ops_.run(layers_.back().end(), graph_.ops.size(), rows_, weights_, values));
    weights_.forget();
    wanted_ = std::move(values[static_cast<size_t>(logits_)]);
    return ok_status();
  }

  Result<double> loss_of(const std::string& name) {
    const auto layer = static_cast<size_t>(job_.plan.find_weight(name)->purpose.layer);
    weights_.round(name, job_.spec);
    RowValues values = hidden_[layer];
    for (size_t i = layer; i < layers_.size(); ++i) {
      TANDEM_TRY(ops_.run(layers_[i].begin(), layers_[i].end(), rows_, weights_, values));
      weights_.forget();
    }
    TANDEM_TRY(ops_.run(layers_.back().end(), graph_.ops.size(), rows_, weights_, values));
    weights_.forget();
    const std::vector<float>& got = values[static_cast<size_t>(logits_)];
    const auto width = static_cast<size_t>(job_.plan.vocab_size);
    std::vector<double> divergences(static_cast<size_t>(rows_.rows()));
    pool_.run(rows_.rows(), [&](int64_t row, int) {
      const size_t at = static_cast<size_t>(row) * width;
      const std::span<const float> wanted = std::span(wanted_).subspan(at, width),
                                   other = std::span(got).subspan(at, width);
      divergences[static_cast<size_t>(row)] = kl_divergence(wanted, log_sum_exp(wanted), other, log_sum_exp(other));
    });
    double sum = 0.0;
    for (const double divergence : divergences) sum += divergence;
    if (!std::isfinite(sum)) return corrupt("the model's logits are not finite");
    return sum / static_cast<double>(rows_.rows());
  }

  const SensitivityJob& job_;
  ThreadPool& pool_;
  std::vector<std::vector<int32_t>> samples_;
  int64_t longest_ = 0;
  ir::Graph graph_;
  SequenceOps ops_;
  OneRounded weights_;
  std::vector<LayerStages> layers_;
  SequenceRows rows_;
  ir::TensorId logits_ = -1;
  std::vector<RowValues> hidden_;
  std::vector<float> wanted_;
};

}  // namespace

Result<std::vector<double>> measure_sensitivity(const SensitivityJob& job, ThreadPool& pool) {
  return SensitivityMeter(job, pool).run();
}

}  // namespace tandem
