#include "backends/qnn/compile/compile_npu.h"

#include <algorithm>
#include <iterator>

#include "artifact/reader.h"
#include "artifact/writer.h"
#include "backends/interface/method_memory.h"
#include "backends/qnn/api/library.h"
#include "backends/qnn/api/log.h"
#include "backends/qnn/api/version_rules.h"
#include "backends/qnn/compile/estimate_html.h"
#include "backends/qnn/compile/graph_variant.h"
#include "backends/qnn/compile/npu_estimates.h"
#include "backends/qnn/compile/npu_rules.h"
#include "backends/qnn/compile/relative_estimates.h"
#include "backends/qnn/compile/shard_processes.h"
#include "backends/qnn/compile/shard_source.h"
#include "backends/qnn/compile/tune_graphs.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/version.h"
#include "compiler/calibration/calibrate.h"
#include "compiler/calibration/calibration_input.h"
#include "compiler/segment_writer.h"
#include "compiler/source_hash.h"
#include "compiler/stage_timer.h"
#include "compiler/tuning/tune_job.h"
#include "compiler/tuning/tuning_report.h"
#include "quant/calibration_report.h"

namespace tandem {
namespace {

// A worker's memory: the library and the checkpoint's pages, and a multiple of its binary while it compiles
// (docs/performance.md).
constexpr uint64_t kWorkerBase = uint64_t{150} << 20;
constexpr uint64_t kWorkerFactor = 10;

class NpuCompiler {
 public:
  NpuCompiler(CompileJob& job, const NpuOptions& options, const NpuTarget& target)
      : job_(job), npu_(options), target_(target), pool_(job.options().threads), stages_(job.report()) {}

  Status run() {
    const qnn::LogScope scope(job_.options().log);
    TANDEM_TRY(prepare());
    TANDEM_ASSIGN(const std::string work_key, key());
    TANDEM_ASSIGN(WorkFolder work, job_.open_work_folder(work_key));
    if (Status status = work_in(work); !status.ok()) return work.give_up(std::move(status).error());
    stages_.begin("file");
    report_progress("writing the file");
    ArtifactHeader header = finished_header(work);
    TANDEM_TRY(job_.finish(std::move(header), std::move(segments_), std::move(work)));
    stages_.end();
    return ok_status();
  }

 private:
  Status work_in(WorkFolder& work) {
    TANDEM_TRY(resolve_bits(job_, work, true, pool_));
    TANDEM_TRY(plan());
    TANDEM_TRY(job_.check_disk(total_bytes_, work.finished_bytes()));
    TANDEM_TRY(hash_sources());
    if (tunes_weights(job_.options(), job_.recipe(), job_.plan())) {
      stages_.begin("tuning");
      TANDEM_TRY(tune_job_weights(job_, work, pool_));
    }
    page_.sections = tuning_section_html(job_.plan(), job_.recipe(), job_.report());
    TANDEM_TRY(make_encodings(work));
    if (npu_.tune_graphs) TANDEM_TRY(tune(work));
    job_.report().graphs = describe(form_.variant, job_.shapes(), shares_weights());
    TANDEM_ASSIGN(methods_,
                  build_static_methods(job_.plan(), job_.recipe(), form_, encodings_, job_.options().dump_ir));
    methods_.pop_back();  // The one that the LM head is extracted from.
    TANDEM_TRY(check_planned_head());
    stages_.begin("weights of the CPU");
    SegmentWriter writer(job_, file_, work, pool_);
    TANDEM_ASSIGN(segments_, writer.finish_all());
    report_.add(writer.report());
    stages_.begin("shards");
    TANDEM_TRY(finish_shards(work));
    if (npu_.estimate) TANDEM_TRY(finish_estimates(work));
    return ok_status();
  }

  // ---- Before any work ----

  bool shares_weights() const {
    return target_.shares_weights && npu_.share_weights && !npu_.emulator && job_.shapes().size() > 1;
  }

