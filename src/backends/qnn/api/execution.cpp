#include "backends/qnn/api/execution.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "backends/qnn/api/version_rules.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

// The names, shapes and encodings stay behind: the library finds tensors by their id.
std::vector<abi::Tensor> make_tensors(const std::vector<TensorInfo>& infos, TensorKind kind) {
  std::vector<abi::Tensor> tensors(infos.size());
  for (size_t i = 0; i < infos.size(); ++i) {
    tensors[i] = {};
    tensors[i].version = abi::kTensorVersion2;
    abi::TensorBody& body = tensors[i].body;
    body.id = infos[i].id;
    body.name = infos[i].name.c_str();
    body.kind = kind;
    body.dtype = infos[i].dtype;
    body.rank = static_cast<uint32_t>(infos[i].shape.size());
    body.dimensions = infos[i].shape.data();
    body.quantize.definition = abi::Definition::kUndefined;
    body.quantize.kind = abi::QuantizationKind::kUndefined;
    if (infos[i].encoding) {
      body.quantize.definition = abi::Definition::kDefined;
      body.quantize.kind = abi::QuantizationKind::kScaleOffset;
      body.quantize.scale_offset = *infos[i].encoding;
    }
    body.memory = abi::MemoryKind::kRaw;
  }
  return tensors;
}

std::optional<size_t> find(const std::vector<TensorInfo>& infos, std::string_view name) {
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  if (found == infos.end()) return std::nullopt;
  return static_cast<size_t>(found - infos.begin());
}

bool overlap(std::span<const uint8_t> a, std::span<const uint8_t> b) {
  const std::less<> before;
  return before(a.data(), b.data() + b.size()) && before(b.data(), a.data() + a.size());
}

// A graph runs one execution at a time; old emulators run one graph at a time.
std::mutex& turn_of(const Graph& graph) {
  static std::mutex of_all;
  const bool one_at_a_time =
      is_emulator() && emulator_runs_one_at_a_time(graph.context()->device()->backend()->library()->htp_version());
  return one_at_a_time ? of_all : graph.execute_mutex();
}

}  // namespace

Result<Execution> Execution::create(std::shared_ptr<const Graph> graph) {
  if (graph == nullptr || !graph->finalized()) return invalid_argument("only a finalized graph can run");
  if (graph->outputs().empty()) return invalid_argument("graph {} has no outputs", graph->name());
  Execution execution(std::move(graph));
  execution.inputs_ = make_side(execution.graph_->inputs(), TensorKind::kAppWrite);
  execution.outputs_ = make_side(execution.graph_->outputs(), TensorKind::kAppRead);
  return execution;
}

std::optional<size_t> Execution::find_input(std::string_view name) const { return find(graph_->inputs(), name); }
std::optional<size_t> Execution::find_output(std::string_view name) const { return find(graph_->outputs(), name); }

Execution::Side Execution::make_side(const std::vector<TensorInfo>& infos, TensorKind kind) {
  Side side;
  side.tensors = make_tensors(infos, kind);
  side.buffers.resize(infos.size());
  side.shared.resize(infos.size());
  return side;
}

Status Execution::set_buffer(const std::vector<TensorInfo>& infos, Side& side, size_t index,
                             std::span<const uint8_t> buffer, std::shared_ptr<const SharedTensor> shared) {
  checked_ = false;
  if (index >= infos.size()) {
    return invalid_argument("graph {} has {} such tensors, and number {} was set", graph_->name(), infos.size(), index);
  }
  if (buffer.size() != infos[index].bytes || buffer.data() == nullptr) {
    return invalid_argument("tensor {} of graph {} takes {} bytes, and the buffer for it has {}", infos[index].name,
                            graph_->name(), infos[index].bytes, buffer.data() == nullptr ? 0 : buffer.size());
  }
  side.buffers[index] = buffer;
  side.shared[index] = std::move(shared);
  abi::TensorBody& body = side.tensors[index].body;
  body.buffer = {};  // The handle is in the same place.
  if (side.shared[index] != nullptr) {
    body.memory = abi::MemoryKind::kHandle;
    body.memory_handle = side.shared[index]->handle();
  } else {
    body.memory = abi::MemoryKind::kRaw;
    body.buffer = {const_cast<uint8_t*>(buffer.data()), static_cast<uint32_t>(buffer.size())};
  }
  return {};
}

Status Execution::set_input(size_t index, std::span<const uint8_t> buffer, std::shared_ptr<const SharedTensor> shared) {
  return set_buffer(graph_->inputs(), inputs_, index, buffer, std::move(shared));
}

Status Execution::set_output(size_t index, std::span<uint8_t> buffer, std::shared_ptr<const SharedTensor> shared) {
  return set_buffer(graph_->outputs(), outputs_, index, buffer, std::move(shared));
}

Status Execution::check_buffers() const {
  for (const Side* const side : {&inputs_, &outputs_}) {
    for (size_t i = 0; i < side->buffers.size(); ++i) {
      if (side->buffers[i].data() == nullptr) {
        return invalid_argument("tensor {} of graph {} has no buffer", side->tensors[i].body.name, graph_->name());
      }
    }
  }
  const std::vector<TensorInfo>& inputs = graph_->inputs();
  const std::vector<TensorInfo>& outputs = graph_->outputs();
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (size_t j = 0; j < inputs.size(); ++j) {
      if (overlap(outputs_.buffers[i], inputs_.buffers[j])) {
        return invalid_argument("input {} and output {} of graph {} share memory; give each a buffer of its own",
                                inputs[j].name, outputs[i].name, graph_->name());
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(outputs_.buffers[i], outputs_.buffers[j])) {
        return invalid_argument("outputs {} and {} of graph {} share memory; give each a buffer of its own",
                                outputs[j].name, outputs[i].name, graph_->name());
      }
    }
  }
  return {};
}

Status Execution::run() {
  if (!checked_) {
    TANDEM_TRY(check_buffers());
    checked_ = true;
  }
  const std::lock_guard lock(turn_of(*graph_));
  const ErrorListener listener;
  const auto result = graph_->core().graph_execute(
      graph_->handle(), inputs_.tensors.data(), static_cast<uint32_t>(inputs_.tensors.size()), outputs_.tensors.data(),
      static_cast<uint32_t>(outputs_.tensors.size()), nullptr, nullptr);
  if (result != abi::kSuccess) {
    return describe_error(result, str_format("running graph {}", graph_->name()), listener.said());
  }
  return {};
}

}  // namespace tandem::qnn
