#include <utility>

#include "backends/qnn/compile/shard_job.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem {
namespace {

// Both ends are ours, of one version; still, no field is assumed to be present.
class Fields {
 public:
  explicit Fields(const Json& object) : object_(object) {}

  template <typename T>
  void read(const char* key, T& value) {
    const auto it = object_.is_object() ? object_.find(key) : object_.end();
    if (!object_.is_object() || it == object_.end()) return fail(key);
    if constexpr (std::is_same_v<T, std::string>) {
      if (!it->is_string()) return fail(key);
      value = it->template get<std::string>();
    } else if constexpr (std::is_same_v<T, std::filesystem::path>) {
      if (!it->is_string()) return fail(key);
      value = it->template get<std::string>();
    } else if constexpr (std::is_same_v<T, bool>) {
      if (!it->is_boolean()) return fail(key);
      value = it->template get<bool>();
    } else if constexpr (std::is_floating_point_v<T>) {
      if (!it->is_number()) return fail(key);
      value = it->template get<T>();
    } else {
      if (!it->is_number_integer()) return fail(key);
      const bool fits = it->is_number_unsigned() ? std::in_range<T>(it->template get<uint64_t>())
                                                 : std::in_range<T>(it->template get<int64_t>());
      if (!fits) return fail(key);
      value = it->template get<T>();
    }
  }
  const Json* list(const char* key) {
    const auto it = object_.is_object() ? object_.find(key) : object_.end();
    if (!object_.is_object() || it == object_.end() || !it->is_array()) {
      fail(key);
      return nullptr;
    }
    return &*it;
  }
  void fail(const char* key) {
    if (missing_.empty()) missing_ = key;
  }
  Status status() const {
    if (missing_.empty()) return ok_status();
    return corrupt("\"{}\" is absent, of another type or too large", missing_);
  }

 private:
  const Json& object_;
  std::string missing_;
};

Json estimate_json(const Estimate& e) {
  Json json = {{"uncosted_ops", e.uncosted_ops}};
  for (const auto& [name, member] : kEstimateFields) json[name] = e.*member;
  return json;
}

Result<Estimate> read_estimate(const Json& json) {
  Estimate e;
  Fields fields(json);
  for (const auto& [name, member] : kEstimateFields) fields.read(name, e.*member);
  if (const Json* ops = fields.list("uncosted_ops")) {
    for (const Json& op : *ops) {
      if (!op.is_string()) return corrupt("an op without a cost has no name");
      e.uncosted_ops.push_back(op.get<std::string>());
    }
  }
  TANDEM_TRY(fields.status());
  // Later sums must not overflow, and metrics hold no more.
  constexpr uint64_t kMost = uint64_t{1} << 53;
  for (const auto& [name, member] : kEstimateFields) {
    if (e.*member > kMost) return corrupt("an estimate of {} is not possible", e.*member);
  }
  return e;
}

}  // namespace

std::string ShardJob::to_json() const {
  Json shapes = Json::array();
  for (const MethodShape& shape : methods.shapes) {
    shapes.push_back({{"name", shape.name}, {"tokens", shape.tokens}, {"context", shape.context}});
  }
  return dump_json(Json{{"checkpoint", checkpoint.string()},
                        {"config", config_name},
                        {"recipe", recipe},
                        {"encodings", encodings.string()},
                        {"tuned", tuned.string()},
                        {"methods", shapes},
                        {"f16", methods.f16},
                        {"variant", methods.variant.to_json()},
                        {"trace", methods.trace},
                        {"embedding_on_host", methods.embedding_on_host},
                        {"shard", shard.name},
                        {"layer_begin", shard.layer_begin},
                        {"layer_end", shard.layer_end},
                        {"head", shard.head},
                        {"source", source},
                        {"soc_model", soc_model},
                        {"arch", arch},
                        {"vtcm_mb", vtcm_mb},
                        {"hvx_threads", hvx_threads},
                        {"optimization_level", optimization_level},
                        {"weight_sharing", weight_sharing},
                        {"estimate", estimate},
                        {"libraries", libraries},
                        {"log_level", static_cast<int>(log_level)},
                        {"threads", threads},
                        {"output", output.string()}});
}

