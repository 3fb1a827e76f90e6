#include "compiler/plain_file.h"

#include <algorithm>

#include "artifact/writer.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/version.h"
#include "compiler/calibration/calibration_input.h"
#include "compiler/calibration/choose_activations.h"
#include "compiler/calibration/logits_range.h"
#include "compiler/segment_writer.h"

namespace tandem {
namespace {

// Everything that the segments' bytes depend on.
std::string key_of(const CompileJob& job, const FilePlan& file) {
  Json segments = Json::array();
  for (const SegmentPlan& segment : file.segments) segments.push_back({segment.name, segment.size});
  return str_format("{} {:016x} {} {} {}", kVersion, job.checkpoint().fingerprint(), job.target().name,
                    job.recipe().to_json(), dump_json(segments));
}

void count_layers(const ir::Graph& graph, CompileReport& report) {
  for (const ir::Op& op : graph.ops) {
    if (op.kind != ir::OpKind::kLinear || !op.attributes.quantize_input) continue;
    ++report.rounding_layers;
    if (op.attributes.int16_input) ++report.int16_layers;
  }
}

}  // namespace

Result<std::vector<ir::Graph>> build_methods(CompileJob& job, ThreadPool& pool) {
  constexpr size_t kLogitsSample = 64;
  PassContext context{job.plan(), job.recipe()};
  if (!dtype_is_float(job.recipe().logits)) {
    if (job.options().progress) job.options().progress({"looking at the logits", 0, 0});
    TANDEM_ASSIGN(
        context.logits_encoding,
        find_logits_encoding(job.plan(), job.weights(), job.sample_tokens(kLogitsSample), job.recipe().logits, pool));
  }
  for (const MethodShape& shape : job.shapes()) context.most_tokens = std::max(context.most_tokens, shape.tokens);
  std::vector<ir::Graph> methods;
  for (const MethodShape& shape : job.shapes()) {
    ir::Graph graph = build_graph(job.plan(), shape);
    TANDEM_TRY(run_passes(graph, context, job.options().dump_ir));
    methods.push_back(std::move(graph));
  }
  return methods;
}

Status resolve_activations(CompileJob& job, ThreadPool& pool) {
  if (!leaves_activations_open(job.recipe(), job.plan())) return ok_status();
  TANDEM_ASSIGN(auto samples, read_calibration_samples(job));
  const ActivationJob choosing{job.plan(),         job.weights(),          job.recipe(),
                               std::move(samples), job.options().progress, job.options().stop};
  TANDEM_ASSIGN(ActivationChoice choice, choose_activations(choosing, pool));
  job.resolve_recipe(std::move(choice.recipe));
  for (ActivationChoice::Layer& layer : choice.layers) {
    job.report().open_layers.push_back({std::move(layer.name), layer.sqnr_db});
  }
  return ok_status();
}

Status write_plain_file(CompileJob& job, std::vector<ir::Graph> methods, ThreadPool& pool) {
  count_layers(methods.front(), job.report());
  TANDEM_ASSIGN(const FilePlan file, plan_file(methods, job.tokenizer_blob()));
  ArtifactHeader header = job.make_header(file);
  header.methods = std::move(methods);
  TANDEM_TRY(check_header(header, file.planned_segments()));
  TANDEM_ASSIGN(WorkFolder work, job.open_work_folder(key_of(job, file)));
  TANDEM_TRY(job.check_disk(file.total_bytes(), work.finished_bytes()));
  SegmentWriter writer(job, file, work, pool);
  auto segments = writer.finish_all();
  if (!segments.ok()) return work.give_up(std::move(segments).error());
  if (job.options().progress) {
    job.options().progress({"writing the file", file.total_bytes(), file.total_bytes()});
  }
  if (writer.report().noise > 0.0) header.metrics.push_back({"weight_sqnr_db", writer.report().sqnr_db()});
  for (const WeightEntry& w : file.weights) job.report().weight_bytes += w.bytes();
  job.report().sqnr_db = writer.report().sqnr_db();
  return job.finish(std::move(header), *std::move(segments), std::move(work));
}

}  // namespace tandem
