#include "backends/qnn/api/binary_info.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "backends/qnn/api/log.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

// More of either means damage: no decoder has them.
constexpr uint32_t kMaxGraphs = 1024;
constexpr uint32_t kMaxTensors = 65536;

Error strange(std::string_view what) {
  return corrupt("the description of the context binary has {}; compile the model again", what);
}

std::string text_or_empty(const char* text) { return text != nullptr ? text : ""; }

Result<TensorInfo> convert(const abi::Tensor& tensor) {
  if (tensor.version != abi::kTensorVersion1 && tensor.version != abi::kTensorVersion2) {
    return strange("a tensor of an unknown version");
  }
  const abi::TensorBody& body = tensor.body;  // Only fields that both versions have are read.
  if (body.name == nullptr) return strange("a tensor without a name");
  if (body.rank > kMaxRank || (body.rank > 0 && body.dimensions == nullptr)) return strange("a tensor without a shape");
  TensorInfo info;
  info.name = body.name;
  info.id = body.id;
  info.dtype = body.dtype;
  if (body.rank > 0) info.shape.assign(body.dimensions, body.dimensions + body.rank);
  const auto bytes = tensor_bytes(info.dtype, info.shape);
  if (!bytes) return strange(str_format("tensor {} of a type or size that tandem does not know", info.name));
  info.bytes = *bytes;
  if (body.quantize.definition == abi::Definition::kDefined &&
      body.quantize.kind == abi::QuantizationKind::kScaleOffset) {
    info.encoding = body.quantize.scale_offset;
  }
  return info;
}

Result<std::vector<TensorInfo>> convert_all(const abi::Tensor* tensors, uint32_t count) {
  if (count > kMaxTensors || (count > 0 && tensors == nullptr)) return strange("an impossible number of tensors");
  std::vector<TensorInfo> infos;
  for (uint32_t i = 0; i < count; ++i) {
    TANDEM_ASSIGN(TensorInfo info, convert(tensors[i]));
    infos.push_back(std::move(info));
  }
  return infos;
}

Result<GraphInfo> convert(const abi::GraphInfo& graph) {
  if (graph.version < 1 || graph.version > 3) return strange("a graph of an unknown version");
  const abi::GraphInfoBody& body = graph.body;
  if (body.name == nullptr) return strange("a graph without a name");
  GraphInfo info;
  info.name = body.name;
  TANDEM_ASSIGN(info.inputs, convert_all(body.inputs, body.input_count));
  TANDEM_ASSIGN(info.outputs, convert_all(body.outputs, body.output_count));
  if (graph.version == 3 && body.blob_info != nullptr && body.blob_info_size >= sizeof(abi::HtpGraphBlobInfo)) {
    abi::HtpGraphBlobInfo blob;
    std::memcpy(&blob, body.blob_info, sizeof(blob));
    if (blob.version == 1) {
      info.spill_fill_bytes = blob.spill_fill_bytes;
      info.vtcm_bytes = blob.vtcm_bytes;
      info.optimization_level = blob.optimization_level;
      info.hvx_threads = blob.hvx_threads;
    }
  }
  return info;
}

}  // namespace

const GraphInfo* BinaryInfo::find_graph(std::string_view name) const {
  const auto found = std::ranges::find(graphs, name, &GraphInfo::name);
  return found != graphs.end() ? &*found : nullptr;
}

uint64_t BinaryInfo::spill_fill_bytes() const {
  uint64_t most = 0;
  for (const GraphInfo& graph : graphs) most = std::max(most, graph.spill_fill_bytes);
  return most;
}

Result<BinaryInfo> read_binary_info(const Library& library, std::span<const uint8_t> binary) {
  if (binary.empty()) return corrupt("the context binary is empty; compile the model again");
  TANDEM_ASSIGN(const abi::SystemTable* const system, library.system());
  abi::Handle handle = nullptr;
  const ErrorListener listener;
  const StdoutCapture capture;
  if (const auto result = system->context_create(&handle); result != abi::kSuccess) {
    return describe_error(result, "preparing to read a context binary", listener.said());
  }
  // The handle owns what the library returns.
  const auto free_handle = [system](void* owned) { system->context_free(owned); };
  const std::unique_ptr<void, decltype(free_handle)> owner(handle, free_handle);
  const abi::BinaryInfo* metadata = nullptr;
  if (const auto result = system->context_get_metadata(handle, binary.data(), binary.size(), &metadata);
      result != abi::kSuccess) {
    return describe_error(result, "reading what is in a context binary", listener.said());
  }
  if (metadata == nullptr) return strange("nothing in it");
  if (metadata->version != 3) {
    return unsupported(
        "the context binary is described in form {}, and tandem reads form 3; compile it again with onnxruntime-qnn {}",
        metadata->version, kPackageVersion);
  }
  const abi::BinaryInfoBody& body = metadata->body;
  if (body.backend_id != abi::kHtpBackendId) {
    return unsupported("the context binary is for QNN's back end number {}, not for HTP", body.backend_id);
  }
  BinaryInfo info;
  info.build_id = text_or_empty(body.build_id);
  info.core_version = body.core_version;
  info.htp_version = body.backend_version;
  info.blob_version = body.blob_version;
  info.soc_model = body.soc_model;
  if (body.metadata != nullptr && body.metadata_size >= sizeof(abi::HtpContextBlobInfo)) {
    abi::HtpContextBlobInfo blob;
    std::memcpy(&blob, body.metadata, sizeof(blob));
    if (blob.version == 1 && blob.arch < 1000) info.arch = static_cast<int>(blob.arch);
  }
  if (body.graph_count > kMaxGraphs || (body.graph_count > 0 && body.graphs == nullptr)) {
    return strange("an impossible number of graphs");
  }
  for (uint32_t i = 0; i < body.graph_count; ++i) {
    TANDEM_ASSIGN(GraphInfo graph, convert(body.graphs[i]));
    info.graphs.push_back(std::move(graph));
  }
  return info;
}

}  // namespace tandem::qnn
