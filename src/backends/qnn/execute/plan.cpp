#include "backends/qnn/execute/plan.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "backends/interface/method_memory.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

constexpr uint64_t kArenaAlignment = 128;  // A vector register of the DSP.
// More is not a decoder's activations but damage, and sums of it stay far from overflow.
constexpr uint64_t kMaxArenaBytes = uint64_t{1} << 40;

bool same_type(DType ours, DataType theirs) {
  switch (ours) {
    case DType::kF32: return theirs == DataType::kFloat32;
    case DType::kF16: return theirs == DataType::kFloat16;
    case DType::kI32: return theirs == DataType::kInt32 || theirs == DataType::kUint32;  // Indices, never negative.
    case DType::kU16: return theirs == DataType::kFixedU16;
    case DType::kI16: return theirs == DataType::kFixedS16;
    case DType::kU8: return theirs == DataType::kFixedU8;
    case DType::kI8: return theirs == DataType::kFixedS8;
    case DType::kBF16:
    case DType::kI64:
    case DType::kI4: return false;
  }
  return false;
}

bool same_encoding(const ir::Encoding& ours, const std::optional<abi::ScaleOffset>& theirs) {
  if (ours.kind == ir::EncodingKind::kPlain) return !theirs.has_value();
  if (ours.kind != ir::EncodingKind::kPerTensor || !theirs) return false;
  return ours.scale == theirs->scale && ours.zero_point == -int64_t{theirs->offset};
}

std::string encoding_text(const std::optional<abi::ScaleOffset>& encoding) {
  if (!encoding) return "no encoding";
  return str_format("scale {}, zero point {}", encoding->scale, -int64_t{encoding->offset});
}

std::string encoding_text(const ir::Encoding& encoding) {
  if (encoding.kind == ir::EncodingKind::kPlain) return "no encoding";
  if (encoding.kind != ir::EncodingKind::kPerTensor) return std::string(ir::encoding_kind_name(encoding.kind));
  return str_format("scale {}, zero point {}", encoding.scale, encoding.zero_point);
}

// Whether the first axis is the call's tokens, so that rows can be cut out.
bool has_rows(const ir::Tensor& tensor, int64_t tokens) {
  return tensor.shape.size() == 2 && tensor.shape[0] == tokens;
}

class Planner {
 public:
  Planner(const ir::Graph& graph, std::span<const ShardDescription> shards) : graph_(graph), shards_(shards) {}