  Status prepare() {
    TANDEM_ASSIGN(worker_, find_worker(npu_.worker));
    // Better to find a missing library or a wrong version now than after the calibration.
    TANDEM_ASSIGN(const auto library, qnn::Library::load(qnn::SearchOptions{.path = npu_.libraries}));
    libraries_ = std::filesystem::absolute(library->path()).string();
    build_id_ = library->build_id();
    if ((npu_.estimate || npu_.tune_graphs) && !qnn::has_estimates(library->htp_version())) {
      return unsupported("{} ({}) estimates no speeds: leave `{}` out, or use QAIRT 2.51 or later", libraries_,
                         build_id_, npu_.estimate ? "estimate" : "tune-graphs");
    }
    form_.variant = choose_graph_variant(target_, job_.plan(), job_.recipe(), job_.shapes());
    TANDEM_TRY(apply_attention_options(npu_.decode_attention, npu_.prefill_attention, job_.shapes(), form_.variant));
    return ok_status();
  }

  Status plan() {
    form_.shapes = job_.shapes();
    form_.f16 = computes_in_f16(job_.recipe());
    form_.trace = npu_.trace;
    form_.embedding_on_host = embedding_on_host(job_.plan(), job_.recipe());
    const size_t weight_sets = shares_weights() ? 1 : job_.shapes().size();
    const ShardOptions options = {.shards = npu_.shards,
                                  .weight_sets = weight_sets,
                                  .largest = npu_.shards > 0 ? target_.binary_limit : target_.usual_limit,
                                  .largest_graph = target_.graph_limit};
    TANDEM_ASSIGN(shards_, plan_shards(job_.plan(), job_.recipe(), options));
    for (const ShardRange& shard : shards_) {
      if (shard.estimated_bytes > target_.usual_limit) warn_about_size(shard.name, shard.estimated_bytes);
    }
    // Rescoring reads hundreds of rows for each token; each should be contiguous.
    job_.report().rescored = job_.recipe().rescore.value_or(0);
    const WeightLayout layout = job_.report().rescored > 0 ? WeightLayout::kRows : WeightLayout::kPanel16;
    TANDEM_ASSIGN(const std::vector<ir::Graph> kept, kept_weights());
    TANDEM_ASSIGN(file_, plan_file({form_.embedding_on_host ? host_graph(job_.plan(), job_.recipe()) : ir::Graph()},
                                   job_.tokenizer_blob(), layout, kept));
    total_bytes_ = file_.total_bytes();
    for (const ShardRange& shard : shards_) total_bytes_ += shard.estimated_bytes;
    if (npu_.estimate && !target_.is_simulated) {
      for (const ShardRange& shard : shards_) estimate_bytes_ += shard.estimated_bytes;
    }
    return ok_status();
  }

  // Tuned weights cannot be computed again from the checkpoint, as `tandem eval` does with others; a file for the
  // emulator, which is for evaluation, has them besides its binaries.
  Result<std::vector<ir::Graph>> kept_weights() const {
    if (!npu_.emulator || !tunes_weights(job_.options(), job_.recipe(), job_.plan())) return std::vector<ir::Graph>();
    ir::Graph graph = build_graph(job_.plan(), {"kept", 1, 1});
    for (ir::Tensor& tensor : graph.tensors) {
      if (tensor.role == ir::TensorRole::kWeight) set_weight_format(tensor, job_.recipe().spec_for(tensor.name));
    }
    return std::vector<ir::Graph>{std::move(graph)};
  }

  void warn_about_size(const std::string& shard, uint64_t bytes) const {
    job_.report().warnings.push_back(
        str_format("the shard {} has {} MB, and some devices are reported to load {} MB at most: Snapdragon 8 Elite "
                   "loads more (Qwen3-4B in one binary is published for it); try it on yours, or use more `shards`",
                   shard, bytes >> 20, target_.usual_limit >> 20));
  }

  // Checksums of the inputs of each shard, and of the whole file.
  Status hash_sources() {
    SourceHash all;
    all.add(job_.tokenizer_blob());
    report_progress("reading the checkpoint");
    for (const ShardRange& shard : shards_) {
      if (job_.stopped()) return cancelled("stopped; the same command goes on where it was");
      TANDEM_ASSIGN(const uint64_t source, hash_shard_source(job_.weights(), job_.plan(), shard));
      sources_.push_back(source);
      all.add(source);
    }
    source_ = all.value();
    return ok_status();
  }

