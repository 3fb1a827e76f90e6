#include "backends/qnn/compile/shard_plan.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "compiler/passes/passes.h"
#include "ir/verifier.h"

namespace tandem {
namespace {

using ir::Op;
using ir::OpKind;
using ir::TensorId;
using ir::TensorRole;

// Bytes of a weight in a binary: a little more than its bits, as measured.
double binary_bytes_per_weight(WeightFormat format) {
  switch (format) {
    case WeightFormat::kLpbq4: return 0.54;
    case WeightFormat::kI8: return 1.02;
    case WeightFormat::kF32:
    case WeightFormat::kF16:
    case WeightFormat::kBF16: return 2.0;
  }
  return 2.0;
}

struct Sizes {
  std::vector<uint64_t> layers;
  uint64_t embedding = 0;
  uint64_t head = 0;
};

Sizes sizes_of(const ModelPlan& plan, const Recipe& recipe, size_t weight_sets) {
  std::vector<double> layers(plan.layers.size(), 0.0);
  double head = 0.0;
  for (const WeightSource& weight : plan.weights) {
    const double bytes = static_cast<double>(weight.rows) * static_cast<double>(weight.cols) *
                         binary_bytes_per_weight(recipe.spec_for(weight.name).format);
    if (weight.purpose.layer >= 0) {
      layers[static_cast<size_t>(weight.purpose.layer)] += bytes * static_cast<double>(weight_sets);
    } else if (weight.purpose.kind == ir::PurposeKind::kLmHead) {
      head += bytes;  // One graph for all methods.
    }
  }
  Sizes sizes;
  for (const double bytes : layers) sizes.layers.push_back(static_cast<uint64_t>(bytes));
  sizes.head = static_cast<uint64_t>(head);
  return sizes;
}

// Where each op of a method belongs: before the layers, to one of them, or after them.
constexpr int64_t kBefore = -1;
constexpr int64_t kBehind = INT64_MAX;

std::vector<int64_t> layers_of(const ir::Graph& graph) {
  std::vector<int64_t> layers;
  int64_t layer = kBefore;
  for (const Op& op : graph.ops) {
    const ir::Purpose& purpose = graph.at(op.outputs[0]).purpose;
    if (purpose.layer >= 0) {
      layer = purpose.layer;
    } else if (ir::is_after_layers(purpose)) {
      layer = kBehind;
    }
    layers.push_back(layer);
  }
  return layers;
}

Result<ir::Graph> extract(const ir::Graph& method, const std::vector<bool>& taken, const std::string& name) {
  std::vector<bool> inside(method.tensors.size(), false), outside(method.tensors.size(), false);
  std::vector<bool> used(method.tensors.size(), false);
  for (size_t i = 0; i < method.ops.size(); ++i) {
    for (const TensorId id : method.ops[i].inputs) {
      (taken[i] ? used : outside)[static_cast<size_t>(id)] = true;
    }
    if (!taken[i]) continue;
    for (const TensorId id : method.ops[i].outputs)
      used[static_cast<size_t>(id)] = inside[static_cast<size_t>(id)] = true;
  }
  // The rotary tables are small: every shard makes its own and passes them to no other.
  for (const Op& op : method.ops) {
    if (op.kind != OpKind::kRopeTable) continue;
    for (const TensorId id : op.outputs) outside[static_cast<size_t>(id)] = false;
  }
  ir::Graph part;
  part.name = name;
  part.tokens = method.tokens;
  part.context = method.context;
  std::vector<TensorId> moved(method.tensors.size(), -1);
  for (size_t i = 0; i < method.tensors.size(); ++i) {
    if (!used[i]) continue;
    ir::Tensor tensor = method.tensors[i];
    const bool is_computed = tensor.role == TensorRole::kActivation || tensor.role == TensorRole::kOutput;
    if (is_computed && !inside[i]) tensor.role = TensorRole::kInput;
    if (tensor.role == TensorRole::kActivation && outside[i]) tensor.role = TensorRole::kOutput;
    moved[i] = part.add(std::move(tensor));
  }
  for (size_t i = 0; i < method.ops.size(); ++i) {
    if (!taken[i]) continue;
    Op op = method.ops[i];
    for (auto* ids : {&op.inputs, &op.outputs}) {
      for (TensorId& id : *ids) id = moved[static_cast<size_t>(id)];
    }
    part.ops.push_back(std::move(op));
  }
  if (Status status = ir::verify(part); !status.ok()) {
    return internal_error("the shard {}: {}", name, status.error().message);
  }
  return part;
}

Status check_sizes(const ShardRange& shard, const Sizes& sizes, const ShardOptions& options) {
  if (shard.estimated_bytes > options.largest) {
    return resource_exhausted(
        "the shard {} would be {} MB, more than the {} MB that {}; use more `shards`, or fewer bits", shard.name,
        shard.estimated_bytes >> 20, options.largest >> 20,
        options.shards > 0 ? "a binary can have" : "most devices load");
  }
  const uint64_t head = shard.head ? sizes.head : 0;
  const uint64_t layers = (shard.estimated_bytes - head) / std::max<size_t>(options.weight_sets, 1);
  const uint64_t graph = std::max(layers, head);
  if (graph <= options.largest_graph) return ok_status();
  return resource_exhausted(
      "a graph of the shard {} would be {} MB, more than the {} MB that Qualcomm's compiler takes; use more `shards`, "
      "or "
      "fewer bits",
      shard.name, graph >> 20, options.largest_graph >> 20);
}

}  // namespace

Result<std::vector<ShardRange>> plan_shards(const ModelPlan& plan, const Recipe& recipe, const ShardOptions& options) {
  const Sizes sizes = sizes_of(plan, recipe, options.weight_sets);
  const auto layers = static_cast<int64_t>(sizes.layers.size());
  if (options.shards < 0 || options.shards > layers + 1) {
    return invalid_argument("{} shards are not possible: the model has {} layers and an LM head; use `shards` 1 to {}",
                            options.shards, layers, layers + 1);
  }
  uint64_t all_layers = 0;
  for (const uint64_t bytes : sizes.layers) all_layers += bytes;
  const bool one_is_enough = all_layers + sizes.head <= kPreferredShardBytes && layers <= kPreferredShardLayers;
  // An LM head as large as a few layers is better compiled alone. With more shards than layers it has to be.
  const bool head_alone =
      options.shards > layers || (options.shards != 1 && !one_is_enough && sizes.head > kPreferredShardBytes / 2);
  int64_t runs = options.shards - (head_alone ? 1 : 0);
  if (options.shards == 0) {
    const auto by_size = static_cast<int64_t>((all_layers + kPreferredShardBytes - 1) / kPreferredShardBytes);
    const int64_t by_layers = (layers + kPreferredShardLayers - 1) / kPreferredShardLayers;
    runs = one_is_enough ? 1 : std::max(by_size, by_layers);
  }
  runs = std::clamp<int64_t>(runs, 1, layers);
  std::vector<ShardRange> shards;
  for (int64_t i = 0; i < runs; ++i) {
    ShardRange shard;
    shard.layer_begin = layers * i / runs;
    shard.layer_end = layers * (i + 1) / runs;
    for (int64_t l = shard.layer_begin; l < shard.layer_end; ++l) {
      shard.estimated_bytes += sizes.layers[static_cast<size_t>(l)];
    }
    shard.name = str_format("layers.{}-{}", shard.layer_begin, shard.layer_end - 1);
    shards.push_back(std::move(shard));
  }
  if (head_alone) {
    shards.push_back({"head", layers, layers, true, sizes.head});
  } else {
    shards.back().head = true;
    shards.back().name += "+head";
    shards.back().estimated_bytes += sizes.head;
  }
  for (const ShardRange& shard : shards) TANDEM_TRY(check_sizes(shard, sizes, options));
  return shards;
}

Result<ir::Graph> extract_layers(const ir::Graph& method, const ShardRange& shard) {
  const std::vector<int64_t> layers = layers_of(method);
  std::vector<bool> taken(method.ops.size(), false);
  for (size_t i = 0; i < method.ops.size(); ++i) {
    const Op& op = method.ops[i];
    // Every shard makes the rotary tables. A lookup by the CPU belongs to none.
    const bool is_first = shard.layer_begin == 0 && layers[i] == kBefore && !op.attributes.on_host;
    taken[i] =
        is_first || op.kind == OpKind::kRopeTable || (layers[i] >= shard.layer_begin && layers[i] < shard.layer_end);
  }
  return extract(method, taken, str_format("{}.{}", method.name, shard.name));
}

Result<ir::Graph> extract_lm_head(const ir::Graph& method) {
  const std::vector<int64_t> layers = layers_of(method);
  std::vector<bool> taken(method.ops.size(), false);
  for (size_t i = 0; i < method.ops.size(); ++i) {
    taken[i] = layers[i] == kBehind && !method.ops[i].attributes.on_host;
  }
  return extract(method, taken, "head");
}

ir::Graph host_graph(const ModelPlan& plan, const Recipe& recipe) {
  ir::Graph graph;
  const WeightSource& source = *plan.find_weight("embedding");
  ir::Tensor table = {.name = source.name,
                      .role = ir::TensorRole::kWeight,
                      .shape = {source.rows, source.cols},
                      .purpose = source.purpose};
  set_weight_format(table, recipe.spec_for("embedding"));
  graph.add(std::move(table));
  return graph;
}

}  // namespace tandem
