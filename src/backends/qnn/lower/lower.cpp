#include "backends/qnn/lower/lower.h"

#include <algorithm>

#include "backends/qnn/lower/graph_lowering.h"
#include "base/clock.h"
#include "base/error.h"
#include "ir/verifier.h"

namespace tandem::qnn {
namespace {

// Names of the compiler's options, as its log lists them (level 5, "Option: ").
constexpr const char* kWeightTileOption = "weight_sharing_channel_tile_size";
constexpr const char* kFoldMaskOption = "fold_add_into_softmax";

class Lowering {
 public:
  Lowering(const LoweringWeights& weights, const LoweringOptions& options)
      : weights_(weights), options_(options), vectors_(weights) {}

  Result<std::vector<LoweredGraph>> run(const std::shared_ptr<const Context>& context,
                                        std::span<const NamedGraph> graphs) {
    for (const NamedGraph& graph : graphs) TANDEM_TRY(begin(context, graph));
    TANDEM_TRY(add_matrices());
    for (Item& item : items_) {
      TANDEM_TRY(stage("ops of " + item.lowered.name));
      const Clock::time_point watch = Clock::now();
      if (Status status = item.lowering->lower(); !status.ok()) {
        return with_context(std::move(status).error(), "graph {}", item.lowered.name);
      }
      item.lowered.build_seconds += seconds_since(watch);
      item.lowered.nodes = item.lowering->target()->node_count();
    }
    std::vector<LoweredGraph> lowered;
    for (Item& item : items_) {
      TANDEM_TRY(stage("finalize " + item.lowered.name));
      const Clock::time_point watch = Clock::now();
      if (options_.estimate) {
        TANDEM_ASSIGN(item.lowered.estimate, item.lowering->target()->finalize_with_estimate());
      } else {
        TANDEM_TRY(item.lowering->target()->finalize());
      }
      item.lowered.finalize_seconds = seconds_since(watch);
      item.lowered.graph = item.lowering->target();
      item.lowering.reset();
      lowered.push_back(std::move(item.lowered));
    }
    return lowered;
  }

 private:
  struct Item {
    LoweredGraph lowered;
    std::unique_ptr<GraphLowering> lowering;
  };
  // A constant and the graphs that have it.
  struct Constant {
    MatrixUse use;
    std::vector<size_t> items;
  };

  Status stage(const std::string& what) const {
    if (options_.stop && options_.stop()) return cancelled("lowering to QNN was stopped before: {}", what);
    if (options_.progress) options_.progress(what);
    return {};
  }

  Status begin(const std::shared_ptr<const Context>& context, const NamedGraph& named) {
    if (named.graph == nullptr) return internal_error("graph {} is missing", named.name);
    const auto same = [&](const Item& item) { return item.lowered.name == named.name; };
    if (std::ranges::any_of(items_, same)) return invalid_argument("two graphs are named {}", named.name);
    TANDEM_TRY(ir::verify(*named.graph));
    Graph::Options options;
    options.optimization_level = options_.optimization_level;
    options.hvx_threads = options_.hvx_threads;
    if (options_.weight_tile_channels > 0) {
      options.compiler_options.push_back({kWeightTileOption, static_cast<uint32_t>(options_.weight_tile_channels)});
    }
    const auto is_folded = [](const ir::Op& op) { return op.kind == ir::OpKind::kMaskedSoftmax; };
    if (std::ranges::any_of(named.graph->ops, is_folded)) options.compiler_options.push_back({kFoldMaskOption, 1});
    options.float16 =
        std::ranges::any_of(named.graph->tensors, [](const ir::Tensor& tensor) { return tensor.dtype == DType::kF16; });
    TANDEM_ASSIGN(std::shared_ptr<Graph> target, Graph::create(context, named.name, options));
    Item item;
    item.lowered.name = named.name;
    item.lowering = std::make_unique<GraphLowering>(*named.graph, std::move(target), vectors_);
    items_.push_back(std::move(item));
    return {};
  }

  // Constants of one weight, weights in the order of their first use.
  Result<std::vector<std::vector<Constant>>> plan() const {
    std::vector<std::vector<Constant>> planned;
    for (size_t i = 0; i < items_.size(); ++i) {
      for (const MatrixUse& use : items_[i].lowering->matrix_uses()) {
        const auto same_weight = [&](const std::vector<Constant>& constants) {
          return constants.front().use.weight->name == use.weight->name;
        };
        auto weight = std::ranges::find_if(planned, same_weight);
        if (weight == planned.end()) weight = planned.insert(planned.end(), std::vector<Constant>());
        const ir::Tensor& first = weight->empty() ? *use.weight : *weight->front().use.weight;
        if (first.format != use.weight->format || first.block != use.weight->block ||
            first.shape != use.weight->shape) {
          return invalid_argument("weight \"{}\" has another shape or format in graph {} than in others",
                                  use.weight->name, items_[i].lowered.name);
        }
        auto constant =
            std::ranges::find_if(*weight, [&](const Constant& other) { return other.use.is_same_constant(use); });
        if (constant == weight->end()) constant = weight->insert(constant, Constant{use, {}});
        if (constant->items.empty() || constant->items.back() != i) constant->items.push_back(i);
      }
    }
    return planned;
  }

  // Each matrix is made once and freed before the next: the library has copied it.
  Status add_matrices() {
    TANDEM_ASSIGN(std::vector<std::vector<Constant>> planned, plan());
    for (std::vector<Constant>& constants : planned) {
      const ir::Tensor& weight = *constants.front().use.weight;
      TANDEM_TRY(stage("weight " + weight.name));
      TANDEM_ASSIGN(WeightMatrix matrix, weights_.matrix(weight));
      TANDEM_TRY(check_matrix(weight, matrix));
      // Tables first: making the other form takes the matrix apart.
      std::stable_partition(constants.begin(), constants.end(),
                            [](const Constant& constant) { return constant.use.rows_like != nullptr; });
      for (const Constant& constant : constants) {
        TANDEM_TRY(add_matrix(constant, matrix, &constant == &constants.back()));
      }
    }
    return {};
  }

  Status add_matrix(const Constant& constant, WeightMatrix& matrix, bool is_last) {
    const Clock::time_point making = Clock::now();
    TANDEM_ASSIGN(const TensorSpec spec, constant.use.rows_like != nullptr ? make_table(constant.use, matrix)
                                                                           : make_conv2d(constant.use, matrix));
    // A table has borrowed nothing, and the library is about to copy it.
    if (is_last && constant.use.rows_like != nullptr) matrix = WeightMatrix();
    const double each = seconds_since(making) / static_cast<double>(constant.items.size());
    for (const size_t i : constant.items) {
      const Clock::time_point adding = Clock::now();
      TANDEM_TRY(items_[i].lowering->add_matrix(spec));
      items_[i].lowered.build_seconds += each + seconds_since(adding);
    }
    return {};
  }

  const LoweringWeights& weights_;
  const LoweringOptions& options_;
  VectorCache vectors_;
  std::vector<Item> items_;
};

}  // namespace

Result<std::vector<LoweredGraph>> lower_graphs(const std::shared_ptr<const Context>& context,
                                               std::span<const NamedGraph> graphs, const LoweringWeights& weights,
                                               const LoweringOptions& options) {
  if (context == nullptr || graphs.empty()) return internal_error("lowering needs a context and graphs");
  return Lowering(weights, options).run(context, graphs);
}

}  // namespace tandem::qnn