  // Everything that the finished parts depend on.
  Result<std::string> key() const {
    TANDEM_ASSIGN(const std::string calibration, calibration_key(job_.options().calibration));
    Json methods = Json::array();
    for (const MethodShape& shape : job_.shapes()) methods.push_back({shape.name, shape.tokens, shape.context});
    const std::string chip = str_format("{} {} v{} vtcm {} hvx {} level {}", target_.name, target_.soc_model,
                                        target_.arch, target_.vtcm_mb, npu_.hvx_threads, npu_.optimization_level);
    const std::string graphs = npu_.tune_graphs ? "tuned" : form_.variant.to_json();
    return str_format("{} {:016x} {} {} {} shards {} {} {} shared {} graphs {} trace {} emulator {} qnn {} {}",
                      kVersion, job_.checkpoint().fingerprint(), chip, job_.recipe().to_json(), dump_json(methods),
                      npu_.shards, calibration, tuning_key(job_.options()), shares_weights(), graphs, npu_.trace,
                      npu_.emulator, libraries_, build_id_);
  }

  // ---- Stages ----

  void report_progress(const std::string& what) const {
    if (job_.options().progress) job_.options().progress({what, done_bytes_, total_bytes_ + estimate_bytes_});
  }

  // ---- Encodings ----

  Status make_encodings(WorkFolder& work) {
    const CalibrationOptions& options = job_.options().calibration;
    encodings_path_ = work.encodings_path();
    if (!form_.f16) {
      stages_.begin("calibration");
      const FinishedSegment* finished = work.find("encodings", source_);
      if (!options.import_encodings.empty()) {
        TANDEM_ASSIGN(encodings_, EncodingTable::load(options.import_encodings));
      } else if (finished != nullptr && is_intact(encodings_path_, *finished)) {
        TANDEM_ASSIGN(encodings_, EncodingTable::load(encodings_path_));
        job_.restore_calibration(work, source_);
        ++job_.report().segments_reused;
      } else {
        TANDEM_ASSIGN(const CalibrationData* data, job_.calibration_data(pool_, {.work = &work, .source = source_}));
        CalibrationJob job{job_.plan(),          job_.weights(), job_.recipe(),           options.method,
                           options.method_given, data->samples,  job_.options().progress, job_.options().stop,
                           data->source};
        TANDEM_ASSIGN(Calibration calibration, calibrate(job, pool_));
        encodings_ = std::move(calibration.table);
        page_.histograms = std::move(calibration.histograms);
      }
      TANDEM_TRY(encodings_.save(encodings_path_));
      // Imported encodings are read again by the next run: nothing needs to be kept.
      if (options.import_encodings.empty()) {
        TANDEM_ASSIGN(const MappedFile file, MappedFile::open(encodings_path_));
        TANDEM_TRY(work.add("encodings", {file.bytes().size(), hash_bytes(file.bytes()), source_}));
      }
    }
    if (!options.export_encodings.empty()) TANDEM_TRY(encodings_.save(options.export_encodings));
    return write_page();
  }

  Status write_page() const {
    const std::filesystem::path& path = job_.options().calibration.report;
    if (path.empty()) return ok_status();
    const std::string title = str_format("{} for {}", job_.checkpoint().name(), target_.name);
    return write_file_atomically(path, calibration_report_html(encodings_, title, page_));
  }

  // ---- Graphs ----

  // The first layer alone, for a chip that has estimates.
  Result<WorkerTask> layer_task(const WorkFolder& work) const {
    WorkerTask task = make_task(work, 0);
    task.job.shard = {"layers.0-0", 0, 1, false, 0};
    TANDEM_ASSIGN(task.job.source, hash_shard_source(job_.weights(), job_.plan(), task.job.shard));
    return on_relative(std::move(task), estimated_as(target_), target_.vtcm_mb);
  }

  Status tune(WorkFolder& work) {
    stages_.begin("tuning of graphs");
    TANDEM_ASSIGN(const WorkerTask layer, layer_task(work));
    TANDEM_ASSIGN(const std::string key, tuning_key(job_.plan(), job_.recipe(), layer.job, build_id_));
    const TaskRunner run = [&](const std::vector<WorkerTask>& tasks, const TaskDone& done) {
      return run_tasks(work, tasks, done);
    };
    TANDEM_ASSIGN(form_.variant, tuned_variant({layer, key, source_, npu_.tune_cache}, work, run, job_.report()));
    return ok_status();
  }

  // ---- Shards ----

  std::filesystem::path shard_path(const WorkFolder& work, size_t shard) const {
    return work.segment_path(file_.segments.size() + shard);
  }

