#include "backends/qnn/api/graph.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "backends/qnn/api/known_traps.h"
#include "backends/qnn/api/profile.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

constexpr size_t kKeptConstantBytes = 256 * 1024;
constexpr size_t kMaxCompilerOptions = 8;
constexpr size_t kMaxConfigs = 4 + kMaxCompilerOptions;

// The configs for graphCreate, and what they point to.
struct GraphConfigs {
  explicit GraphConfigs(const Graph::Options& options, int vtcm_mb) {
    abi::HtpGraphConfig& level = add(abi::HtpGraphOption::kOptimization);
    level.optimization = {abi::HtpOptimization::kLevel, static_cast<float>(options.optimization_level)};
    add(abi::HtpGraphOption::kVtcmMb).vtcm_mb = static_cast<uint32_t>(vtcm_mb);
    if (options.float16) add(abi::HtpGraphOption::kPrecision).precision = abi::Precision::kFloat16;
    if (options.hvx_threads > 0) {
      add(abi::HtpGraphOption::kHvxThreads).hvx_threads = static_cast<uint64_t>(options.hvx_threads);
    }
    for (const CompilerOption& option : options.compiler_options) {
      abi::HtpFinalizeConfig& config = add(abi::HtpGraphOption::kFinalizeConfig).finalize;
      config.key = option.name.c_str();
      config.value.dtype = DataType::kUint32;
      config.value.u32 = option.value;
    }
  }
  GraphConfigs(const GraphConfigs&) = delete;
  GraphConfigs& operator=(const GraphConfigs&) = delete;

  abi::HtpGraphConfig& add(abi::HtpGraphOption option) {
    customs[count].option = option;
    configs[count].option = abi::GraphOption::kCustom;
    configs[count].custom = &customs[count];
    list[count] = &configs[count];
    return customs[count++];
  }

  size_t count = 0;
  std::array<abi::HtpGraphConfig, kMaxConfigs> customs = {};
  std::array<abi::GraphConfig, kMaxConfigs> configs = {};
  std::array<const abi::GraphConfig*, kMaxConfigs + 1> list = {};
};

Status check(const Graph::Options& options) {
  if (options.optimization_level != 2 && options.optimization_level != 3) {
    return unsupported(
        "optimization level {} is not offered: level 1 of the QNN library gives wrong results; use 2 or 3",
        options.optimization_level);
  }
  if (options.vtcm_mb < 0 || options.vtcm_mb > 64)
    return invalid_argument("{} MB of VTCM make no sense", options.vtcm_mb);
  if (options.hvx_threads < 0 || options.hvx_threads > 16) {
    return invalid_argument("{} HVX threads make no sense", options.hvx_threads);
  }
  if (options.compiler_options.size() > kMaxCompilerOptions) {
    return invalid_argument("{} options of the compiler are too many", options.compiler_options.size());
  }
  return {};
}

TensorInfo info_of(const TensorSpec& spec, uint32_t id) {
  TensorInfo info;
  info.name = spec.name;
  info.id = id;
  info.dtype = spec.dtype;
  info.shape = spec.shape;
  if (const auto* const encoding = std::get_if<ScaleOffset>(&spec.quantization)) info.encoding = *encoding;
  info.bytes = tensor_bytes(spec.dtype, spec.shape).value_or(0);
  return info;
}

}  // namespace

Result<std::shared_ptr<Graph>> Graph::create(std::shared_ptr<const Context> context, std::string name,
                                             const Options& options) {
  if (context == nullptr) return internal_error("a QNN graph needs a context");
  if (name.empty()) return invalid_argument("a QNN graph needs a name");
  if (context->loaded()) return invalid_argument("graph {}: a context loaded from a binary takes no new graphs", name);
  TANDEM_TRY(check(options));
  const auto graph = std::shared_ptr<Graph>(new Graph(std::move(context), std::move(name)));
  const int vtcm_mb = options.vtcm_mb != 0 ? options.vtcm_mb : graph->context_->device()->options().vtcm_mb;
  GraphConfigs configs(options, vtcm_mb);
  const ErrorListener listener;
  if (const auto result = graph->core().graph_create(graph->context_->handle(), graph->name_.c_str(),
                                                     configs.list.data(), &graph->handle_);
      result != abi::kSuccess) {
    return describe_error(result, str_format("creating graph {}", graph->name_), listener.said());
  }
  return graph;
}

Result<std::shared_ptr<Graph>> Graph::retrieve(std::shared_ptr<const Context> context, const GraphInfo& info) {
  if (context == nullptr) return internal_error("a QNN graph needs a context");
  const auto graph = std::shared_ptr<Graph>(new Graph(std::move(context), info.name));
  const ErrorListener listener;
  if (const auto result =
          graph->core().graph_retrieve(graph->context_->handle(), graph->name_.c_str(), &graph->handle_);
      result != abi::kSuccess) {
    return describe_error(result, str_format("finding graph {} in a context", graph->name_), listener.said());
  }
  graph->inputs_ = info.inputs;
  graph->outputs_ = info.outputs;
  graph->state_ = State::kFinalized;
  return graph;
}

