#include "backends/qnn/compile/shard_job.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "artifact/reader.h"
#include "backends/qnn/api/binary_info.h"
#include "backends/qnn/compile/shard_source.h"
#include "backends/qnn/lower/lower.h"
#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/guarded.h"
#include "compiler/tuning/tune_job.h"
#include "weights/sliced_weights.h"
#include "weights/transformed_weights.h"

namespace tandem {
namespace {

constexpr int64_t kChunkWeights = 4 << 20;

uint64_t peak_memory() {
  rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? static_cast<uint64_t>(usage.ru_maxrss) << 10 : 0;
}

// Appends the rows of one chunk to a whole.
void append(WeightMatrix& whole, WeightMatrix&& part) {
  const auto add = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  add(whole.f32, part.f32);
  add(whole.half, part.half);
  add(whole.quantized, part.quantized);
  add(whole.multipliers, part.multipliers);
  add(whole.scales, part.scales);
}

// A checkpoint's weights, quantized on demand.
class QuantizedCheckpoint final : public qnn::LoweringWeights {
 public:
  QuantizedCheckpoint(const ModelPlan& plan, const SourceWeights& weights, const TunedWeights& tuned, ThreadPool& pool)
      : plan_(plan), weights_(weights), tuned_(tuned), sliced_(weights), pool_(pool) {}

  Result<WeightMatrix> matrix(const ir::Tensor& weight) const override {
    const SliceName slice = parse_slice(weight.name);
    const WeightSource& source = *plan_.find_weight(slice.whole);
    const int64_t rows = weight.shape[0], cols = weight.shape[1];
    const int64_t chunk = std::max<int64_t>(kChunkWeights / cols, 1);
    const WeightSpec spec{weight.format, weight.block == 0 ? WeightSpec().block : weight.block};
    WeightMatrix whole;
    whole.format = weight.format;
    whole.rows = rows;
    whole.cols = cols;
    whole.block = weight.block;
    reserve(whole);
    std::vector<float> values;
    for (int64_t row = 0; row < rows; row += chunk) {
      const int64_t count = std::min(chunk, rows - row);
      values.resize(static_cast<size_t>(count * cols));
      TANDEM_TRY(sliced_.read_rows(weight.name, row, count, values.data()));
      weights_.release_rows(source, slice.begin + row, count);
      auto part = tuned_.has(slice.whole)
                      ? tuned_.rows(slice.whole, slice.begin + row, count, weight.format, weight.block)
                      : quantize_matrix(values.data(), count, cols, spec, pool_, {.importance = {}, .first_row = row});
      if (!part.ok()) return with_context(std::move(part).error(), "weight \"{}\"", weight.name);
      report_.add(quantization_report(values.data(), *part));
      append(whole, std::move(part).value());
    }
    return whole;
  }

  Result<std::vector<float>> vector(std::string_view name) const override {
    TANDEM_ASSIGN(std::vector<float> values, sliced_.read_vector(name));
    for (const float value : values) {
      if (!std::isfinite(value)) return corrupt("\"{}\" has a value that is not a number", name);
    }
    return values;
  }

  const QuantizationReport& report() const { return report_; }

 private:
  static void reserve(WeightMatrix& whole) {
    const auto count = static_cast<size_t>(whole.rows * whole.cols);
    switch (whole.format) {
      case WeightFormat::kF32: whole.f32.reserve(count); return;
      case WeightFormat::kF16:
      case WeightFormat::kBF16: whole.half.reserve(count); return;
      case WeightFormat::kI8:
      case WeightFormat::kLpbq4: whole.quantized.reserve(count); return;
    }
  }