  Status finish_shards(WorkFolder& work) {
    results_.resize(shards_.size());
    std::vector<WorkerTask> tasks;
    std::vector<size_t> shard_of_task;
    for (size_t i = 0; i < shards_.size(); ++i) {
      const FinishedSegment* finished = work.find(shards_[i].name, sources_[i]);
      if (finished != nullptr && is_intact(shard_path(work, i), *finished)) {
        auto result = ShardResult::from_json(finished->note);
        if (result.ok() && (!estimates_itself() || has_estimates(*result))) {
          results_[i] = *std::move(result);
          ++job_.report().segments_reused;
          done_bytes_ += shards_[i].estimated_bytes;
          continue;
        }
      }
      shard_of_task.push_back(i);
      tasks.push_back(make_task(work, i));
    }
    return run_tasks(work, tasks, [&](size_t task, const ShardResult& result) -> Status {
      const size_t shard = shard_of_task[task];
      TANDEM_TRY(check_size(shards_[shard], result.size));
      TANDEM_TRY(
          work.add(shards_[shard].name, {result.size, result.hash, sources_[shard], result.report, result.to_json()}));
      results_[shard] = result;
      done_bytes_ += shards_[shard].estimated_bytes;
      report_progress(shards_[shard].name);
      return ok_status();
    });
  }

  // Binaries may become a little larger than they were planned.
  Status check_size(const ShardRange& shard, uint64_t bytes) const {
    const uint64_t most = npu_.shards > 0 ? target_.binary_limit : target_.usual_limit;
    if (bytes > most) {
      return resource_exhausted("the shard {} became {} MB, and devices load {} MB; use `shards` {} or more",
                                shard.name, bytes >> 20, most >> 20, shards_.size() * (bytes / most + 1));
    }
    if (bytes > target_.usual_limit && shard.estimated_bytes <= target_.usual_limit) warn_about_size(shard.name, bytes);
    return ok_status();
  }

  Status run_tasks(const WorkFolder& work, const std::vector<WorkerTask>& tasks, const TaskDone& done) const {
    WorkerOptions options;
    options.worker = worker_;
    options.folder = work.folder();
    options.progress = [&](const std::string& shard, const std::string& stage) {
      report_progress(shard + ": " + stage);
    };
    return tandem::run_tasks(tasks, npu_, job_.options(), std::move(options), done);
  }

  WorkerTask make_task(const WorkFolder& work, size_t shard) const {
    return {make_job(work, shard), kWorkerBase + kWorkerFactor * shards_[shard].estimated_bytes};
  }

  ShardJob make_job(const WorkFolder& work, size_t shard) const {
    ShardJob job;
    job.checkpoint = job_.checkpoint().folder();
    job.config_name = job_.options().config_name;
    job.recipe = job_.recipe().to_json();
    if (!form_.f16) job.encodings = encodings_path_;
    if (!job_.tuned().empty()) job.tuned = work.folder();
    job.methods = form_;
    job.shard = shards_[shard];
    job.source = sources_[shard];
    job.soc_model = target_.soc_model;
    job.arch = target_.arch;
    job.vtcm_mb = target_.vtcm_mb;
    job.hvx_threads = npu_.hvx_threads;
    job.optimization_level = npu_.optimization_level;
    job.weight_sharing = shares_weights();
    job.estimate = estimates_itself();
    job.libraries = libraries_;
    job.output = shard_path(work, shard);
    return job;
  }

  // ---- Estimates ----

  // Compiling a shard yields its estimate too.
  bool estimates_itself() const { return npu_.estimate && target_.is_simulated; }

  Status finish_estimates(WorkFolder& work) {
    const NpuTarget& simulated = estimated_as(target_);
    std::vector<ShardResult> results = results_;
    if (!estimates_itself()) {
      stages_.begin("estimates");
      std::vector<WorkerTask> tasks;
      for (size_t i = 0; i < shards_.size(); ++i) tasks.push_back(make_task(work, i));
      const TaskRunner run = [&](const std::vector<WorkerTask>& left, const TaskDone& done) {
        return run_tasks(work, left, [&](size_t task, const ShardResult& result) -> Status {
          done_bytes_ += (left[task].expected_memory - kWorkerBase) / kWorkerFactor;
          report_progress(left[task].name());
          return done(task, result);
        });
      };
      TANDEM_ASSIGN(RelativeEstimates relative, estimate_on_relative(simulated, target_.vtcm_mb, tasks, work, run));
      results = std::move(relative.results);
      job_.report().segments_reused += relative.reused;
    }
    TANDEM_ASSIGN(job_.report().estimates,
                  make_estimate_report(target_, simulated, target_.vtcm_mb, job_.shapes(), shards_, results));
    page_.sections += estimate_html(*job_.report().estimates);
    TANDEM_TRY(write_page());
    if (npu_.estimate_json.empty()) return ok_status();
    return write_file_atomically(npu_.estimate_json, dump_json(job_.report().estimates->to_json(), 2) + "\n");
  }