void Graph::fill(const TensorSpec& spec, Stored& stored) {
  stored.name = spec.name;
  stored.shape = spec.shape;
  stored.tensor.version = abi::kTensorVersion2;
  abi::TensorBody& body = stored.tensor.body;
  body.name = stored.name.c_str();
  body.kind = spec.kind;
  body.dtype = spec.dtype;
  body.rank = static_cast<uint32_t>(stored.shape.size());
  body.dimensions = stored.shape.data();
  body.memory = abi::MemoryKind::kRaw;
  body.quantize.definition = abi::Definition::kDefined;
  if (const auto* const encoding = std::get_if<ScaleOffset>(&spec.quantization)) {
    body.quantize.kind = abi::QuantizationKind::kScaleOffset;
    body.quantize.scale_offset = *encoding;
  } else if (const auto* const per_axis = std::get_if<PerAxis>(&spec.quantization)) {
    stored.scale_offsets = per_axis->entries;
    body.quantize.kind = abi::QuantizationKind::kAxisScaleOffset;
    body.quantize.axis_scale_offset = {per_axis->axis, static_cast<uint32_t>(stored.scale_offsets.size()),
                                       stored.scale_offsets.data()};
  } else if (const auto* const lpbq = std::get_if<Lpbq>(&spec.quantization)) {
    const auto multipliers = lpbq->multipliers.bytes();
    stored.scale_offsets = lpbq->channels;
    stored.multipliers.assign(multipliers.begin(), multipliers.end());
    stored.expansion.axis = lpbq->axis;
    stored.expansion.channels = stored.scale_offsets.data();
    stored.expansion.blocks_per_channel = lpbq->blocks;
    stored.expansion.block_scale_bits = 4;
    stored.expansion.block_scale_storage = 0;
    stored.expansion.block_scales = stored.multipliers.data();
    body.quantize.kind = abi::QuantizationKind::kBlockwiseExpansion;
    body.quantize.blockwise_expansion = &stored.expansion;
  } else {
    body.quantize.definition = abi::Definition::kUndefined;
    body.quantize.kind = abi::QuantizationKind::kUndefined;
  }
}

Result<TensorRef> Graph::add_tensor(const TensorSpec& spec) {
  if (state_ != State::kBuilding) return invalid_argument("graph {} is finalized and takes no more tensors", name_);
  TANDEM_TRY(check_tensor(spec));
  if (tensor_names_.contains(spec.name)) {
    return invalid_argument("graph {} already has a tensor {}", name_, spec.name);
  }
  Stored& stored = tensors_.emplace_back();
  fill(spec, stored);
  abi::TensorBody& body = stored.tensor.body;
  auto data = spec.data.bytes();
  // Small constants stay until the graph is finalized: adding an op that reads them (RmsNorm its axes) looks at the
  // memory that they were created from. Weights are copied at once.
  const bool keep = data.size() <= kKeptConstantBytes;
  if (keep) {
    stored.data.assign(data.begin(), data.end());
    data = stored.data;
  }
  // The library reads constants and does not write them; its struct has no const.
  body.buffer = {const_cast<uint8_t*>(data.data()), static_cast<uint32_t>(data.size())};
  const ErrorListener listener;
  const auto result = core().tensor_create_graph_tensor(handle_, &stored.tensor);
  if (!keep) body.buffer = {};
  if (result != abi::kSuccess) {
    tensors_.pop_back();
    return describe_error(result,
                          str_format("adding tensor {} ({}) to graph {}", spec.name, data_type_name(spec.dtype), name_),
                          listener.said());
  }
  tensor_names_.insert(spec.name);
  if (spec.kind == TensorKind::kAppWrite) inputs_.push_back(info_of(spec, body.id));
  if (spec.kind == TensorKind::kAppRead) outputs_.push_back(info_of(spec, body.id));
  return TensorRef{static_cast<uint32_t>(tensors_.size() - 1)};
}

Status Graph::check_node(const NodeSpec& spec) const {
  if (state_ != State::kBuilding) return invalid_argument("graph {} is finalized and takes no more ops", name_);
  if (spec.name.empty() || spec.type.empty()) return invalid_argument("an op of graph {} has no name or type", name_);
  if (node_names_.contains(spec.name)) return invalid_argument("graph {} already has an op {}", name_, spec.name);
  if (spec.outputs.empty()) return invalid_argument("op {} has no outputs", spec.name);
  for (const TensorRef ref : spec.inputs) {
    if (ref.index >= tensors_.size()) return internal_error("op {} reads a tensor of another graph", spec.name);
    const Stored& stored = tensors_[ref.index];
    const TensorKind kind = stored.tensor.body.kind;
    if (kind != TensorKind::kAppWrite && kind != TensorKind::kStatic && !stored.produced) {
      return invalid_argument("op {} reads tensor {} before an op writes it", spec.name, stored.name);
    }
  }
  for (const TensorRef ref : spec.outputs) {
    if (ref.index >= tensors_.size()) return internal_error("op {} writes a tensor of another graph", spec.name);
    const Stored& stored = tensors_[ref.index];
    const TensorKind kind = stored.tensor.body.kind;
    if (kind == TensorKind::kAppWrite || kind == TensorKind::kStatic || stored.produced) {
      return invalid_argument("op {} writes tensor {}, which is an input, a constant or already written", spec.name,
                              stored.name);
    }
  }
  return {};
}

