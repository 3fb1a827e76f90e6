#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

#include "artifact/header_codec.h"
#include "artifact/limits.h"
#include "artifact_generated.h"
#include "base/checked.h"
#include "base/error.h"
#include "ir/verifier.h"

namespace tandem {
namespace {

std::string string_of(const flatbuffers::String* s) { return s == nullptr ? std::string() : s->str(); }

// The name of a list's entry.
Result<std::string> name_of(const flatbuffers::String* s) {
  if (s != nullptr && s->size() > kMaxNameBytes) {
    return corrupt("a name is {} bytes long, and {} are possible", s->size(), kMaxNameBytes);
  }
  return string_of(s);
}

template <typename T>
flatbuffers::uoffset_t size_of(const flatbuffers::Vector<T>* v) {
  return v == nullptr ? 0 : v->size();
}

// An element of a list of numbers. FlatBuffers' verifier checks the alignment of a list's length, not of its elements,
// so a hostile header may have 8-byte numbers at any multiple of 4.
template <typename T>
T number_at(const flatbuffers::Vector<T>& v, flatbuffers::uoffset_t i) {
  T value;
  std::memcpy(&value, v.Data() + i * sizeof(T), sizeof(T));
  return flatbuffers::EndianScalar(value);
}

template <typename T>
Status at_most(const flatbuffers::Vector<T>* v, size_t limit, const char* what) {
  if (size_of(v) > limit) return corrupt("the file has {} {}, and {} are possible", size_of(v), what, limit);
  return ok_status();
}

// An enum stored as a byte; `count` is one past the last known value.
template <typename Enum>
Result<Enum> enum_of(uint8_t value, int count, const char* what) {
  if (value >= count) return unsupported("{} {} is unknown to this version; use a newer tandem", what, value);
  return static_cast<Enum>(value);
}

// Every weight and vector that a graph names is in the file, with the shape and format that the graph expects. A
// vendor's binaries contain their weights, so there an absent one is no error, and the back end reports what it lacks.
class Constants {
 public:
  Constants(const std::vector<WeightEntry>& weights, const std::vector<VectorEntry>& vectors, bool may_be_absent)
      : may_be_absent_(may_be_absent) {
    for (const WeightEntry& w : weights) weights_[w.name] = &w;
    for (const VectorEntry& v : vectors) vectors_[v.name] = &v;
  }

  Status check(const ir::Graph& graph) const {
    for (const ir::Tensor& t : graph.tensors) {
      if (t.role == ir::TensorRole::kWeight) {
        const auto it = weights_.find(t.name);
        if (it == weights_.end() && may_be_absent_) continue;
        if (it == weights_.end()) return corrupt("method \"{}\" needs the absent weight \"{}\"", graph.name, t.name);
        const WeightEntry& w = *it->second;
        if (w.rows != t.shape[0] || w.cols != t.shape[1] || w.format != t.format || w.block != t.block) {
          return corrupt("weight \"{}\" is not what method \"{}\" needs", t.name, graph.name);
        }
      } else if (t.role == ir::TensorRole::kVector) {
        const auto it = vectors_.find(t.name);
        if (it == vectors_.end() && may_be_absent_) continue;
        if (it == vectors_.end()) return corrupt("method \"{}\" needs the absent vector \"{}\"", graph.name, t.name);
        if (it->second->length != t.shape[0]) {
          return corrupt("vector \"{}\" is not what method \"{}\" needs", t.name, graph.name);
        }
      }
    }
    return ok_status();
  }

 private:
  std::unordered_map<std::string_view, const WeightEntry*> weights_;
  std::unordered_map<std::string_view, const VectorEntry*> vectors_;
  bool may_be_absent_;
};

class Decoder {
 public:
  Decoder(const fbs::Header& header, uint64_t data_end) : in_(header), data_end_(data_end) {}