Result<ShardJob> ShardJob::from_json(std::string_view text) {
  TANDEM_ASSIGN(const Json json, parse_json(text, "the job"));
  ShardJob job;
  Fields fields(json);
  fields.read("checkpoint", job.checkpoint);
  fields.read("config", job.config_name);
  fields.read("recipe", job.recipe);
  fields.read("encodings", job.encodings);
  fields.read("tuned", job.tuned);
  fields.read("f16", job.methods.f16);
  std::string variant;
  fields.read("variant", variant);
  fields.read("trace", job.methods.trace);
  fields.read("embedding_on_host", job.methods.embedding_on_host);
  fields.read("shard", job.shard.name);
  fields.read("layer_begin", job.shard.layer_begin);
  fields.read("layer_end", job.shard.layer_end);
  fields.read("head", job.shard.head);
  fields.read("source", job.source);
  fields.read("soc_model", job.soc_model);
  fields.read("arch", job.arch);
  fields.read("vtcm_mb", job.vtcm_mb);
  fields.read("hvx_threads", job.hvx_threads);
  fields.read("optimization_level", job.optimization_level);
  fields.read("weight_sharing", job.weight_sharing);
  fields.read("estimate", job.estimate);
  fields.read("libraries", job.libraries);
  int log_level = 0;
  fields.read("log_level", log_level);
  fields.read("threads", job.threads);
  fields.read("output", job.output);
  if (const Json* shapes = fields.list("methods")) {
    for (const Json& item : *shapes) {
      MethodShape shape;
      Fields part(item);
      part.read("name", shape.name);
      part.read("tokens", shape.tokens);
      part.read("context", shape.context);
      TANDEM_TRY(part.status());
      job.methods.shapes.push_back(std::move(shape));
    }
  }
  if (log_level < 0 || log_level > static_cast<int>(LogLevel::kDebug)) fields.fail("log_level");
  job.log_level = static_cast<LogLevel>(log_level);
  TANDEM_TRY(fields.status());
  TANDEM_ASSIGN(job.methods.variant, GraphVariant::from_json(variant));
  return job;
}

std::string ShardResult::to_json() const {
  Json list = Json::array();
  for (const GraphResult& graph : graphs) {
    Json item = {{"name", graph.name},
                 {"nodes", graph.nodes},
                 {"build_seconds", graph.build_seconds},
                 {"finalize_seconds", graph.finalize_seconds}};
    if (graph.estimate) item["estimate"] = estimate_json(*graph.estimate);
    list.push_back(std::move(item));
  }
  return dump_json(Json{{"size", size},
                        {"hash", hash},
                        {"spill_fill_bytes", spill_fill_bytes},
                        {"peak_memory", peak_memory},
                        {"seconds", seconds},
                        {"core_version", core_version},
                        {"backend_version", backend_version},
                        {"build_id", build_id},
                        {"graphs", list},
                        {"count", report.count},
                        {"signal", report.signal},
                        {"noise", report.noise},
                        {"max_error", report.max_error}});
}

Result<ShardResult> ShardResult::from_json(std::string_view text) {
  TANDEM_ASSIGN(const Json json, parse_json(text, "a shard's result"));
  ShardResult result;
  Fields fields(json);
  fields.read("size", result.size);
  fields.read("hash", result.hash);
  fields.read("spill_fill_bytes", result.spill_fill_bytes);
  fields.read("peak_memory", result.peak_memory);
  fields.read("seconds", result.seconds);
  fields.read("core_version", result.core_version);
  fields.read("backend_version", result.backend_version);
  fields.read("build_id", result.build_id);
  fields.read("count", result.report.count);
  fields.read("signal", result.report.signal);
  fields.read("noise", result.report.noise);
  fields.read("max_error", result.report.max_error);
  if (const Json* list = fields.list("graphs")) {
    for (const Json& item : *list) {
      GraphResult graph;
      Fields part(item);
      part.read("name", graph.name);
      part.read("nodes", graph.nodes);
      part.read("build_seconds", graph.build_seconds);
      part.read("finalize_seconds", graph.finalize_seconds);
      TANDEM_TRY(part.status());
      if (item.contains("estimate")) {
        TANDEM_ASSIGN(graph.estimate, read_estimate(item["estimate"]));
      }
      result.graphs.push_back(std::move(graph));
    }
  }
  TANDEM_TRY(fields.status());
  return result;
}

}  // namespace tandem