// Scalars go into the params; values become constants of the graph, named after the op.
Status Graph::make_params(const NodeSpec& spec, std::vector<abi::Param>& params) {
  for (const NodeParam& param : spec.params) {
    abi::Param& made = params.emplace_back();
    made = {};
    made.name = param.name.c_str();
    made.kind = abi::ParamKind::kScalar;
    std::optional<TensorSpec> values;
    const std::string tensor_name = spec.name + "." + param.name;
    if (const auto* const u32 = std::get_if<uint32_t>(&param.value)) {
      made.scalar.dtype = DataType::kUint32;
      made.scalar.u32 = *u32;
    } else if (const auto* const i32 = std::get_if<int32_t>(&param.value)) {
      made.scalar.dtype = DataType::kInt32;
      made.scalar.i32 = *i32;
    } else if (const auto* const f32 = std::get_if<float>(&param.value)) {
      made.scalar.dtype = DataType::kFloat32;
      made.scalar.f32 = *f32;
    } else if (const auto* const flag = std::get_if<bool>(&param.value)) {
      made.scalar.dtype = DataType::kBool8;
      made.scalar.bool8 = *flag ? 1 : 0;
    } else if (const auto* const u32s = std::get_if<U32Values>(&param.value)) {
      values = make_static_u32(tensor_name, u32s->shape, u32s->values);
    } else if (const auto* const i32s = std::get_if<I32Values>(&param.value)) {
      values = make_static_i32(tensor_name, i32s->shape, i32s->values);
    }
    if (!values) continue;
    TANDEM_ASSIGN(const TensorRef ref, add_tensor(*values));
    made.kind = abi::ParamKind::kTensor;
    made.tensor = tensors_[ref.index].tensor;
  }
  return {};
}

Status Graph::add_node(const NodeSpec& spec) {
  TANDEM_TRY(check_node(spec));
  std::vector<abi::Tensor> inputs;
  std::vector<abi::Tensor> outputs;
  for (const TensorRef ref : spec.inputs) inputs.push_back(tensors_[ref.index].tensor);
  for (const TensorRef ref : spec.outputs) outputs.push_back(tensors_[ref.index].tensor);
  TANDEM_TRY(check_known_traps(spec, inputs, outputs, context_->device()->arch(),
                               context_->device()->backend()->library()->htp_version()));
  std::vector<abi::Param> params;
  TANDEM_TRY(make_params(spec, params));
  abi::OpConfig op = {};
  op.version = 1;
  op.body.name = spec.name.c_str();
  op.body.package = abi::kOpPackage;
  op.body.type = spec.type.c_str();
  op.body.param_count = static_cast<uint32_t>(params.size());
  op.body.params = params.data();
  op.body.input_count = static_cast<uint32_t>(inputs.size());
  op.body.inputs = inputs.data();
  op.body.output_count = static_cast<uint32_t>(outputs.size());
  op.body.outputs = outputs.data();
  const ErrorListener listener;
  const abi::Handle backend = context_->device()->backend()->handle();
  if (const auto result = core().backend_validate_op_config(backend, op); result != abi::kSuccess) {
    return describe_error(
        result, str_format("op {} ({}) of graph {}, V{}", spec.name, spec.type, name_, context_->device()->arch()),
        listener.said());
  }
  if (const auto result = core().graph_add_node(handle_, op); result != abi::kSuccess) {
    return describe_error(result, str_format("adding op {} ({}) to graph {}", spec.name, spec.type, name_),
                          listener.said());
  }
  node_names_.insert(spec.name);
  for (const TensorRef ref : spec.outputs) tensors_[ref.index].produced = true;
  return {};
}

Status Graph::finalize() { return finalize(nullptr); }

Result<std::optional<Estimate>> Graph::finalize_with_estimate() {
  TANDEM_ASSIGN(const Profile profile, Profile::create(context_->device()->backend()));
  TANDEM_TRY(finalize(profile.handle()));
  return profile.read_estimate();
}

Status Graph::finalize(abi::Handle profile) {
  if (state_ != State::kBuilding) return invalid_argument("graph {} is already finalized", name_);
  if (node_names_.empty()) return invalid_argument("graph {} has no ops", name_);
  for (const Stored& stored : tensors_) {
    if (stored.tensor.body.kind == TensorKind::kAppRead && !stored.produced) {
      return invalid_argument("output {} of graph {} is written by no op", stored.name, name_);
    }
  }
  const ErrorListener listener;
  const auto result = core().graph_finalize(handle_, profile, nullptr);
  state_ = result == abi::kSuccess ? State::kFinalized : State::kFailed;
  // tensors_.clear();
  if (result != abi::kSuccess) return describe_error(result, str_format("finalizing graph {}", name_), listener.said());
  return {};
}

}  // namespace tandem::qnn
