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
#include "compiler/stage_timer.h"
#include "compiler/tuning/tune_job.h"
#include "compiler/tuning/tuning_report.h"

namespace tandem {
namespace {

// Everything that the finished parts depend on.
Result<std::string> key_of(const CompileJob& job) {
  std::string calibration;
  if (reads_calibration_data(job)) {
    TANDEM_ASSIGN(calibration, calibration_key(job.options().calibration));
    calibration += str_format(" context {}", job.context());  // Samples are no longer than that.
  }
  return str_format("{} {:016x} {} {} {} {}", kVersion, job.checkpoint().fingerprint(), job.target().name,
                    job.recipe().to_json(), tuning_key(job.options()), calibration);
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

namespace {

// Decides which layers get int16 activations, where the recipe leaves it open.
Status resolve_activations(CompileJob& job, ThreadPool& pool) {
  if (!leaves_activations_open(job.recipe(), job.plan())) return ok_status();
  StageTimer stages(job.report());
  stages.begin("calibration");
  // One choice per layer needs less text than ranges or weights do.
  constexpr int64_t kTokens = 2048;
  TANDEM_ASSIGN(const CalibrationData* data,
                job.calibration_data(pool, {.tokens = std::max(calibration_tokens(job), kTokens)}));
  const ActivationJob choosing{job.plan(),    job.weights(),          job.recipe(),
                               data->samples, job.options().progress, job.options().stop};
  TANDEM_ASSIGN(ActivationChoice choice, choose_activations(choosing, pool));
  job.resolve_recipe(std::move(choice.recipe));
  for (ActivationChoice::Layer& layer : choice.layers) {
    job.report().open_layers.push_back({std::move(layer.name), layer.sqnr_db});
  }
  stages.end();
  return ok_status();
}

struct PlainProgram {
  ArtifactHeader header;
  std::vector<SegmentFile> segments;
};

Result<PlainProgram> make_program(CompileJob& job, WorkFolder& work, ThreadPool& pool) {
  StageTimer stages(job.report());
  if (job.options().bits) stages.begin("choosing bits");
  TANDEM_TRY(resolve_bits(job, work, false, pool));
  stages.end();
  TANDEM_TRY(resolve_activations(job, pool));
  TANDEM_ASSIGN(std::vector<ir::Graph> methods, build_methods(job, pool));
  count_layers(methods.front(), job.report());
  TANDEM_ASSIGN(const FilePlan file, plan_file(methods, job.tokenizer_blob()));
  PlainProgram program{job.make_header(file), {}};
  program.header.methods = std::move(methods);
  TANDEM_TRY(check_header(program.header, file.planned_segments()));
  TANDEM_TRY(job.check_disk(file.total_bytes(), work.finished_bytes()));
  if (tunes_weights(job.options(), job.recipe(), job.plan())) stages.begin("tuning");
  TANDEM_TRY(tune_job_weights(job, work, pool));
  stages.end();
  TANDEM_TRY(write_tuning_page(job, job.report()));
  SegmentWriter writer(job, file, work, pool);
  TANDEM_ASSIGN(program.segments, writer.finish_all());
  if (job.options().progress) {
    job.options().progress({"writing the file", file.total_bytes(), file.total_bytes()});
  }
  program.header.calibration = job.calibration_record();  // Known by now.
  if (writer.report().noise > 0.0) program.header.metrics.push_back({"weight_sqnr_db", writer.report().sqnr_db()});
  for (const WeightEntry& w : file.weights) job.report().weight_bytes += w.bytes();
  job.report().sqnr_db = writer.report().sqnr_db();
  return program;
}

}  // namespace

Status compile_plain_file(CompileJob& job, ThreadPool& pool) {
  TANDEM_ASSIGN(const std::string key, key_of(job));
  TANDEM_ASSIGN(WorkFolder work, job.open_work_folder(key));
  auto program = make_program(job, work, pool);
  if (!program.ok()) return work.give_up(std::move(program).error());
  return job.finish(std::move(program->header), std::move(program->segments), std::move(work));
}

}  // namespace tandem