  Result<ArtifactHeader> run() {
    out_.producer = string_of(in_.producer());
    TANDEM_TRY(segments());
    TANDEM_TRY(program(in_, out_));
    TANDEM_TRY(model());
    TANDEM_TRY(text());
    TANDEM_TRY(generation());
    out_.checkpoint = in_.checkpoint();
    TANDEM_TRY(at_most(in_.more_programs(), kMaxPrograms - 1, "further programs"));
    for (flatbuffers::uoffset_t i = 0; i < size_of(in_.more_programs()); ++i) {
      ProgramHeader more;
      TANDEM_TRY(program(*in_.more_programs()->Get(i), more));
      out_.more_programs.push_back(std::move(more));
    }
    return std::move(out_);
  }

 private:
  // From a header or a program's table to a struct of the same fields.
  template <typename In, typename Out>
  Status program(const In& in, Out& out) const {
    out.target = string_of(in.target());
    out.backend = string_of(in.backend());
    out.recipe = string_of(in.recipe());
    out.calibration = string_of(in.calibration());
    TANDEM_TRY(weights(in.weights(), out.weights));
    TANDEM_TRY(vectors(in.vectors(), out.vectors));
    TANDEM_TRY(shards(in.shards(), out.shards));
    TANDEM_TRY(device(in.device(), out.device));
    TANDEM_TRY(at_most(in.methods(), kMaxMethods, "methods"));
    const Constants constants{out.weights, out.vectors, !out.shards.empty()};
    for (flatbuffers::uoffset_t i = 0; i < size_of(in.methods()); ++i) {
      TANDEM_TRY(method(*in.methods()->Get(i), constants, out.methods));
    }
    if (out.methods.empty()) return corrupt("the file has no methods");
    TANDEM_TRY(at_most(in.metrics(), kMaxMetrics, "metrics"));
    for (flatbuffers::uoffset_t i = 0; i < size_of(in.metrics()); ++i) {
      const auto* metric = in.metrics()->Get(i);
      TANDEM_ASSIGN(std::string name, name_of(metric->name()));
      out.metrics.push_back({.name = std::move(name), .value = metric->value()});
    }
    return ok_status();
  }

  Status segments() {
    TANDEM_TRY(at_most(in_.segments(), kMaxSegments, "segments"));
    for (flatbuffers::uoffset_t i = 0; i < size_of(in_.segments()); ++i) {
      const auto* s = in_.segments()->Get(i);
      Segment segment;
      TANDEM_ASSIGN(segment.name, name_of(s->name()));
      segment.offset = s->offset();
      segment.size = s->size();
      segment.hash = s->hash();
      if (segment.offset % kSegmentAlignment != 0 || !range_inside(segment.offset, segment.size, data_end_) ||
          segment.offset == 0) {
        return corrupt("segment \"{}\" lies outside the file", segment.name);
      }
      out_.segments.push_back(std::move(segment));
    }
    // By offset: each must end before the next begins.
    std::vector<const Segment*> order;
    for (const Segment& s : out_.segments) order.push_back(&s);
    std::ranges::sort(order, {}, [](const Segment* s) { return s->offset; });
    for (size_t i = 1; i < order.size(); ++i) {
      if (order[i - 1]->offset + order[i - 1]->size > order[i]->offset) {
        return corrupt("segments \"{}\" and \"{}\" overlap", order[i - 1]->name, order[i]->name);
      }
    }
    return ok_status();
  }

  Result<Range> range(const fbs::Range* r, std::string_view name) const {
    if (r == nullptr || r->size() == 0) return Range{};
    if (r->segment() >= out_.segments.size() || r->offset() % kPartAlignment != 0 ||
        !range_inside(r->offset(), r->size(), out_.segments[r->segment()].size)) {
      return corrupt("the bytes of \"{}\" lie outside its segment", name);
    }
    return Range{.segment = r->segment(), .offset = r->offset(), .size = r->size()};
  }

