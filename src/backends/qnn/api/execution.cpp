#include "backends/qnn/api/execution.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "base/error.h"

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

Status set_buffer(const Graph& graph, const std::vector<TensorInfo>& infos, std::vector<abi::Tensor>& tensors,
                  size_t index, const uint8_t* data, size_t size) {
  if (index >= infos.size()) {
    return invalid_argument("graph {} has {} such tensors, and number {} was set", graph.name(), infos.size(), index);
  }
  if (size != infos[index].bytes || data == nullptr) {
    return invalid_argument("tensor {} of graph {} takes {} bytes, and the buffer for it has {}", infos[index].name,
                            graph.name(), infos[index].bytes, data == nullptr ? 0 : size);
  }
  tensors[index].body.buffer = {const_cast<uint8_t*>(data), static_cast<uint32_t>(size)};
  return {};
}

std::optional<size_t> find(const std::vector<TensorInfo>& infos, std::string_view name) {
  const auto found = std::ranges::find(infos, name, &TensorInfo::name);
  if (found == infos.end()) return std::nullopt;
  return static_cast<size_t>(found - infos.begin());
}

bool overlap(const abi::Tensor& a, const abi::Tensor& b) {
  const auto* const left = static_cast<const uint8_t*>(a.body.buffer.data);
  const auto* const right = static_cast<const uint8_t*>(b.body.buffer.data);
  const std::less<> before;
  return before(left, right + b.body.buffer.size) && before(right, left + a.body.buffer.size);
}

}  // namespace

Result<Execution> Execution::create(std::shared_ptr<const Graph> graph) {
  if (graph == nullptr || !graph->finalized()) return invalid_argument("only a finalized graph can run");
  if (graph->outputs().empty()) return invalid_argument("graph {} has no outputs", graph->name());
  Execution execution(std::move(graph));
  execution.inputs_ = make_tensors(execution.graph_->inputs(), TensorKind::kAppWrite);
  execution.outputs_ = make_tensors(execution.graph_->outputs(), TensorKind::kAppRead);
  return execution;
}

std::optional<size_t> Execution::find_input(std::string_view name) const { return find(graph_->inputs(), name); }
std::optional<size_t> Execution::find_output(std::string_view name) const { return find(graph_->outputs(), name); }

Status Execution::set_input(size_t index, std::span<const uint8_t> buffer) {
  checked_ = false;
  return set_buffer(*graph_, graph_->inputs(), inputs_, index, buffer.data(), buffer.size());
}

Status Execution::set_output(size_t index, std::span<uint8_t> buffer) {
  checked_ = false;
  return set_buffer(*graph_, graph_->outputs(), outputs_, index, buffer.data(), buffer.size());
}

Status Execution::check_buffers() const {
  for (const auto* const tensors : {&inputs_, &outputs_}) {
    for (const abi::Tensor& tensor : *tensors) {
      if (tensor.body.buffer.data == nullptr) {
        return invalid_argument("tensor {} of graph {} has no buffer", tensor.body.name, graph_->name());
      }
    }
  }
  for (size_t i = 0; i < outputs_.size(); ++i) {
    for (const abi::Tensor& input : inputs_) {
      if (overlap(outputs_[i], input)) {
        return invalid_argument("input {} and output {} of graph {} share memory; give each a buffer of its own",
                                input.body.name, outputs_[i].body.name, graph_->name());
      }
    }
    for (size_t j = 0; j < i; ++j) {
      if (overlap(outputs_[i], outputs_[j])) {
        return invalid_argument("outputs {} and {} of graph {} share memory; give each a buffer of its own",
                                outputs_[j].body.name, outputs_[i].body.name, graph_->name());
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
  const std::lock_guard lock(graph_->execute_mutex());
  const ErrorListener listener;
  const auto result =
      graph_->core().graph_execute(graph_->handle(), inputs_.data(), static_cast<uint32_t>(inputs_.size()),
                                   outputs_.data(), static_cast<uint32_t>(outputs_.size()), nullptr, nullptr);
  if (result != abi::kSuccess) {
    return describe_error(result, fmt::format("running graph {}", graph_->name()), listener.said());
  }
  return {};
}

}  // namespace tandem::qnn
