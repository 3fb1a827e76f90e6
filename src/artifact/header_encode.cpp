#include <memory>

#include "artifact/header_codec.h"
#include "artifact_generated.h"

namespace tandem {
namespace {

// Every field is set by its name, so that no two of the same type can be swapped.

std::unique_ptr<fbs::Range> encode(const Range& range) {
  if (range.size == 0) return nullptr;
  return std::make_unique<fbs::Range>(range.segment, range.offset, range.size);
}

template <typename To, typename From>
std::vector<std::unique_ptr<To>> encode_all(const std::vector<From>& from,
                                            std::unique_ptr<To> (*encode_one)(const From&)) {
  std::vector<std::unique_ptr<To>> to;
  to.reserve(from.size());
  for (const From& one : from) to.push_back(encode_one(one));
  return to;
}

std::unique_ptr<fbs::SegmentT> encode_segment(const Segment& segment) {
  auto to = std::make_unique<fbs::SegmentT>();
  to->name = segment.name;
  to->offset = segment.offset;
  to->size = segment.size;
  to->hash = segment.hash;
  return to;
}

std::unique_ptr<fbs::WeightT> encode_weight(const WeightEntry& weight) {
  auto to = std::make_unique<fbs::WeightT>();
  to->name = weight.name;
  to->format = static_cast<uint8_t>(weight.format);
  to->layout = static_cast<uint8_t>(weight.layout);
  to->block = weight.block;
  to->rows = weight.rows;
  to->cols = weight.cols;
  to->data = encode(weight.data);
  to->scales = encode(weight.scales);
  to->multipliers = encode(weight.multipliers);
  return to;
}

std::unique_ptr<fbs::VectorT> encode_vector(const VectorEntry& vector) {
  auto to = std::make_unique<fbs::VectorT>();
  to->name = vector.name;
  to->length = vector.length;
  to->data = encode(vector.data);
  return to;
}

std::unique_ptr<fbs::TensorT> encode_tensor(const ir::Tensor& tensor) {
  auto to = std::make_unique<fbs::TensorT>();
  to->name = tensor.name;
  to->role = static_cast<uint8_t>(tensor.role);
  to->dtype = static_cast<uint8_t>(tensor.dtype);
  to->shape = tensor.shape;
  to->encoding = static_cast<uint8_t>(tensor.encoding.kind);
  to->scale = tensor.encoding.scale;
  to->zero_point = tensor.encoding.zero_point;
  to->format = static_cast<uint8_t>(tensor.format);
  to->block = tensor.block;
  to->purpose = static_cast<uint8_t>(tensor.purpose.kind);
  to->layer = tensor.purpose.layer;
  to->kv_head = tensor.purpose.kv_head;
  to->limit = tensor.purpose.limit;
  to->part_of = tensor.part_of;
  return to;
}

std::unique_ptr<fbs::OpT> encode_op(const ir::Op& op) {
  auto to = std::make_unique<fbs::OpT>();
  const ir::OpAttributes& a = op.attributes;
  to->kind = static_cast<uint8_t>(op.kind);
  to->inputs = op.inputs;
  to->outputs = op.outputs;
  to->eps = a.eps;
  to->weight_offset = a.weight_offset;
  to->factor = a.factor;
  to->softcap = a.softcap;
  to->head_dim = a.head_dim;
  to->interleaved = a.interleaved;
  to->window = a.window;
  to->quantize_input = a.quantize_input && !a.int16_input;
  to->transpose_b = a.transpose_b;
  to->on_host = a.on_host;
  to->int16_input = a.int16_input;
  to->axis = a.axis;
  to->begin = a.begin;
  to->candidates = a.candidates;
  return to;
}

std::unique_ptr<fbs::MethodT> encode_method(const ir::Graph& graph) {
  auto to = std::make_unique<fbs::MethodT>();
  to->name = graph.name;
  to->tokens = graph.tokens;
  to->context = graph.context;
  to->tensors = encode_all(graph.tensors, encode_tensor);
  to->ops = encode_all(graph.ops, encode_op);
  return to;
}

std::unique_ptr<fbs::ModelT> encode_model(const ModelInfo& model) {
  auto to = std::make_unique<fbs::ModelT>();
  to->name = model.name;
  to->family = model.family;
  to->architecture = model.architecture;
  to->vocab_size = model.vocab_size;
  to->hidden_size = model.hidden_size;
  to->layers = model.layers;
  to->heads = model.heads;
  to->kv_heads = model.kv_heads;
  to->head_dim = model.head_dim;
  to->max_positions = model.max_positions;
  to->parameters = model.parameters;
  return to;
}

std::unique_ptr<fbs::TextT> encode_text(const TextInfo& text) {
  auto to = std::make_unique<fbs::TextT>();
  to->has_tokenizer = text.has_tokenizer;
  to->tokenizer = encode(text.tokenizer);
  to->chat_template = text.chat_template;
  to->bos_token = text.bos_token;
  to->eos_token = text.eos_token;
  to->special_tokens = text.special_tokens;
  to->tool_template = text.tool_template;
  to->bos_id = text.bos_id;
  to->eos_ids = text.eos_ids;
  return to;
}

std::unique_ptr<fbs::GenerationT> encode_generation(const GenerationDefaults& defaults) {
  auto to = std::make_unique<fbs::GenerationT>();
  to->do_sample = defaults.do_sample;
  to->temperature = defaults.temperature;
  to->top_k = defaults.top_k;
  to->top_p = defaults.top_p;
  to->min_p = defaults.min_p;
  to->repetition_penalty = defaults.repetition_penalty;
  to->max_new_tokens = defaults.max_new_tokens;
  return to;
}

std::unique_ptr<fbs::MetricT> encode_metric(const Metric& metric) {
  auto to = std::make_unique<fbs::MetricT>();
  to->name = metric.name;
  to->value = metric.value;
  return to;
}

std::unique_ptr<fbs::ShardGraphT> encode_shard_graph(const ShardGraph& graph) {
  auto to = std::make_unique<fbs::ShardGraphT>();
  to->name = graph.name;
  to->method = graph.method;
  to->tokens = graph.tokens;
  return to;
}

std::unique_ptr<fbs::ShardT> encode_shard(const Shard& shard) {
  auto to = std::make_unique<fbs::ShardT>();
  to->name = shard.name;
  to->binary = encode(shard.binary);
  to->checksum = shard.checksum;
  to->graphs = encode_all(shard.graphs, encode_shard_graph);
  return to;
}

std::unique_ptr<fbs::DeviceT> encode_device(const DeviceInfo& device) {
  auto to = std::make_unique<fbs::DeviceT>();
  to->soc_model = device.soc_model;
  to->arch = device.arch;
  to->vtcm_mb = device.vtcm_mb;
  to->weight_shared = device.weight_shared;
  to->core_version = device.core_version;
  to->backend_version = device.backend_version;
  to->build_id = device.build_id;
  to->spill_fill_bytes = device.spill_fill_bytes;
  to->hvx_threads = device.hvx_threads;
  to->optimization_level = device.optimization_level;
  to->signed_pd = device.signed_pd;
  to->profile = device.profile;
  return to;
}

// From a header or a program to a table of the same fields.
template <typename From, typename To>
void encode_program(const From& from, To& to) {
  to.target = from.target;
  to.backend = from.backend;
  to.weights = encode_all(from.weights, encode_weight);
  to.vectors = encode_all(from.vectors, encode_vector);
  to.methods = encode_all(from.methods, encode_method);
  to.recipe = from.recipe;
  to.calibration = from.calibration;
  to.metrics = encode_all(from.metrics, encode_metric);
  // Only a vendor's back end has a device and shards.
  if (!from.shards.empty()) {
    to.device = encode_device(from.device);
    to.shards = encode_all(from.shards, encode_shard);
  }
}

std::unique_ptr<fbs::ProgramT> encode_further_program(const ProgramHeader& program) {
  auto to = std::make_unique<fbs::ProgramT>();
  encode_program(program, *to);
  return to;
}

}  // namespace

std::vector<uint8_t> encode_header(const ArtifactHeader& header, uint32_t revision) {
  fbs::HeaderT to;
  encode_program(header, to);
  to.producer = header.producer;
  to.model = encode_model(header.model);
  to.segments = encode_all(header.segments, encode_segment);
  to.text = encode_text(header.text);
  to.generation = encode_generation(header.generation);
  to.checkpoint = header.checkpoint;
  to.more_programs = encode_all(header.more_programs, encode_further_program);
  to.revision = revision;
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(fbs::Header::Pack(builder, &to));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

}  // namespace tandem