  const ModelPlan& plan_;
  const SourceWeights& weights_;
  const TunedWeights& tuned_;
  SlicedWeights sliced_;
  ThreadPool& pool_;
  mutable QuantizationReport report_;
};

Result<ShardResult> write_binary(const ShardJob& job, const std::shared_ptr<const qnn::Context>& context) {
  ShardResult result;
  {
    TANDEM_ASSIGN(const qnn::OwnedBinary binary, context->binary());
    result.size = binary.bytes.size();
    result.hash = binary.checksum;
    TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(job.output));
    TANDEM_TRY(file.write(binary.bytes));
    TANDEM_TRY(file.commit());
    const qnn::Library& library = *context->device()->backend()->library();
    TANDEM_ASSIGN(const qnn::BinaryInfo info, qnn::read_binary_info(library, binary.bytes));
    // By the SoC's number, whatever it was told.
    if (info.arch != job.arch) {
      return unsupported(
          "QNN's library compiles for V{} where the SoC's number is {}, not for V{}; give the number of a "
          "chip of that architecture",
          info.arch, job.soc_model, job.arch);
    }
    result.spill_fill_bytes = info.spill_fill_bytes();
    result.core_version = qnn::version_text(library.core_version());
    result.backend_version = qnn::version_text(library.htp_version());
    result.build_id = library.build_id();
  }
  return result;
}

// Whether a job is valid: what a compile writes always is.
Status check_job(const ShardJob& job, const ModelPlan& plan) {
  constexpr int64_t kMostPositions = int64_t{1} << 24;
  constexpr int kMostThreads = 1024;
  if (job.methods.shapes.empty()) return corrupt("the job has no methods");
  for (const MethodShape& shape : job.methods.shapes) {
    if (shape.tokens < 1 || shape.context < shape.tokens || shape.context > kMostPositions) {
      return corrupt("the job's method \"{}\" has {} tokens in a context of {}", shape.name, shape.tokens,
                     shape.context);
    }
  }
  const auto layers = static_cast<int64_t>(plan.layers.size());
  if (job.shard.layer_begin < 0 || job.shard.layer_end < job.shard.layer_begin || job.shard.layer_end > layers) {
    return corrupt("the job is for the layers {} to {} of a model that has {} layers", job.shard.layer_begin,
                   job.shard.layer_end, layers);
  }
  if (!job.shard.has_layers() && !job.shard.head) return corrupt("the job is for nothing: no layers and no head");
  if (job.output.empty() && !job.estimate) return corrupt("the job is for nothing: no binary and no estimate");
  if (job.threads < 1 || job.threads > kMostThreads) return corrupt("the job is for {} threads", job.threads);
  return ok_status();
}

}  // namespace

