#include "compiler/calibration/choose_activations.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "backends/interface/method_inputs.h"
#include "backends/interface/method_memory.h"
#include "base/error.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "numerics/fake_quant.h"
#include "reference/interpreter.h"
#include "weights/streaming_weights.h"

namespace tandem {
namespace {

constexpr int64_t kMeasuredWeights = int64_t{1} << 20;

bool is_open(const Recipe& recipe, std::string_view layer) {
  return is_quantized(recipe.spec_for(layer).format) && recipe.activations_for(layer) == ActivationFormat::kAuto;
}

class Chooser {
 public:
  Chooser(const ActivationJob& job, ThreadPool& pool) : job_(job), pool_(pool), weights_(job.weights, job.plan) {}

  Result<ActivationChoice> run() {
    for (const auto& sample : job_.samples) {
      TANDEM_TRY(run_sample(sample));
      ++sample_;
    }
    ActivationChoice choice{job_.recipe, {}};
    if (choice.recipe.activations == ActivationFormat::kAuto) choice.recipe.activations = ActivationFormat::kInt8;
    for (RecipeRule& rule : choice.recipe.rules) {
      if (rule.activations == ActivationFormat::kAuto) rule.activations = ActivationFormat::kInt8;
    }
    for (const std::string& name : order_) {
      TANDEM_TRY(stopped());
      const Layer& layer = layers_.at(name);
      TANDEM_ASSIGN(const double noise, output_noise(name, rounding_.at(layer.input)));
      if (!std::isfinite(noise) || !std::isfinite(layer.signal)) {
        return corrupt("the numbers that \"{}\" computes are not finite", name);
      }
      const double db = noise > 0.0 && layer.signal > 0.0 ? 10.0 * std::log10(layer.signal / noise)
                                                          : std::numeric_limits<double>::infinity();
      choice.layers.push_back({name, db});
      if (db >= kLeastOutputSqnrDb) continue;
      TANDEM_ASSIGN(Glob exact, Glob::compile(name));
      choice.recipe.rules.push_back({std::move(exact), {}, ActivationFormat::kInt16});
    }
    return choice;
  }

 private:
  struct Layer {
    std::string input;
    std::vector<float> bias;
    double signal = 0.0;  // Sum of squares of its output, without the bias.
  };

  Status stopped() const {
    if (job_.stop && job_.stop()) return cancelled("stopped; the same command starts again with the activations");
    return ok_status();
  }

  Status run_sample(const std::vector<int32_t>& tokens) {
    const auto length = static_cast<int64_t>(tokens.size());
    ir::Graph graph = build_graph(job_.plan, {"activations", length, length});
    TANDEM_TRY(ir::verify(graph));
    TANDEM_TRY(find_layers(graph));
    size_t done = 0;
    const size_t ops = graph.ops.size();
    const auto program = make_reference_program(
        {std::move(graph)}, weights_, pool_,
        [&](const ir::Op& op, const ir::Tensor& output, std::span<const float> values) -> Status {
          TANDEM_TRY(stopped());
          if (job_.progress) {
            job_.progress({"looking at activations", sample_ * ops + done++, job_.samples.size() * ops});
          }
          observe(op, output, values);
          return ok_status();
        });
    graph_ = &program->method(0);
    TANDEM_ASSIGN(MethodMemory memory, MethodMemory::allocate(*program));
    TANDEM_ASSIGN(const ir::MethodInputs inputs, ir::MethodInputs::read(*graph_));
    ir::fill_inputs(*graph_, inputs, {tokens, 0, length > inputs.rope_limit}, memory.bindings(0));
    memory.bindings(0).rows = length;
    TANDEM_ASSIGN(const auto context, program->new_context());
    return context->run(0, memory.bindings(0));
  }

  // All samples have the same layers and names.
  Status find_layers(const ir::Graph& graph) {
    if (!layers_.empty()) return ok_status();
    for (const ir::Op& op : graph.ops) {
      if (op.kind != ir::OpKind::kLinear || !is_open(job_.recipe, graph.at(op.inputs[1]).name)) continue;
      Layer layer;
      layer.input = graph.at(op.inputs[0]).name;
      if (op.inputs.size() == 3) {
        TANDEM_ASSIGN(layer.bias, weights_.read_vector(graph.at(op.inputs[2]).name));
      }
      rounding_[layer.input].resize(static_cast<size_t>(graph.at(op.inputs[0]).shape[1]));
      order_.push_back(graph.at(op.inputs[1]).name);
      layers_.emplace(order_.back(), std::move(layer));
    }
    return ok_status();
  }

