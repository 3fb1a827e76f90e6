#include "compiler/tuning/tune_weights.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/format.h"
#include "compiler/tuning/layer_stages.h"
#include "compiler/tuning/quantized_matrices.h"
#include "compiler/tuning/sequence_ops.h"
#include "linalg/multiply.h"
#include "models/builder.h"

namespace tandem {
namespace {

// Rows that go through a stage at once.
constexpr int64_t kRunRows = 2048;
// Rows of a matrix that errors are measured on.
constexpr int64_t kMeasuredRows = 192;

// Sums over the tokens, for the linear layers that share an input x' of the quantized model.
struct Moments {
  int64_t cols = 0;
  int64_t tokens = 0;
  std::vector<float> inputs;    // x' x'^T: [cols, cols]
  std::vector<float> missing;   // (x - x') x'^T: [cols, cols]
  std::vector<float> residual;  // (r - r') x'^T: [outputs, cols], where the output is added to r.
};

class Tuner {
 public:
  Tuner(TuneJob job, ThreadPool& pool)
      : job_(std::move(job)),
        pool_(pool),
        longest_(longest_of(job_.samples)),
        graph_(build_graph(job_.plan, {"tune", 1, longest_})),
        runs_(group_sequences(job_.samples, kRunRows)),
        ops_(graph_, longest_, pool),
        floats_(job_.weights, pool),
        quantized_(job_.weights, job_.recipe, pool),
        values_(2 * runs_.size()) {}

  Status run() {
    const std::vector<LayerStages> layers = plan_stages(graph_);
    for (const LayerStages& layer : layers) total_ += layer.stages.size() * runs_.size();
    TANDEM_TRY(begin(layers));
    for (; next_layer_ < layers.size(); ++next_layer_) {
      TANDEM_TRY(tune_layer(layers[next_layer_]));
      TANDEM_TRY(finish_layer());
    }
    return ok_status();
  }

 private:
  static int64_t longest_of(std::span<const std::vector<int32_t>> samples) {
    size_t longest = 1;
    for (const auto& sample : samples) longest = std::max(longest, sample.size());
    return static_cast<int64_t>(longest);
  }

  Status report_progress() {
    if (job_.stop && job_.stop()) return cancelled("stopped; the same command goes on where it was");
    if (job_.progress) job_.progress({str_format("tuning layer {}", next_layer_), done_, total_});
    return ok_status();
  }

  RowValues& float_values(size_t run) { return values_[2 * run]; }
  RowValues& quantized_values(size_t run) { return values_[2 * run + 1]; }

  // Everything before the first layer, or the state after an earlier one.
  Status begin(const std::vector<LayerStages>& layers) {
    const size_t first = layers.front().stages.front().begin;
    for (size_t i = 0; i < runs_.size(); ++i) {
      TANDEM_TRY(ops_.run(0, first, runs_[i], floats_, float_values(i)));
      TANDEM_TRY(ops_.run(0, first, runs_[i], quantized_, quantized_values(i)));
    }
    if (!job_.resume) return ok_status();
    TuneState& state = *job_.resume;
    const auto next = static_cast<size_t>(state.next_layer);
    const bool fits = next >= 1 && next <= layers.size() && state.rows.size() == values_.size();
    if (!fits) return ok_status();
    for (size_t i = 0; i < values_.size(); ++i) {
      values_[i].assign(graph_.tensors.size(), {});
      values_[i][static_cast<size_t>(layers[next - 1].output)] = std::move(state.rows[i]);
    }
    for (; next_layer_ < next; ++next_layer_) done_ += layers[next_layer_].stages.size() * runs_.size();
    job_.resume.reset();
    return ok_status();
  }

