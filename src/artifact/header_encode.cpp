#include "artifact/header_codec.h"
#include "artifact_generated.h"

namespace tandem {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

fbs::Range range_of(const Range& range) { return {range.segment, range.offset, range.size}; }

Offset<fbs::Weight> encode_weight(FlatBufferBuilder& b, const WeightEntry& w) {
  const auto name = b.CreateString(w.name);
  const fbs::Range data = range_of(w.data), scales = range_of(w.scales), multipliers = range_of(w.multipliers);
  return fbs::CreateWeight(b, name, static_cast<uint8_t>(w.format), static_cast<uint8_t>(w.layout), w.block, w.rows,
                           w.cols, &data, &scales, &multipliers);
}

Offset<fbs::Method> encode_method(FlatBufferBuilder& b, const ir::Graph& graph) {
  std::vector<Offset<fbs::Tensor>> tensors;
  for (const ir::Tensor& t : graph.tensors) {
    const auto name = b.CreateString(t.name);
    const auto shape = b.CreateVector(t.shape);
    tensors.push_back(fbs::CreateTensor(b, name, static_cast<uint8_t>(t.role), static_cast<uint8_t>(t.dtype), shape,
                                        static_cast<uint8_t>(t.encoding.kind), t.encoding.scale, t.encoding.zero_point,
                                        static_cast<uint8_t>(t.format), t.block));
  }
  std::vector<Offset<fbs::Op>> ops;
  for (const ir::Op& op : graph.ops) {
    const auto inputs = b.CreateVector(op.inputs);
    const auto outputs = b.CreateVector(op.outputs);
    const ir::OpAttributes& a = op.attributes;
    ops.push_back(fbs::CreateOp(b, static_cast<uint8_t>(op.kind), inputs, outputs, a.eps, a.weight_offset, a.factor,
                                a.softcap, a.head_dim, a.interleaved, a.window, a.quantize_input && !a.int16_input,
                                a.transpose_b, a.on_host, a.int16_input, a.axis, a.begin, a.candidates));
  }
  const auto name = b.CreateString(graph.name);
  const auto tensor_vector = b.CreateVector(tensors);
  const auto op_vector = b.CreateVector(ops);
  return fbs::CreateMethod(b, name, graph.tokens, graph.context, tensor_vector, op_vector);
}

Offset<fbs::Model> encode_model(FlatBufferBuilder& b, const ModelInfo& m) {
  const auto name = b.CreateString(m.name);
  const auto family = b.CreateString(m.family);
  const auto architecture = b.CreateString(m.architecture);
  return fbs::CreateModel(b, name, family, architecture, m.vocab_size, m.hidden_size, m.layers, m.heads, m.kv_heads,
                          m.head_dim, m.max_positions, m.parameters);
}

Offset<fbs::Text> encode_text(FlatBufferBuilder& b, const TextInfo& t) {
  const auto chat_template = b.CreateString(t.chat_template);
  const auto bos_token = b.CreateString(t.bos_token);
  const auto eos_token = b.CreateString(t.eos_token);
  const auto eos_ids = b.CreateVector(t.eos_ids);
  const auto optional = [&](const std::string& s) {
    return s.empty() ? Offset<flatbuffers::String>() : b.CreateString(s);
  };
  const auto special_tokens = optional(t.special_tokens);
  const auto tool_template = optional(t.tool_template);
  const fbs::Range tokenizer = range_of(t.tokenizer);
  return fbs::CreateText(b, &tokenizer, chat_template, bos_token, eos_token, t.bos_id, eos_ids, t.has_tokenizer,
                         special_tokens, tool_template);
}

Offset<fbs::Shard> encode_shard(FlatBufferBuilder& b, const Shard& shard) {
  std::vector<Offset<fbs::ShardGraph>> graphs;
  for (const ShardGraph& graph : shard.graphs) {
    const auto name = b.CreateString(graph.name);
    const auto method = b.CreateString(graph.method);
    graphs.push_back(fbs::CreateShardGraph(b, name, method, graph.tokens));
  }
  const auto name = b.CreateString(shard.name);
  const auto graph_vector = b.CreateVector(graphs);
  const fbs::Range binary = range_of(shard.binary);
  return fbs::CreateShard(b, name, &binary, shard.checksum, graph_vector);
}

Offset<fbs::Device> encode_device(FlatBufferBuilder& b, const DeviceInfo& d) {
  const auto core_version = b.CreateString(d.core_version);
  const auto backend_version = b.CreateString(d.backend_version);
  const auto build_id = b.CreateString(d.build_id);
  return fbs::CreateDevice(b, d.soc_model, d.arch, d.vtcm_mb, d.weight_shared, core_version, backend_version, build_id,
                           d.spill_fill_bytes);
}

}  // namespace

std::vector<uint8_t> encode_header(const ArtifactHeader& header) {
  FlatBufferBuilder b;
  std::vector<Offset<fbs::Segment>> segments;
  for (const Segment& s : header.segments) {
    segments.push_back(fbs::CreateSegment(b, b.CreateString(s.name), s.offset, s.size, s.hash));
  }
  std::vector<Offset<fbs::Weight>> weights;
  for (const WeightEntry& w : header.weights) weights.push_back(encode_weight(b, w));
  std::vector<Offset<fbs::Vector>> vectors;
  for (const VectorEntry& v : header.vectors) {
    const auto name = b.CreateString(v.name);
    const fbs::Range data = range_of(v.data);
    vectors.push_back(fbs::CreateVector(b, name, v.length, &data));
  }
  std::vector<Offset<fbs::Method>> methods;
  for (const ir::Graph& graph : header.methods) methods.push_back(encode_method(b, graph));
  std::vector<Offset<fbs::Metric>> metrics;
  for (const Metric& f : header.metrics) metrics.push_back(fbs::CreateMetric(b, b.CreateString(f.name), f.value));

  const GenerationDefaults& g = header.generation;
  const auto producer = b.CreateString(header.producer);
  const auto target = b.CreateString(header.target);
  const auto backend = b.CreateString(header.backend);
  const auto model = encode_model(b, header.model);
  const auto segment_vector = b.CreateVector(segments);
  const auto weight_vector = b.CreateVector(weights);
  const auto vector_vector = b.CreateVector(vectors);
  const auto method_vector = b.CreateVector(methods);
  const auto text = encode_text(b, header.text);
  const auto generation = fbs::CreateGeneration(b, g.do_sample, g.temperature, g.top_k, g.top_p, g.min_p,
                                                g.repetition_penalty, g.max_new_tokens);
  const auto recipe = b.CreateString(header.recipe);
  const auto metric_vector = b.CreateVector(metrics);
  // A file of our own back end has none of these, and its header stays as small as it was.
  Offset<fbs::Device> device;
  Offset<flatbuffers::Vector<Offset<fbs::Shard>>> shard_vector;
  if (!header.shards.empty()) {
    std::vector<Offset<fbs::Shard>> shards;
    for (const Shard& shard : header.shards) shards.push_back(encode_shard(b, shard));
    shard_vector = b.CreateVector(shards);
    device = encode_device(b, header.device);
  }
  b.Finish(fbs::CreateHeader(b, producer, target, backend, model, segment_vector, weight_vector, vector_vector,
                             method_vector, text, generation, recipe, metric_vector, header.checkpoint, device,
                             shard_vector));
  return {b.GetBufferPointer(), b.GetBufferPointer() + b.GetSize()};
}

}  // namespace tandem