  void observe(const ir::Op& op, const ir::Tensor& output, std::span<const float> values) {
    if (const auto found = rounding_.find(output.name); found != rounding_.end()) add_rounding(values, found->second);
    if (op.kind != ir::OpKind::kLinear) return;
    const auto found = layers_.find(graph_->at(op.inputs[1]).name);
    if (found == layers_.end()) return;
    Layer& layer = found->second;
    const auto width = static_cast<size_t>(output.shape[1]);
    for (size_t i = 0; i < values.size(); ++i) {
      const double y = layer.bias.empty() ? values[i] : values[i] - layer.bias[i % width];
      layer.signal += y * y;
    }
  }

  // Adds int8's squared rounding error of each channel.
  void add_rounding(std::span<const float> values, std::vector<double>& squares) {
    const size_t width = squares.size();
    for (size_t at = 0; at < values.size(); at += width) {
      row_.assign(values.begin() + static_cast<std::ptrdiff_t>(at),
                  values.begin() + static_cast<std::ptrdiff_t>(at + width));
      fake_quantize_row_i8(row_);
      for (size_t c = 0; c < width; ++c) {
        const double error = double{values[at + c]} - double{row_[c]};
        squares[c] += error * error;
      }
    }
  }

  // The channels' errors are independent, so their squared contributions to the output add up, each weighted by the
  // squares of its column. The order of additions does not depend on threads.
  Result<double> output_noise(const std::string& name, const std::vector<double>& squares) {
    const WeightSource& source = *job_.plan.find_weight(name);
    const int64_t chunk = std::max<int64_t>(kMeasuredWeights / source.cols, 1);
    const int64_t chunks = (source.rows + chunk - 1) / chunk;
    std::vector<double> parts(static_cast<size_t>(chunks));
    std::vector<Status> failures(static_cast<size_t>(chunks));
    pool_.run(chunks, [&](int64_t part, int) {
      const int64_t begin = part * chunk, rows = std::min(chunk, source.rows - begin);
      std::vector<float> numbers(static_cast<size_t>(rows * source.cols));
      failures[static_cast<size_t>(part)] = weights_.read_rows(name, begin, rows, numbers.data());
      if (!failures[static_cast<size_t>(part)].ok()) return;
      std::vector<float> columns(squares.size());
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = numbers.data() + r * source.cols;
        for (size_t c = 0; c < columns.size(); ++c) columns[c] += row[c] * row[c];
      }
      double sum = 0.0;
      for (size_t c = 0; c < columns.size(); ++c) sum += double{columns[c]} * squares[c];
      parts[static_cast<size_t>(part)] = sum;
    });
    double noise = 0.0;
    for (size_t i = 0; i < parts.size(); ++i) {
      TANDEM_TRY(std::move(failures[i]));
      noise += parts[i];
    }
    return noise;
  }

  const ActivationJob& job_;
  ThreadPool& pool_;
  StreamingWeights weights_;
  size_t sample_ = 0;
  const ir::Graph* graph_ = nullptr;                  // Of the sample that is computed.
  std::map<std::string, Layer, std::less<>> layers_;  // By weight.
  std::vector<std::string> order_;
  std::map<std::string, std::vector<double>, std::less<>> rounding_;  // By input: squared errors of each channel.
  std::vector<float> row_;
};

}  // namespace

bool leaves_activations_open(const Recipe& recipe, const ModelPlan& plan) {
  return std::ranges::any_of(plan.weights, [&](const WeightSource& weight) {
    return weight.purpose.kind != ir::PurposeKind::kEmbedding && is_open(recipe, weight.name);
  });
}

Result<ActivationChoice> choose_activations(const ActivationJob& job, ThreadPool& pool) {
  if (job.samples.empty()) return invalid_argument("there is no text to choose the activations with");
  return Chooser(job, pool).run();
}

}  // namespace tandem