  Status tune_layer(const LayerStages& layer) {
    output_ = layer.output;
    for (const Stage& stage : layer.stages) {
      Moments moments = make_moments(stage);
      for (size_t i = 0; i < runs_.size(); ++i) {
        TANDEM_TRY(report_progress());
        TANDEM_TRY(ops_.run(stage.begin, stage.end, runs_[i], floats_, float_values(i)));
        TANDEM_TRY(ops_.run(stage.begin, stage.end, runs_[i], quantized_, quantized_values(i)));
        ++done_;
        if (!stage.linears.empty()) add_moments(stage, i, moments);
      }
      floats_.forget();
      quantized_.forget();
      if (!stage.linears.empty()) TANDEM_TRY(tune_stage(stage, moments));
    }
    return ok_status();
  }

  Moments make_moments(const Stage& stage) const {
    Moments moments;
    if (stage.linears.empty()) return moments;
    moments.cols = graph_.at(stage.input).shape.back();
    const auto square = static_cast<size_t>(moments.cols * moments.cols);
    moments.inputs.resize(square);
    if (!job_.correct_targets) return moments;
    moments.missing.resize(square);
    if (stage.residual >= 0) {
      moments.residual.resize(static_cast<size_t>(graph_.at(stage.residual).shape.back() * moments.cols));
    }
    return moments;
  }

  void add_moments(const Stage& stage, size_t run, Moments& m) {
    const int64_t rows = runs_[run].rows();
    const auto id = static_cast<size_t>(stage.input);
    const std::vector<float>& x = quantized_values(run)[id];
    m.tokens += rows;
    add_gram(ConstMatrix(x.data(), rows, m.cols), Matrix(m.inputs.data(), m.cols, m.cols), pool_);
    if (!job_.correct_targets) return;
    const auto add_cross = [&](size_t tensor, std::vector<float>& sums) {
      const std::vector<float>& wanted = float_values(run)[tensor];
      const std::vector<float>& got = quantized_values(run)[tensor];
      std::vector<float> difference(wanted.size());
      for (size_t i = 0; i < wanted.size(); ++i) difference[i] = wanted[i] - got[i];
      const auto width = static_cast<int64_t>(difference.size()) / rows;
      multiply_tn(ConstMatrix(difference.data(), rows, width), ConstMatrix(x.data(), rows, m.cols),
                  Matrix(sums.data(), width, m.cols), pool_, Store::kAdd);
    };
    add_cross(id, m.missing);
    if (stage.residual >= 0) add_cross(static_cast<size_t>(stage.residual), m.residual);
  }

  Status tune_stage(const Stage& stage, Moments& moments) {
    mirror_upper(Matrix(moments.inputs.data(), moments.cols, moments.cols), pool_);
    std::map<std::pair<WeightFormat, int>, ErrorFeedback> feedbacks;  // By format.
    for (const size_t op : stage.linears) {
      TANDEM_TRY(report_progress());
      const ir::Tensor& weight = graph_.at(graph_.ops[op].inputs[1]);
      const WeightSpec spec = job_.recipe.spec_for(weight.name);
      if (!is_quantized(spec.format)) continue;
      const std::pair<WeightFormat, int> key = {spec.format, spec.format == WeightFormat::kLpbq4 ? spec.block : 0};
      auto it = feedbacks.find(key);
      if (it == feedbacks.end()) {
        auto made = ErrorFeedback::create(moments.inputs.data(), moments.cols, spec, pool_);
        if (!made.ok()) return with_context(std::move(made).error(), "weight \"{}\"", weight.name);
        it = feedbacks.emplace(key, std::move(made).value()).first;
      }
      TANDEM_TRY(tune_weight(weight, spec, stage.residual_factor, moments, it->second));
    }
    return ok_status();
  }