  template <typename List>
  Status weights(const List* in, std::vector<WeightEntry>& out) const {
    TANDEM_TRY(at_most(in, kMaxWeights, "weights"));
    std::unordered_set<std::string> names;
    for (flatbuffers::uoffset_t i = 0; i < size_of(in); ++i) {
      const auto* w = in->Get(i);
      WeightEntry entry;
      TANDEM_ASSIGN(entry.name, name_of(w->name()));
      if (!names.insert(entry.name).second) return corrupt("two weights are named \"{}\"", entry.name);
      TANDEM_ASSIGN(entry.format, enum_of<WeightFormat>(w->format(), kWeightFormatCount, "weight format"));
      TANDEM_ASSIGN(entry.layout, enum_of<WeightLayout>(w->layout(), kWeightLayoutCount, "weight layout"));
      entry.block = w->block();
      entry.rows = w->rows();
      entry.cols = w->cols();
      if (entry.rows < 1 || entry.rows > kMaxDim || entry.cols < 1 || entry.cols > kMaxDim) {
        return corrupt("weight \"{}\" has the shape [{}, {}]", entry.name, entry.rows, entry.cols);
      }
      TANDEM_ASSIGN(entry.data, range(w->data(), entry.name));
      TANDEM_ASSIGN(entry.scales, range(w->scales(), entry.name));
      TANDEM_ASSIGN(entry.multipliers, range(w->multipliers(), entry.name));
      out.push_back(std::move(entry));
    }
    return ok_status();
  }

  template <typename List>
  Status vectors(const List* in, std::vector<VectorEntry>& out) const {
    TANDEM_TRY(at_most(in, kMaxWeights, "vectors"));
    std::unordered_set<std::string> names;
    for (flatbuffers::uoffset_t i = 0; i < size_of(in); ++i) {
      const auto* v = in->Get(i);
      VectorEntry entry;
      TANDEM_ASSIGN(entry.name, name_of(v->name()));
      if (!names.insert(entry.name).second) return corrupt("two vectors are named \"{}\"", entry.name);
      entry.length = v->length();
      TANDEM_ASSIGN(entry.data, range(v->data(), entry.name));
      if (entry.length < 1 || entry.data.size / sizeof(float) != static_cast<uint64_t>(entry.length) ||
          entry.data.size % sizeof(float) != 0) {
        return corrupt("vector \"{}\" does not have {} numbers", entry.name, entry.length);
      }
      out.push_back(std::move(entry));
    }
    return ok_status();
  }

  Status model() {
    const auto* m = in_.model();
    if (m == nullptr) return corrupt("the file does not describe its model");
    out_.model = {.name = string_of(m->name()),
                  .family = string_of(m->family()),
                  .architecture = string_of(m->architecture()),
                  .vocab_size = m->vocab_size(),
                  .hidden_size = m->hidden_size(),
                  .layers = m->layers(),
                  .heads = m->heads(),
                  .kv_heads = m->kv_heads(),
                  .head_dim = m->head_dim(),
                  .max_positions = m->max_positions(),
                  .parameters = m->parameters()};
    if (out_.model.vocab_size < 1) return corrupt("the model has a vocabulary of {}", out_.model.vocab_size);
    return ok_status();
  }

  Status text() {
    const auto* t = in_.text();
    if (t == nullptr) return ok_status();
    TextInfo& text = out_.text;
    text.has_tokenizer = t->has_tokenizer();
    TANDEM_ASSIGN(text.tokenizer, range(t->tokenizer(), "tokenizer"));
    if (text.has_tokenizer && text.tokenizer.size == 0) return corrupt("the tokenizer has no bytes");
    text.chat_template = string_of(t->chat_template());
    text.bos_token = string_of(t->bos_token());
    text.eos_token = string_of(t->eos_token());
    text.special_tokens = string_of(t->special_tokens());
    text.tool_template = string_of(t->tool_template());
    text.bos_id = t->bos_id();
    TANDEM_TRY(at_most(t->eos_ids(), kMaxStopTokens, "end tokens"));
    for (flatbuffers::uoffset_t i = 0; i < size_of(t->eos_ids()); ++i) text.eos_ids.push_back(t->eos_ids()->Get(i));
    return ok_status();
  }

  Status generation() {
    const auto* g = in_.generation();
    if (g == nullptr) return ok_status();
    out_.generation = {.do_sample = g->do_sample(),
                       .temperature = g->temperature(),
                       .top_k = g->top_k(),
                       .top_p = g->top_p(),
                       .min_p = g->min_p(),
                       .repetition_penalty = g->repetition_penalty(),
                       .max_new_tokens = g->max_new_tokens()};
    const GenerationDefaults& d = out_.generation;
    if (!std::isfinite(d.temperature) || !std::isfinite(d.top_p) || !std::isfinite(d.min_p) ||
        !std::isfinite(d.repetition_penalty)) {
      return corrupt("the generation defaults have a value that is not a number");
    }
    return ok_status();
  }