  // ---- The file ----

  static std::string segment_name(const ShardRange& shard) { return "shard." + shard.name; }

  // With shards of the planned sizes.
  ArtifactHeader make_header() const {
    ArtifactHeader header = job_.make_header(file_);
    header.methods = methods_;
    header.device.soc_model = target_.soc_model;
    header.device.arch = target_.arch;
    header.target = target_.name;
    header.device.vtcm_mb = target_.vtcm_mb;
    header.device.hvx_threads = npu_.hvx_threads;
    header.device.optimization_level = npu_.optimization_level;
    header.device.signed_pd = npu_.signed_pd;
    header.device.profile = npu_.profile;
    header.device.weight_shared = shares_weights();
    for (const ShardRange& range : shards_) {
      Shard shard;
      shard.name = range.name;
      const size_t segment = file_.segments.size() + header.shards.size();
      shard.binary = {static_cast<uint32_t>(segment), 0, range.estimated_bytes};
      for (const MethodShape& shape : job_.shapes()) {
        if (range.has_layers()) shard.graphs.push_back({shape.name + "." + shard.name, shape.name, shape.tokens});
        if (range.head) shard.graphs.push_back({"head", shape.name, 1});
      }
      header.shards.push_back(std::move(shard));
    }
    return header;
  }

  Status check_planned_head() const {
    std::vector<PlannedSegment> segments = file_.planned_segments();
    for (const ShardRange& shard : shards_) segments.push_back({segment_name(shard), shard.estimated_bytes});
    return check_header(make_header(), segments);
  }

  // With the shards as they became; adds their segments.
  ArtifactHeader finished_header(const WorkFolder& work) {
    ArtifactHeader header = make_header();
    for (size_t i = 0; i < shards_.size(); ++i) {
      const ShardResult& result = results_[i];
      header.shards[i].binary.size = result.size;
      header.shards[i].checksum = result.hash;
      segments_.push_back({segment_name(shards_[i]), shard_path(work, i), result.hash});
      header.device.spill_fill_bytes = std::max(header.device.spill_fill_bytes, result.spill_fill_bytes);
      header.device.core_version = result.core_version;
      header.device.backend_version = result.backend_version;
      header.device.build_id = result.build_id;
      report_.add(result.report);
      job_.report().weight_bytes += result.size;
      job_.report().shards.push_back(describe_shard(shards_[i].name, result));
    }
    for (const WeightEntry& w : file_.weights) job_.report().weight_bytes += w.bytes();
    if (report_.noise > 0.0) header.metrics.push_back({"weight_sqnr_db", report_.sqnr_db()});
    if (job_.report().estimates)
      std::ranges::move(job_.report().estimates->metrics(), std::back_inserter(header.metrics));
    job_.report().sqnr_db = report_.sqnr_db();
    job_.report().one_weight_set = shares_weights() || job_.shapes().size() == 1;
    return header;
  }

  CompileJob& job_;
  const NpuOptions& npu_;
  const NpuTarget& target_;
  ThreadPool pool_;
  StageTimer stages_;
  std::filesystem::path worker_;
  std::string libraries_;
  std::string build_id_;
  StaticMethods form_;
  std::vector<ShardRange> shards_;
  std::vector<uint64_t> sources_;  // Of the shards.
  uint64_t source_ = 0;            // Of all of it.
  FilePlan file_;
  EncodingTable encodings_;
  std::filesystem::path encodings_path_;
  CalibrationReportExtras page_;
  std::vector<ir::Graph> methods_;
  std::vector<SegmentFile> segments_;
  std::vector<ShardResult> results_;
  QuantizationReport report_;
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;
  uint64_t estimate_bytes_ = 0;  // The share of compiling for a relative in the progress.
};

}  // namespace

Status compile_for_npu(CompileJob& job, const NpuOptions& options) {
  TANDEM_ASSIGN(const NpuTarget target, chosen_target(job.target(), options));
  return NpuCompiler(job, options, target).run();
}

}  // namespace tandem