  Status tune_weight(const ir::Tensor& weight, const WeightSpec& spec, float residual_factor, const Moments& moments,
                     const ErrorFeedback& feedback) {
    const int64_t rows = weight.shape[0], cols = weight.shape[1];
    TANDEM_ASSIGN(const float* original, floats_.matrix(weight.name, rows, cols));
    std::vector<float> targets(original, original + rows * cols);
    if (job_.correct_targets) {
      std::vector<float> shift = moments.residual;
      for (float& value : shift) value /= residual_factor;
      shift.resize(targets.size());
      multiply_nn(ConstMatrix(original, rows, cols), ConstMatrix(moments.missing.data(), cols, cols),
                  Matrix(shift.data(), rows, cols), pool_, Store::kAdd);
      TANDEM_TRY(
          correct_targets(moments.inputs.data(), cols, moments.tokens, shift.data(), rows, targets.data(), pool_));
    }
    auto matrix = feedback.quantize(targets.data(), rows, job_.feedback, pool_);
    if (!matrix.ok()) return with_context(std::move(matrix).error(), "weight \"{}\"", weight.name);
    TunedWeight tuned{weight.name, spec, rows * cols};
    TANDEM_TRY(measure(original, targets, moments, *matrix, tuned));
    TANDEM_TRY(quantized_.set(weight.name, *matrix));
    finished_.emplace_back(std::move(tuned), std::move(matrix).value());
    floats_.forget();
    return ok_status();
  }

  // Errors of some rows' outputs: of the original weights rounded without data, and of the tuned ones.
  Status measure(const float* original, const std::vector<float>& targets, const Moments& moments,
                 const WeightMatrix& matrix, TunedWeight& tuned) {
    const int64_t cols = matrix.cols, count = std::min(kMeasuredRows, matrix.rows);
    std::vector<float> wanted, plain, got(static_cast<size_t>(count * cols));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t row = i * matrix.rows / count;
      wanted.insert(wanted.end(), targets.begin() + row * cols, targets.begin() + (row + 1) * cols);
      plain.insert(plain.end(), original + row * cols, original + (row + 1) * cols);
      matrix.dequantize_row(row, got.data() + i * cols);
    }
    TANDEM_ASSIGN(const WeightMatrix rounded, quantize_matrix(plain.data(), count, cols, tuned.spec, pool_));
    const double signal = output_error(wanted.data(), count, moments.inputs.data(), cols, pool_);
    for (int64_t i = 0; i < count; ++i) rounded.dequantize_row(i, plain.data() + i * cols);
    for (size_t i = 0; i < wanted.size(); ++i) {
      plain[i] -= wanted[i];
      got[i] -= wanted[i];
    }
    const auto db = [&](const std::vector<float>& errors) {
      const double noise = output_error(errors.data(), count, moments.inputs.data(), cols, pool_);
      return noise > 0.0 && signal > 0.0 ? 10.0 * std::log10(signal / noise) : std::numeric_limits<double>::infinity();
    };
    tuned.before_db = db(plain);
    tuned.after_db = db(got);
    return ok_status();
  }

  Status finish_layer() {
    quantized_.clear();
    TANDEM_TRY(job_.on_layer(static_cast<int64_t>(next_layer_), std::move(finished_)));
    finished_.clear();
    if (!job_.save_state) return ok_status();
    TuneState state{static_cast<int64_t>(next_layer_) + 1, {}};
    for (RowValues& values : values_) state.rows.push_back(std::move(values[static_cast<size_t>(output_)]));
    Status status = job_.save_state(state);
    for (size_t i = 0; i < values_.size(); ++i) values_[i][static_cast<size_t>(output_)] = std::move(state.rows[i]);
    return status;
  }

  TuneJob job_;
  ThreadPool& pool_;
  int64_t longest_ = 0;
  ir::Graph graph_;
  std::vector<SequenceRows> runs_;
  SequenceOps ops_;
  FloatMatrices floats_;
  QuantizedMatrices quantized_;
  std::vector<RowValues> values_;  // By run: the float model's, the quantized one's.
  ir::TensorId output_ = -1;       // Of the layer.
  size_t next_layer_ = 0;
  uint64_t done_ = 0;
  uint64_t total_ = 0;
  std::vector<std::pair<TunedWeight, WeightMatrix>> finished_;  // Of the layer.
};

}  // namespace

Status tune_weights(TuneJob job, ThreadPool& pool) {
  const bool has_samples = std::ranges::any_of(job.samples, [](const auto& sample) { return !sample.empty(); });
  if (!has_samples) return invalid_argument("there is nothing to calibrate with");
  return Tuner(std::move(job), pool).run();
}

}  // namespace tandem