  Status method(const fbs::Method& m, const Constants& constants, std::vector<ir::Graph>& out) const {
    ir::Graph graph;
    TANDEM_ASSIGN(graph.name, name_of(m.name()));
    graph.tokens = m.tokens();
    graph.context = m.context();
    TANDEM_TRY(at_most(m.tensors(), kMaxGraph, "tensors in a method"));
    TANDEM_TRY(at_most(m.ops(), kMaxGraph, "ops in a method"));
    for (flatbuffers::uoffset_t i = 0; i < size_of(m.tensors()); ++i) {
      TANDEM_ASSIGN(ir::Tensor t, tensor(*m.tensors()->Get(i)));
      graph.tensors.push_back(std::move(t));
    }
    for (flatbuffers::uoffset_t i = 0; i < size_of(m.ops()); ++i) {
      TANDEM_ASSIGN(ir::Op op, this->op(*m.ops()->Get(i)));
      graph.ops.push_back(std::move(op));
    }
    for (const ir::Graph& other : out) {
      if (other.name == graph.name) return corrupt("two methods are named \"{}\"", graph.name);
    }
    TANDEM_TRY(ir::verify(graph));
    TANDEM_TRY(constants.check(graph));
    out.push_back(std::move(graph));
    return ok_status();
  }

  template <typename List>
  Status shards(const List* in, std::vector<Shard>& out) const {
    TANDEM_TRY(at_most(in, kMaxShards, "shards"));
    for (flatbuffers::uoffset_t i = 0; i < size_of(in); ++i) {
      const auto* s = in->Get(i);
      Shard shard;
      TANDEM_ASSIGN(shard.name, name_of(s->name()));
      TANDEM_ASSIGN(shard.binary, range(s->binary(), shard.name));
      if (shard.binary.size == 0) return corrupt("shard \"{}\" has no bytes", shard.name);
      shard.checksum = s->checksum();
      TANDEM_TRY(at_most(s->graphs(), kMaxMethods, "graphs in a shard"));
      for (flatbuffers::uoffset_t g = 0; g < size_of(s->graphs()); ++g) {
        const auto* graph = s->graphs()->Get(g);
        TANDEM_ASSIGN(std::string name, name_of(graph->name()));
        TANDEM_ASSIGN(std::string method, name_of(graph->method()));
        if (graph->tokens() < 1 || graph->tokens() > kMaxDim) {
          return corrupt("shard \"{}\" has a graph of {} tokens", shard.name, graph->tokens());
        }
        shard.graphs.push_back({.name = std::move(name), .method = std::move(method), .tokens = graph->tokens()});
      }
      out.push_back(std::move(shard));
    }
    return ok_status();
  }

  static Status device(const fbs::Device* d, DeviceInfo& out) {
    if (d == nullptr) return ok_status();
    TANDEM_ASSIGN(std::string core_version, name_of(d->core_version()));
    TANDEM_ASSIGN(std::string backend_version, name_of(d->backend_version()));
    TANDEM_ASSIGN(std::string build_id, name_of(d->build_id()));
    TANDEM_ASSIGN(std::string profile, name_of(d->profile()));
    out = {.soc_model = d->soc_model(),
           .arch = d->arch(),
           .vtcm_mb = d->vtcm_mb(),
           .weight_shared = d->weight_shared(),
           .core_version = std::move(core_version),
           .backend_version = std::move(backend_version),
           .build_id = std::move(build_id),
           .spill_fill_bytes = d->spill_fill_bytes(),
           .hvx_threads = d->hvx_threads(),
           .optimization_level = d->optimization_level(),
           .signed_pd = d->signed_pd(),
           .profile = std::move(profile)};
    return ok_status();
  }