  Result<MethodPlan> run() {
    plan_.graph = &graph_;
    if (graph_.tokens < 1) return corrupt("method \"{}\" takes {} tokens", graph_.name, graph_.tokens);
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const ir::Tensor& tensor = graph_.tensors[i];
      names_.emplace(tensor.name, static_cast<ir::TensorId>(i));
      const bool given = tensor.role == ir::TensorRole::kInput || tensor.role == ir::TensorRole::kState;
      ready_.push_back(given ? Ready::kWhole : Ready::kNo);
    }
    offsets_.resize(graph_.tensors.size());
    for (const ir::Op& op : graph_.ops) {
      if (op.kind == ir::OpKind::kEmbedding) TANDEM_TRY(embedding(op));
      if (op.kind == ir::OpKind::kRopeTable) TANDEM_TRY(positions(op));
      if (op.kind == ir::OpKind::kRescore) TANDEM_TRY(rescore(op));
    }
    for (size_t s = 0; s < shards_.size(); ++s) TANDEM_TRY(shard(s));
    for (const HostRescore& rescore : plan_.rescores) {
      if (ready_[static_cast<size_t>(rescore.x.tensor)] != Ready::kNo) continue;
      return corrupt("no shard of the file computes \"{}\", which method \"{}\" rescores with; compile it again",
                     graph_.at(rescore.x.tensor).name, graph_.name);
    }
    for (size_t i = 0; i < graph_.tensors.size(); ++i) {
      const ir::Tensor& tensor = graph_.tensors[i];
      if (tensor.role == ir::TensorRole::kOutput && ready_[i] == Ready::kNo) {
        return corrupt("no shard of the file computes \"{}\" of method \"{}\"; compile it again", tensor.name,
                       graph_.name);
      }
    }
    return std::move(plan_);
  }

 private:
  // Whether a tensor has been computed: all of it, or only the rows that the caller wants.
  enum class Ready : uint8_t { kNo, kWhole, kWantedRows };

  Result<uint64_t> reserve(uint64_t bytes) {
    const uint64_t offset = plan_.arena_bytes;
    if (bytes > kMaxArenaBytes || offset > kMaxArenaBytes) {
      return corrupt("method \"{}\" wants an impossible amount of memory", graph_.name);
    }
    plan_.arena_bytes = round_up(offset + bytes, kArenaAlignment);
    return offset;
  }

  // Where the tensor's bytes are; activations get a buffer when they are first seen.
  Result<Port> port_of(ir::TensorId id) {
    const auto index = static_cast<size_t>(id);
    const ir::Tensor& tensor = graph_.at(id);
    Port port;
    port.tensor = id;
    port.bytes = tandem::tensor_bytes(tensor);
    if (tensor.role != ir::TensorRole::kActivation && !offsets_[index]) return port;
    if (!offsets_[index]) {
      TANDEM_ASSIGN(const uint64_t offset, reserve(port.bytes));
      offsets_[index] = offset;
    }
    port.in_arena = true;
    port.offset = *offsets_[index];
    return port;
  }

  Status embedding(const ir::Op& op) {
    const ir::TensorId tokens = op.inputs[0];
    const ir::TensorId table = op.inputs[1];
    const ir::TensorId output = op.outputs[0];
    if (graph_.at(tokens).role != ir::TensorRole::kInput || graph_.at(tokens).dtype != DType::kI32 ||
        graph_.at(table).shape.size() != 2) {
      return corrupt("the embedding of method \"{}\" does not look up the caller's tokens", graph_.name);
    }
    plan_.token_limits.push_back({tokens, graph_.at(table).shape[0]});
    if (!op.attributes.on_host) return ok_status();
    const ir::Tensor& out = graph_.at(output);
    if (ready_[static_cast<size_t>(output)] != Ready::kNo || !has_rows(out, graph_.tokens) ||
        out.shape[1] != graph_.at(table).shape[1] ||
        (out.role != ir::TensorRole::kActivation && out.role != ir::TensorRole::kOutput)) {
      return corrupt("the embedding of method \"{}\" has an output that does not fit it", graph_.name);
    }
    HostLookup lookup;
    lookup.tokens = tokens;
    lookup.table = table;
    TANDEM_ASSIGN(lookup.output, port_of(output));
    ready_[static_cast<size_t>(output)] = Ready::kWhole;
    plan_.lookups.push_back(lookup);
    return ok_status();
  }

  // The shard's logits are written where the caller wants them, and changed there.
  Status rescore(const ir::Op& op) {
    const ir::Tensor &coarse = graph_.at(op.inputs[0]), &x = graph_.at(op.inputs[1]),
                     &logits = graph_.at(op.outputs[0]);
    const bool fits = coarse.role == ir::TensorRole::kActivation && logits.role == ir::TensorRole::kOutput &&
                      logits.dtype == DType::kU16 && x.role == ir::TensorRole::kActivation &&
                      readers_of(op.inputs[0]) == 1 && plan_.rescores.empty();
    if (!fits) return corrupt("method \"{}\" rescores its logits in a way that the CPU does not do", graph_.name);
    names_[coarse.name] = op.outputs[0];
    HostRescore rescore;
    rescore.table = op.inputs[2];
    rescore.attributes = op.attributes;
    TANDEM_ASSIGN(rescore.x, port_of(op.inputs[1]));
    TANDEM_ASSIGN(rescore.logits, port_of(op.outputs[0]));
    plan_.rescores.push_back(rescore);
    return ok_status();
  }

  size_t readers_of(ir::TensorId id) const {
    size_t readers = 0;
    for (const ir::Op& op : graph_.ops) readers += static_cast<size_t>(std::ranges::count(op.inputs, id));
    return readers;
  }

  Status positions(const ir::Op& op) {
    const ir::TensorId id = op.inputs[0];
    const ir::Tensor& tensor = graph_.at(id);
    if (tensor.role != ir::TensorRole::kInput || tensor.dtype != DType::kI32) {
      return corrupt("method \"{}\" does not take its positions from the caller", graph_.name);
    }
    if (offsets_[static_cast<size_t>(id)]) return ok_status();
    TANDEM_ASSIGN(offsets_[static_cast<size_t>(id)], reserve(tandem::tensor_bytes(tensor)));
    TANDEM_ASSIGN(const Port port, port_of(id));
    plan_.positions.push_back({port, (op.inputs.size() == 3 ? 2 : 1) * graph_.context});
    return ok_status();
  }

  // The shard's graphs for this method, in the file's order: its layers, then perhaps the head.
  Status shard(size_t index) {
    const Shard& shard = *shards_[index].shard;
    const BinaryInfo& binary = *shards_[index].binary;
    for (const ShardGraph& graph : shard.graphs) {
      if (!graph.method.empty() && graph.method != graph_.name) continue;
      const auto found = std::ranges::find(binary.graphs, graph.name, &GraphInfo::name);
      if (found == binary.graphs.end()) {
        return corrupt("the binary of shard \"{}\" has no graph \"{}\"; compile the file again", shard.name,
                       graph.name);
      }
      if (graph.tokens != graph_.tokens && graph.tokens != 1) {
        return corrupt("graph \"{}\" takes {} rows and method \"{}\" has {}; compile the file again", graph.name,
                       graph.tokens, graph_.name, graph_.tokens);
      }
      TANDEM_TRY(step(index, static_cast<size_t>(found - binary.graphs.begin()), *found, graph.tokens));
    }
    return ok_status();  // What is missing will be missed.
  }

  // Whether the graph's work is wanted for the rows that the caller will read, and for no others: it gives rows of
  // outputs and nothing else. (k_new and v_new have no rows in this sense: the caller wants them always.)
  bool gives_only_rows(const GraphInfo& info) const {
    return std::ranges::all_of(info.outputs, [&](const TensorInfo& output) {
      const auto it = names_.find(output.name);
      if (it == names_.end()) return false;
      const ir::Tensor& tensor = graph_.at(it->second);
      const bool is_rescored_with = !plan_.rescores.empty() && plan_.rescores[0].x.tensor == it->second;
      return (tensor.role == ir::TensorRole::kOutput || is_rescored_with) && has_rows(tensor, graph_.tokens);
    });
  }

  bool takes_only_rows(const GraphInfo& info) const {
    return std::ranges::all_of(info.inputs, [&](const TensorInfo& input) {
      const auto it = names_.find(input.name);
      return it != names_.end() && has_rows(graph_.at(it->second), graph_.tokens);
    });
  }

  Status step(size_t shard_index, size_t graph_index, const GraphInfo& info, int64_t tokens) {
    Step step;
    step.shard = shard_index;
    step.graph = graph_index;
    step.staged = tokens != graph_.tokens;
    step.by_row = step.staged || (tokens == 1 && gives_only_rows(info) && takes_only_rows(info));
    if (info.outputs.empty()) return corrupt("graph \"{}\" has no outputs; compile the file again", info.name);
    for (const TensorInfo& input : info.inputs) {
      TANDEM_ASSIGN(const Port port, check(input, info, step));
      const Ready ready = ready_[static_cast<size_t>(port.tensor)];
      if (ready == Ready::kNo || (ready == Ready::kWantedRows && !step.by_row)) {
        return corrupt(
            "graph \"{}\" of method \"{}\" reads \"{}\", which nothing has computed before; compile the "
            "file again",
            info.name, graph_.name, input.name);
      }
      TANDEM_TRY(add(step.inputs, port, info));
    }
    for (const TensorInfo& output : info.outputs) {
      TANDEM_ASSIGN(const Port port, check(output, info, step));
      const ir::TensorRole role = graph_.at(port.tensor).role;
      Ready& ready = ready_[static_cast<size_t>(port.tensor)];
      if ((role != ir::TensorRole::kActivation && role != ir::TensorRole::kOutput) || ready != Ready::kNo) {
        return corrupt(
            "graph \"{}\" of method \"{}\" writes \"{}\", which is given or computed already; compile the "
            "file again",
            info.name, graph_.name, output.name);
      }
      ready = step.by_row ? Ready::kWantedRows : Ready::kWhole;
      TANDEM_TRY(add(step.outputs, port, info));
    }
    if (step.staged) {
      for (std::vector<Port>* const ports : {&step.inputs, &step.outputs}) {
        for (Port& port : *ports) {
          TANDEM_ASSIGN(port.stage, reserve(port.bytes));
        }
      }
    }
    plan_.steps.push_back(std::move(step));
    return ok_status();
  }

  Status add(std::vector<Port>& ports, const Port& port, const GraphInfo& info) const {
    if (std::ranges::find(ports, port.tensor, &Port::tensor) != ports.end()) {
      return corrupt("graph \"{}\" names \"{}\" twice; compile the file again", info.name, graph_.at(port.tensor).name);
    }
    ports.push_back(port);
    return ok_status();
  }

  // The method's tensor of that name, if it is what the binary says it is.
  Result<Port> check(const TensorInfo& theirs, const GraphInfo& info, const Step& step) {
    const auto it = names_.find(theirs.name);
    if (it == names_.end()) {
      return corrupt(
          "graph \"{}\" has the tensor \"{}\", and method \"{}\" has none of that name; compile the file "
          "again",
          info.name, theirs.name, graph_.name);
    }
    const ir::Tensor& ours = graph_.at(it->second);
    if (ours.role == ir::TensorRole::kWeight || ours.role == ir::TensorRole::kVector) {
      return corrupt("graph \"{}\" takes the weight \"{}\" as an input; compile the file again", info.name, ours.name);
    }
    if (step.staged && !has_rows(ours, graph_.tokens)) {
      return corrupt("graph \"{}\" takes one row, and \"{}\" of method \"{}\" has no rows; compile the file again",
                     info.name, ours.name, graph_.name);
    }
    if (!same_type(ours.dtype, theirs.dtype)) {
      return corrupt("\"{}\" is {} in method \"{}\" and {} in graph \"{}\"; compile the file again", ours.name,
                     dtype_name(ours.dtype), graph_.name, data_type_name(theirs.dtype), info.name);
    }
    const uint64_t whole = tandem::tensor_bytes(ours);
    const uint64_t expected = step.staged ? whole / static_cast<uint64_t>(graph_.tokens) : whole;
    if (expected != theirs.bytes || expected == 0) {
      return corrupt("\"{}\" has {} bytes in method \"{}\" and {} in graph \"{}\"; compile the file again", ours.name,
                     expected, graph_.name, theirs.bytes, info.name);
    }
    if (!same_encoding(ours.encoding, theirs.encoding)) {
      return corrupt("\"{}\" has {} in method \"{}\" and {} in graph \"{}\"; compile the file again", ours.name,
                     encoding_text(ours.encoding), graph_.name, encoding_text(theirs.encoding), info.name);
    }
    TANDEM_ASSIGN(Port port, port_of(it->second));
    port.bytes = expected;
    return port;
  }

  const ir::Graph& graph_;
  std::span<const ShardDescription> shards_;
  std::unordered_map<std::string_view, ir::TensorId> names_;
  std::vector<Ready> ready_;                      // By TensorId.
  std::vector<std::optional<uint64_t>> offsets_;  // By TensorId: where in the arena.
  MethodPlan plan_;
};

}  // namespace

Result<MethodPlan> plan_method(const ir::Graph& graph, std::span<const ShardDescription> shards) {
  return Planner(graph, shards).run();
}

}  // namespace tandem::qnn
