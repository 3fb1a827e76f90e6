// tandem inspect: what is in a file.

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "artifact/reader.h"
#include "backends/registry/registry.h"
#include "base/format.h"
#include "base/json.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/estimate_table.h"
#include "cli/progress_bar.h"
#include "ir/printer.h"

namespace tandem {
namespace inspect_command {

struct Options {
  std::string file;
  bool json = false;
  bool no_verify = false;
  bool dump_ir = false;
};

struct ProgramSummary {
  ArtifactHeader header;
  uint64_t bytes = 0;         // Of the segments that it uses,
  uint64_t shared_bytes = 0;  // and of those that an earlier program uses too.
};

std::vector<ProgramSummary> summarize_programs(const Artifact& artifact) {
  std::vector<ProgramSummary> summaries;
  std::vector<bool> seen(artifact.header().segments.size(), false);
  for (size_t i = 0; i < artifact.program_count(); ++i) {
    ProgramSummary summary{artifact.program(i).header()};
    const std::vector<bool> used = used_segments(summary.header);
    for (size_t s = 0; s < used.size(); ++s) {
      if (!used[s]) continue;
      summary.bytes += summary.header.segments[s].size;
      if (seen[s]) summary.shared_bytes += summary.header.segments[s].size;
      seen[s] = true;
    }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

const char* mode_of(const ArtifactHeader& header) { return header.methods.size() > 1 ? "hybrid" : "kv"; }

Json io_json(const ir::Graph& graph) {
  Json list = Json::array();
  for (const ir::Tensor& t : graph.tensors) {
    if (t.role != ir::TensorRole::kInput && t.role != ir::TensorRole::kOutput && t.role != ir::TensorRole::kState)
      continue;
    Json item = {
        {"name", t.name}, {"role", tensor_role_name(t.role)}, {"dtype", dtype_name(t.dtype)}, {"shape", t.shape}};
    if (t.encoding.kind != ir::EncodingKind::kPlain) item["encoding"] = encoding_kind_name(t.encoding.kind);
    if (t.encoding.kind == ir::EncodingKind::kPerTensor) {
      item["scale"] = t.encoding.scale;
      item["zero_point"] = t.encoding.zero_point;
    }
    list.push_back(std::move(item));
  }
  return list;
}

// What a vendor's binaries were compiled for; null where there are none.
Json device_json(const ArtifactHeader& h) {
  if (h.shards.empty()) return nullptr;
  const DeviceInfo& d = h.device;
  return {{"soc_model", d.soc_model},       {"hexagon", d.arch},
          {"vtcm_mb", d.vtcm_mb},           {"weight_shared", d.weight_shared},
          {"core_version", d.core_version}, {"backend_version", d.backend_version},
          {"build_id", d.build_id},         {"spill_fill_bytes", d.spill_fill_bytes},
          {"hvx_threads", d.hvx_threads},   {"optimization_level", d.optimization_level},
          {"signed_pd", d.signed_pd},       {"profile", d.profile}};
}

// The activation format of linear layers, by weight; those with float activations are omitted.
std::map<std::string, std::string> activations_of(const ir::Graph& graph) {
  std::map<std::string, std::string> formats;
  for (const ir::Op& op : graph.ops) {
    if (op.kind != ir::OpKind::kLinear || !op.attributes.quantize_input) continue;
    formats[graph.at(op.inputs[1]).name] = op.attributes.int16_input ? "int16" : "int8";
  }
  return formats;
}

Json methods_json(const ArtifactHeader& h) {
  Json methods = Json::array();
  for (const ir::Graph& g : h.methods) {
    methods.push_back({{"name", g.name},
                       {"tokens", g.tokens},
                       {"context", g.context},
                       {"ops", g.ops.size()},
                       {"borders", io_json(g)}});
  }
  return methods;
}

Json segments_json(const ArtifactHeader& h) {
  Json segments = Json::array();
  for (const Segment& s : h.segments) {
    segments.push_back(
        {{"name", s.name}, {"offset", s.offset}, {"size", s.size}, {"hash", str_format("{:016x}", s.hash)}});
  }
  return segments;
}

Json weights_json(const ArtifactHeader& h) {
  Json weights = Json::array();
  const auto activations = activations_of(h.methods.front());
  for (const WeightEntry& w : h.weights) {
    weights.push_back({{"name", w.name},
                       {"format", weight_format_name(w.format)},
                       {"layout", weight_layout_name(w.layout)},
                       {"block", w.block},
                       {"shape", {w.rows, w.cols}},
                       {"bytes", w.bytes()}});
    if (const auto found = activations.find(w.name); found != activations.end()) {
      weights.back()["activations"] = found->second;
    }
  }
  return weights;
}

Json shards_json(const ArtifactHeader& h) {
  Json shards = Json::array();
  for (const Shard& shard : h.shards) {
    Json graphs = Json::array();
    for (const ShardGraph& g : shard.graphs)
      graphs.push_back({{"name", g.name}, {"method", g.method}, {"tokens", g.tokens}});
    shards.push_back({{"name", shard.name}, {"bytes", shard.binary.size}, {"graphs", graphs}});
  }
  return shards;
}

// What each of a file's programs uses, and what of that an earlier one uses too.
Json programs_json(const Artifact& artifact) {
  Json programs = Json::array();
  for (const ProgramSummary& summary : summarize_programs(artifact)) {
    const ArtifactHeader& h = summary.header;
    programs.push_back({{"target", h.target},
                        {"backend", h.backend},
                        {"mode", mode_of(h)},
                        {"context", h.methods.front().context},
                        {"bytes", summary.bytes},
                        {"shared_bytes", summary.shared_bytes},
                        {"methods", methods_json(h)},
                        {"weights", weights_json(h)},
                        {"shards", shards_json(h)},
                        {"device", device_json(h)}});
  }
  return programs;
}

void report_json(const Artifact& artifact, bool verified) {
  const ArtifactHeader& h = artifact.header();
  Json metrics = Json::object();
  for (const Metric& f : h.metrics) metrics[f.name] = f.value;
  const auto recipe = parse_json(h.recipe, "recipe");
  const ModelInfo& m = h.model;
  const auto stored = stored_estimate(h.metrics);
  const Json json = {{"file", artifact.path().string()},
                     {"size", artifact.file_size()},
                     {"format_version", kArtifactVersion},
                     {"producer", h.producer},
                     {"target", h.target},
                     {"backend", h.backend},
                     {"mode", mode_of(h)},
                     {"context", h.methods.front().context},
                     {"checksums", verified ? "verified" : "not verified"},
                     {"model",
                      {{"name", m.name},
                       {"family", m.family},
                       {"architecture", m.architecture},
                       {"vocab_size", m.vocab_size},
                       {"hidden_size", m.hidden_size},
                       {"layers", m.layers},
                       {"heads", m.heads},
                       {"kv_heads", m.kv_heads},
                       {"head_dim", m.head_dim},
                       {"max_positions", m.max_positions},
                       {"parameters", m.parameters}}},
                     {"methods", methods_json(h)},
                     {"weights", weights_json(h)},
                     {"segments", segments_json(h)},
                     {"shards", shards_json(h)},
                     {"device", device_json(h)},
                     {"text",
                      {{"tokenizer", h.text.has_tokenizer},
                       {"chat_template", h.text.chat_template},
                       {"bos_id", h.text.bos_id},
                       {"eos_ids", h.text.eos_ids}}},
                     {"generation",
                      {{"do_sample", h.generation.do_sample},
                       {"temperature", h.generation.temperature},
                       {"top_k", h.generation.top_k},
                       {"top_p", h.generation.top_p},
                       {"min_p", h.generation.min_p},
                       {"repetition_penalty", h.generation.repetition_penalty}}},
                     {"recipe", recipe.ok() ? *recipe : Json(h.recipe)},
                     {"metrics", metrics},
                     {"programs", programs_json(artifact)},
                     {"estimate", stored ? estimates_json(*stored, h.device.soc_model) : Json()}};
  show_json(json, 2);
}

// What one of the file's programs has.
void show_program(const ArtifactHeader& h) {
  show("mode       {}, context {}", mode_of(h), h.methods.front().context);
  for (const ir::Graph& g : h.methods) {
    show("method     {}: {} token{} per call, {} ops", g.name, g.tokens, g.tokens == 1 ? "" : "s", g.ops.size());
  }
  for (const ir::Tensor& t : h.methods.front().tensors) {
    const bool is_io = t.role == ir::TensorRole::kInput || t.role == ir::TensorRole::kOutput;
    if (!is_io && t.purpose != ir::Purpose{.kind = ir::PurposeKind::kKeyCache, .layer = 0}) continue;
    show("           {} {}: {} [{}]", tensor_role_name(t.role), t.name, dtype_name(t.dtype), str_join(t.shape, ", "));
  }
  if (!h.shards.empty()) {
    const Backend* backend = find_backend(h.backend);
    show("device     {}",
         backend != nullptr ? backend->describe_device(h.device) : str_format("SoC {}", h.device.soc_model));
  }
  for (const Shard& shard : h.shards) {
    show("shard      {}: {}, {} graphs", shard.name, format_bytes(shard.binary.size), shard.graphs.size());
  }
  std::map<std::string, std::pair<size_t, uint64_t>> formats;
  for (const WeightEntry& w : h.weights) {
    std::string name(weight_format_name(w.format));
    if (w.block > 0) name += str_format("/{}", w.block);
    auto& [count, bytes] = formats[name];
    ++count;
    bytes += w.bytes();
  }
  for (const auto& [name, count] : formats) {
    show("weights    {}: {} matrices, {}", name, count.first, format_bytes(count.second));
  }
  std::map<std::string, size_t> roundings;
  for (const auto& [weight, format] : activations_of(h.methods.front())) ++roundings[format];
  for (const auto& [format, count] : roundings) show("inputs     {}: {} layers", format, count);
  for (const ir::Op& op : h.methods.front().ops) {
    if (op.kind != ir::OpKind::kRescore) continue;
    show("rescored   the {} largest logits, by the CPU", op.attributes.candidates);
  }
  for (const Metric& f : h.metrics) {
    if (!is_estimate_metric(f)) show("metric     {} {:.4g}", f.name, f.value);
  }
  if (const auto stored = stored_estimate(h.metrics)) show_estimates(*stored, h.device.soc_model);
}

void report_text(const Artifact& artifact, bool verified) {
  const ArtifactHeader& h = artifact.header();
  const ModelInfo& m = h.model;
  std::string targets;
  const std::vector<ProgramSummary> programs = summarize_programs(artifact);
  for (const ProgramSummary& program : programs) targets += (targets.empty() ? "" : ", ") + program.header.target;
  show("{}: {}, by {}, for {}", artifact.path().string(), format_bytes(artifact.file_size()), h.producer, targets);
  show("checksums {}", verified ? "verified" : "of the weights not looked at");
  show_line("");
  show("model      {} ({}), {:.1f} M parameters", m.name, m.architecture, static_cast<double>(m.parameters) / 1e6);
  show("           {} layers, hidden {}, {} query and {} key heads of {}, vocabulary {}", m.layers, m.hidden_size,
       m.heads, m.kv_heads, m.head_dim, m.vocab_size);
  show("text       {}, {}", h.text.has_tokenizer ? "tokenizer" : "no tokenizer",
       h.text.chat_template.empty() ? "no chat template" : "chat template");
  for (const ProgramSummary& program : programs) {
    if (programs.size() > 1) {
      show_line("");
      show("program    {} ({} back end): {}, {} of it in segments that an earlier program uses", program.header.target,
           program.header.backend, format_bytes(program.bytes), format_bytes(program.shared_bytes));
    }
    show_program(program.header);
  }
}

void run(const Options& o) {
  const Artifact artifact = value_or_fail(Artifact::open(o.file));
  if (!o.no_verify) {
    for (size_t i = 0; i < artifact.header().segments.size(); ++i) {
      ok_or_fail(artifact.verify_segment(i));
      artifact.release_segment(i);
    }
  }
  if (o.dump_ir) {
    for (const ProgramSummary& program : summarize_programs(artifact)) {
      if (artifact.program_count() > 1) show("// for {}", program.header.target);
      for (const ir::Graph& graph : program.header.methods) {
        write_stdout(printable_lines(ir::to_text(graph)) + "\n");
      }
    }
  } else if (o.json) {
    report_json(artifact, !o.no_verify);
  } else {
    report_text(artifact, !o.no_verify);
  }
}

}  // namespace inspect_command

void add_inspect_command(CLI::App& app) {
  using namespace inspect_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a file, and check that it is whole");
  command->footer("Example:\n  tandem inspect demo.tdm");
  command->add_option("FILE", o->file, "A compiled file")->required();
  command->add_flag("--json", o->json, "As JSON, with every input, output, weight and segment");
  command->add_flag("--no-verify", o->no_verify, "Do not read the weights to compare their checksums");
  command->add_flag("--dump-ir", o->dump_ir, "Print the methods' graphs");
  command->callback([o] { run(*o); });
}

}  // namespace tandem