  Result<ir::Tensor> tensor(const fbs::Tensor& t) const {
    ir::Tensor tensor;
    TANDEM_ASSIGN(tensor.name, name_of(t.name()));
    TANDEM_ASSIGN(tensor.role, enum_of<ir::TensorRole>(t.role(), ir::kTensorRoleCount, "tensor role"));
    TANDEM_ASSIGN(tensor.dtype, enum_of<DType>(t.dtype(), kDTypeCount, "dtype"));
    if (size_of(t.shape()) > kMaxDims) {
      return corrupt("tensor \"{}\" has {} dimensions, and 1 to {} are possible", tensor.name, size_of(t.shape()),
                     kMaxDims);
    }
    for (flatbuffers::uoffset_t i = 0; i < size_of(t.shape()); ++i) tensor.shape.push_back(number_at(*t.shape(), i));
    TANDEM_ASSIGN(tensor.encoding.kind, enum_of<ir::EncodingKind>(t.encoding(), ir::kEncodingKindCount, "encoding"));
    tensor.encoding.scale = t.scale();
    tensor.encoding.zero_point = t.zero_point();
    TANDEM_ASSIGN(tensor.format, enum_of<WeightFormat>(t.format(), kWeightFormatCount, "weight format"));
    tensor.block = t.block();
    TANDEM_ASSIGN(tensor.part_of, name_of(t.part_of()));
    TANDEM_ASSIGN(tensor.purpose, purpose(t, tensor));
    return tensor;
  }

  // Files from before purposes were stored have names that stand for them.
  Result<ir::Purpose> purpose(const fbs::Tensor& t, const ir::Tensor& tensor) const {
    if (in_.revision() == 0) return ir::purpose_from_name(tensor.role, tensor.name);
    ir::Purpose purpose;
    TANDEM_ASSIGN(purpose.kind, enum_of<ir::PurposeKind>(t.purpose(), ir::kPurposeKindCount, "tensor purpose"));
    purpose.layer = t.layer();
    purpose.kv_head = t.kv_head();
    purpose.limit = t.limit();
    return purpose;
  }

  static Result<ir::Op> op(const fbs::Op& o) {
    ir::Op op;
    TANDEM_ASSIGN(op.kind, enum_of<ir::OpKind>(o.kind(), ir::kOpKindCount, "op"));
    TANDEM_TRY(at_most(o.inputs(), kMaxOpTensors, "inputs of an op"));
    TANDEM_TRY(at_most(o.outputs(), kMaxOpTensors, "outputs of an op"));
    for (flatbuffers::uoffset_t i = 0; i < size_of(o.inputs()); ++i) op.inputs.push_back(o.inputs()->Get(i));
    for (flatbuffers::uoffset_t i = 0; i < size_of(o.outputs()); ++i) op.outputs.push_back(o.outputs()->Get(i));
    op.attributes = {.eps = o.eps(),
                     .weight_offset = o.weight_offset(),
                     .factor = o.factor(),
                     .softcap = o.softcap(),
                     .head_dim = o.head_dim(),
                     .interleaved = o.interleaved(),
                     .window = o.window(),
                     .quantize_input = o.quantize_input() || o.int16_input(),
                     .transpose_b = o.transpose_b(),
                     .on_host = o.on_host(),
                     .int16_input = o.int16_input(),
                     .axis = o.axis(),
                     .begin = o.begin(),
                     .candidates = o.candidates()};
    return op;
  }

  const fbs::Header& in_;
  uint64_t data_end_;
  ArtifactHeader out_;
};

}  // namespace

Result<ArtifactHeader> decode_header(std::span<const uint8_t> bytes, uint64_t data_end) {
  if (bytes.size() > kMaxHeaderBytes) return corrupt("a header of {} bytes is too large", bytes.size());
  // Each table takes at least 8 bytes: with this limit, referring to one table many times gains nothing.
  const auto max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() / 8 + 1);
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), /*max_depth=*/16, max_tables);
  if (!verifier.VerifyBuffer<fbs::Header>(nullptr)) return corrupt("the header is not a valid FlatBuffer");
  return Decoder(*flatbuffers::GetRoot<fbs::Header>(bytes.data()), data_end).run();
}

}  // namespace tandem