Result<std::vector<ir::Graph>> build_static_methods(const ModelPlan& plan, const Recipe& recipe,
                                                    const StaticMethods& methods, const EncodingTable& encodings,
                                                    const DumpCallback& dump) {
  StaticForm form;
  form.attention = methods.variant.attention;
  form.fold_mask = methods.variant.fold_mask;
  form.trace = methods.trace;
  form.embedding_on_host = methods.embedding_on_host;
  form.numbers = methods.f16 ? StaticForm::Numbers::kFloat16 : StaticForm::Numbers::kEncoded;
  form.encodings = &encodings;
  const PassContext context{plan, recipe, {}, &form};
  std::vector<MethodShape> shapes = methods.shapes;
  shapes.push_back({"head", 1, shapes.front().context});
  std::vector<ir::Graph> graphs;
  for (const MethodShape& shape : shapes) {
    ir::Graph graph = build_graph(plan, shape);
    TANDEM_TRY(run_passes(graph, context, shape.name == "head" ? DumpCallback() : dump));
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

namespace {

Result<ShardResult> run_job(const ShardJob& job, const std::function<void(std::string_view)>& stage) {
  const Clock::time_point start = Clock::now();
  TANDEM_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(job.checkpoint, {job.config_name}));
  TANDEM_ASSIGN(const ModelPlan plan, plan_model(checkpoint));
  TANDEM_TRY(check_job(job, plan));
  TANDEM_ASSIGN(const Recipe recipe, Recipe::from_json(job.recipe));
  EncodingTable encodings;
  if (!job.encodings.empty()) {
    TANDEM_ASSIGN(encodings, EncodingTable::load(job.encodings));
  }
  TANDEM_ASSIGN(const std::vector<ir::Graph> methods, build_static_methods(plan, recipe, job.methods, encodings, {}));
  std::vector<ir::Graph> parts;
  if (job.shard.has_layers()) {
    for (size_t i = 0; i + 1 < methods.size(); ++i) {
      TANDEM_ASSIGN(ir::Graph part, extract_layers(methods[i], job.shard));
      parts.push_back(std::move(part));
    }
  }
  if (job.shard.head) {
    TANDEM_ASSIGN(ir::Graph part, extract_lm_head(methods.back()));
    parts.push_back(std::move(part));
  }
  TANDEM_ASSIGN(const auto library, qnn::Library::load({.path = job.libraries}));
  TANDEM_ASSIGN(const auto backend, qnn::Backend::create(library, {.log_level = job.log_level}));
  TANDEM_ASSIGN(const auto device,
                qnn::Device::create(backend, {.soc_model = job.soc_model, .arch = job.arch, .vtcm_mb = job.vtcm_mb}));
  TANDEM_ASSIGN(const auto context, qnn::Context::create(device, {.weight_sharing = job.weight_sharing}));
  TANDEM_ASSIGN(const auto weights, TransformedWeights::create(checkpoint, plan, recipe.transforms));
  TANDEM_ASSIGN(const uint64_t source, hash_shard_source(*weights, plan, job.shard));
  if (source != job.source) {
    return io_error("{} has changed since the compile began; run it again", job.checkpoint.string());
  }
  ThreadPool pool(job.threads);
  TunedWeights tuned;
  if (!job.tuned.empty()) {
    TANDEM_ASSIGN(tuned, open_tuned_weights(job.tuned, static_cast<int64_t>(plan.layers.size())));
  }
  const QuantizedCheckpoint quantized(plan, *weights, tuned, pool);
  std::vector<qnn::NamedGraph> named;
  for (const ir::Graph& part : parts) named.push_back({part.name, &part});
  qnn::LoweringOptions options;
  options.progress = stage;
  options.estimate = job.estimate;
  options.hvx_threads = job.hvx_threads;
  options.optimization_level = job.optimization_level;
  if (job.weight_sharing) options.weight_tile_channels = job.methods.variant.weight_tile_channels;
  TANDEM_ASSIGN(const auto lowered, qnn::lower_graphs(context, named, quantized, options));
  ShardResult result;
  if (!job.output.empty()) {
    stage("writing the binary");
    TANDEM_ASSIGN(result, write_binary(job, context));
  }
  for (const qnn::LoweredGraph& graph : lowered) {
    result.graphs.push_back({graph.name, graph.nodes, graph.build_seconds, graph.finalize_seconds, graph.estimate});
  }
  result.report = quantized.report();
  result.peak_memory = peak_memory();
  result.seconds = seconds_since(start);
  return result;
}

}  // namespace

std::string describe_shard(const std::string& name, const ShardResult& result) {
  std::string graphs;
  for (const ShardResult::GraphResult& graph : result.graphs) {
    graphs += str_format("{}{} {:.1f} s", graphs.empty() ? "" : ", ", graph.name.substr(0, graph.name.find('.')),
                         graph.finalize_seconds);
  }
  return str_format("{}: {} MB; {:.1f} s ({}); {} MB of memory", name, result.size >> 20, result.seconds, graphs,
                    result.peak_memory >> 20);
}

constexpr char kLogMark = '!';

std::string log_line(LogLevel level, std::string_view message) {
  std::string line = str_format("{}{}: {}", kLogMark, log_level_name(level), message);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  }
  return line;
}

std::optional<LogLine> parse_log_line(std::string_view line) {
  if (line.empty() || line.front() != kLogMark) return std::nullopt;
  line.remove_prefix(1);
  for (const LogLevel level : {LogLevel::kError, LogLevel::kWarning, LogLevel::kInfo, LogLevel::kDebug}) {
    const std::string start = std::string(log_level_name(level)) + ": ";
    if (line.starts_with(start)) return LogLine{level, line.substr(start.size())};
  }
  return LogLine{LogLevel::kDebug, line};
}

Result<ShardResult> run_shard_job(const ShardJob& job, const std::function<void(std::string_view)>& stage) {
  return guarded([&] {
    return run_job(
        job, stage ? stage : [](std::string_view) {});
  });
}

}  // namespace tandem
