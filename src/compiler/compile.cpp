#include "compiler/compile.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <thread>

#include "artifact/reader.h"
#include "artifact/writer.h"
#include "backends/cpu/lower/weight_writer.h"
#include "base/error.h"
#include "base/json.h"
#include "base/version.h"
#include "compiler/logits_range.h"
#include "compiler/segment_plan.h"
#include "compiler/targets.h"
#include "compiler/work_folder.h"
#include "models/builder.h"
#include "models/checkpoint_weights.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

// Weights that are in memory as floats at one time: 16 MB, and as much again for codes and packed rows.
constexpr int64_t kChunkWeights = 4 << 20;
constexpr int64_t kMaxPrefill = 4096;

// Something to find the range of integer logits with, where nobody gave a text.
constexpr std::string_view kSampleText =
    "The weather was cold that morning, and Anna had 3 letters to post before 9:30. \"Shall I come along?\" asked "
    "Tom.\n"
    "def add(a, b):\n    return a + b  # two numbers\n\n1. First, open the window. 2. Then, count: 10, 20, 30.";

class Compiler {
 public:
  Compiler(const std::filesystem::path& output, const CompileOptions& options)
      : output_(output), options_(options), pool_(options.threads) {}

  Result<CompileReport> run(const std::filesystem::path& folder) {
    TANDEM_ASSIGN(const Target* target, find_target(options_.target));
    TANDEM_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(folder, {options_.config_name}));
    TANDEM_ASSIGN(const ModelPlan plan, plan_model(checkpoint));
    report_.warnings = plan.warnings;
    TANDEM_TRY(check_options(plan, *target));
    const CheckpointWeights weights(checkpoint, plan);
    TANDEM_TRY(read_tokenizer(checkpoint, plan));
    TANDEM_TRY(build_methods(plan, weights));
    TANDEM_ASSIGN(file_, plan_file(methods_, tokenizer_ ? tokenizer_->serialize() : std::vector<uint8_t>()));
    TANDEM_TRY(check_disk());
    TANDEM_ASSIGN(WorkFolder work, WorkFolder::open(output_, key(checkpoint)));
    std::vector<SegmentFile> segments;
    for (size_t i = 0; i < file_.segments.size(); ++i) {
      TANDEM_ASSIGN(SegmentFile segment, finish_segment(work, i, plan, weights));
      segments.push_back(std::move(segment));
    }
    tell("writing the file");
    TANDEM_TRY(write_artifact(output_, make_head(checkpoint, plan, *target), segments, [&] { return stopped(); }));
    work.remove();
    return make_report(plan);
  }

 private:
  bool stopped() const { return options_.stop && options_.stop(); }

  void tell(const std::string& stage) const {
    if (options_.progress) options_.progress({stage, done_bytes_, file_.total_bytes()});
  }

  // ---- Before any work ----

  Status check_options(const ModelPlan& plan, const Target& target) {
    context_ = options_.context;
    if (context_ == 0)
      context_ = std::min(plan.max_positions > 0 ? plan.max_positions : kDefaultContext, kDefaultContext);
    if (context_ < 1) return invalid_argument("a context of {} makes no sense; give at least 1", context_);
    if (plan.max_positions > 0 && context_ > plan.max_positions) {
      return invalid_argument("a context of {} is more than the model was made for ({}); use --context {} or less",
                              context_, plan.max_positions, plan.max_positions);
    }
    std::set<int64_t> lengths;
    for (const int64_t length : options_.prefill) {
      if (length < 1 || length > kMaxPrefill) {
        return invalid_argument("a prefill of {} tokens is not possible; give 1 to {}", length, kMaxPrefill);
      }
      if (length == 1) continue;  // That is what decode does.
      // The default lengths adapt to a short context; lengths that somebody asked for do not.
      if (length > context_) {
        if (options_.prefill == CompileOptions().prefill) continue;
        return invalid_argument("a prefill of {} tokens does not fit a context of {}", length, context_);
      }
      lengths.insert(length);
    }
    prefill_.assign(lengths.begin(), lengths.end());

    std::vector<std::string> names;
    for (const WeightSource& weight : plan.weights) {
      names.push_back(weight.name);
      const WeightFormat format = options_.recipe.spec_for(weight.name).format;
      if (std::ranges::find(target.weight_formats, format) == target.weight_formats.end()) {
        return unsupported("target {} cannot do {} weights (\"{}\")", target.name, weight_format_name(format),
                           weight.name);
      }
    }
    for (const std::string& pattern : options_.recipe.unmatched_rules(names)) {
      report_.warnings.push_back(fmt::format("recipe: the rule \"{}\" matches no weight of this model", pattern));
    }
    if (std::ranges::find(target.kv_dtypes, kv_dtype(options_.recipe.kv)) == target.kv_dtypes.end()) {
      return unsupported("target {} cannot keep its KV cache as {}", target.name, kv_format_name(options_.recipe.kv));
    }
    return check_output();
  }

  Status check_output() const {
    std::error_code error;
    if (std::filesystem::is_directory(output_, error)) {
      return invalid_argument("{} is a folder; give a file name, such as {}/model.tdm", output_.string(),
                              output_.string());
    }
    const auto parent = output_.has_parent_path() ? output_.parent_path() : std::filesystem::path(".");
    if (!std::filesystem::is_directory(parent, error)) {
      return invalid_argument("{}: the folder {} does not exist", output_.string(), parent.string());
    }
    return ok_status();
  }

  // The finished segments and the file made of them are on the disk at the same time.
  Status check_disk() const {
    std::error_code error;
    const auto parent = output_.has_parent_path() ? output_.parent_path() : std::filesystem::path(".");
    const auto space = std::filesystem::space(parent, error);
    const uint64_t needed = 2 * file_.total_bytes();
    if (!error && space.available < needed) {
      return resource_exhausted("{} MB of disk are needed in {} and {} MB are free", needed >> 20, parent.string(),
                                space.available >> 20);
    }
    return ok_status();
  }

  Status read_tokenizer(const Checkpoint& checkpoint, const ModelPlan& plan) {
    if (!checkpoint.tokenizer_path()) {
      report_.warnings.push_back("the checkpoint has no tokenizer.json: the file will take token ids, but no text");
      return ok_status();
    }
    auto tokenizer = Tokenizer::from_file(*checkpoint.tokenizer_path());
    if (!tokenizer.ok()) {
      if (tokenizer.error().code != ErrorCode::kUnsupported) return std::move(tokenizer).error();
      report_.warnings.push_back(tokenizer.error().message + ": the file will take token ids, but no text");
      return ok_status();
    }
    if (tokenizer->vocab_size() > plan.vocab_size) {
      report_.warnings.push_back(
          fmt::format("the tokenizer has {} tokens and the model {}; texts with the tokens beyond "
                      "will be refused",
                      tokenizer->vocab_size(), plan.vocab_size));
    }
    tokenizer_ = std::move(tokenizer).value();
    return ok_status();
  }

  // ---- The methods ----

  std::vector<int32_t> sample_tokens(const ModelPlan& plan) const {
    constexpr size_t kMost = 64;
    std::vector<int32_t> tokens;
    if (tokenizer_) {
      if (auto encoded = tokenizer_->encode(kSampleText, true); encoded.ok()) tokens = *std::move(encoded);
    }
    std::erase_if(tokens, [&](int32_t token) { return token >= plan.vocab_size; });
    for (int64_t i = 0; tokens.size() < 16; ++i) tokens.push_back(static_cast<int32_t>(i * 7919 % plan.vocab_size));
    tokens.resize(std::min(tokens.size(), kMost));
    return tokens;
  }

  Status build_methods(const ModelPlan& plan, const CheckpointWeights& weights) {
    PassContext context{plan, options_.recipe};
    if (!dtype_is_float(options_.recipe.logits)) {
      tell("looking at the logits");
      TANDEM_ASSIGN(context.logits_encoding,
                    find_logits_encoding(plan, weights, sample_tokens(plan), options_.recipe.logits, pool_));
    }
    std::vector<MethodShape> shapes = {{"decode", 1, context_}};
    for (const int64_t length : prefill_) shapes.push_back({fmt::format("prefill_{}", length), length, context_});
    for (const MethodShape& shape : shapes) {
      ir::Graph graph = build_graph(plan, shape);
      TANDEM_TRY(run_passes(graph, context, options_.dump_ir));
      methods_.push_back(std::move(graph));
      report_.methods.push_back(shape.name);
    }
    return ok_status();
  }

  // ---- The segments ----

  // Everything that the segments' bytes depend on.
  std::string key(const Checkpoint& checkpoint) const {
    Json segments = Json::array();
    for (const SegmentPlan& segment : file_.segments) segments.push_back({segment.name, segment.size});
    return fmt::format("{} {:016x} {} {} {}", kVersion, checkpoint.fingerprint(), options_.target,
                       options_.recipe.to_json(), dump_json(segments));
  }

  Result<SegmentFile> finish_segment(WorkFolder& work, size_t index, const ModelPlan& plan,
                                     const CheckpointWeights& weights) {
    const SegmentPlan& segment = file_.segments[index];
    const std::filesystem::path path = work.segment_path(index);
    tell(segment.name);
    const FinishedSegment* finished = work.find(segment.name);
    if (finished != nullptr && is_intact(path, *finished)) {
      total_.add(finished->report);
      ++report_.segments_reused;
      done_bytes_ += segment.size;
      return SegmentFile{segment.name, path, finished->hash};
    }
    QuantizationReport report;
    TANDEM_TRY(write_segment(path, segment, plan, weights, report));
    TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
    const FinishedSegment done{file.bytes().size(), hash_bytes(file.bytes()), report};
    TANDEM_TRY(work.add(segment.name, done));
    total_.add(report);
    return SegmentFile{segment.name, path, done.hash};
  }

  static bool is_intact(const std::filesystem::path& path, const FinishedSegment& finished) {
    const auto file = MappedFile::open(path);
    return file.ok() && file->bytes().size() == finished.size && hash_bytes(file->bytes()) == finished.hash;
  }

  Status write_segment(const std::filesystem::path& path, const SegmentPlan& segment, const ModelPlan& plan,
                       const CheckpointWeights& weights, QuantizationReport& report) {
    TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path));
    TANDEM_TRY(file.set_size(segment.size));
    if (!segment.blob.empty()) TANDEM_TRY(file.write_at(0, segment.blob));
    for (const size_t v : segment.vectors) {
      const VectorEntry& entry = file_.vectors[v];
      TANDEM_ASSIGN(const std::vector<float> values, weights.read_vector(entry.name));
      for (const float value : values) {
        if (!std::isfinite(value)) return corrupt("\"{}\" has a value that is not a number", entry.name);
      }
      TANDEM_TRY(file.write_at(entry.data.offset,
                               {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)}));
    }
    uint64_t weight_bytes = 0;
    for (const size_t w : segment.weights) {
      TANDEM_TRY(write_weight(file, segment.name, file_.weights[w], *plan.find_weight(file_.weights[w].name), weights,
                              report, weight_bytes));
    }
    done_bytes_ += segment.size - weight_bytes;
    return file.commit();
  }

  Status write_weight(AtomicFile& file, const std::string& stage, const WeightEntry& entry, const WeightSource& source,
                      const CheckpointWeights& weights, QuantizationReport& report, uint64_t& weight_bytes) {
    const int64_t chunk =
        std::max<int64_t>(kChunkWeights / entry.cols / cpu::kRowGranularity, 1) * cpu::kRowGranularity;
    const WeightSpec spec{entry.format, entry.block == 0 ? WeightSpec().block : entry.block};
    std::vector<float> values;
    for (int64_t row = 0; row < entry.rows; row += chunk) {
      if (stopped()) return cancelled("stopped; the same command goes on where it was");
      const int64_t count = std::min(chunk, entry.rows - row);
      values.resize(static_cast<size_t>(count * entry.cols));
      TANDEM_TRY(weights.read_rows(entry.name, row, count, values.data()));
      weights.release_rows(source, row, count);
      auto matrix =
          quantize_matrix(values.data(), count, entry.cols, spec, pool_, {.importance = {}, .first_row = row});
      if (!matrix.ok()) return with_context(std::move(matrix).error(), "weight \"{}\"", entry.name);
      report.add(quantization_report(values.data(), *matrix));
      TANDEM_TRY(cpu::write_weight_rows(file, entry, row, *matrix));
      const uint64_t all = entry.bytes();
      const auto share = [&](int64_t rows) {
        return all * static_cast<uint64_t>(rows) / static_cast<uint64_t>(entry.rows);
      };
      const uint64_t bytes = share(row + count) - share(row);
      weight_bytes += bytes;
      done_bytes_ += bytes;
      tell(stage);
    }
    return ok_status();
  }

  // ---- The head ----

  ArtifactHead make_head(const Checkpoint& checkpoint, const ModelPlan& plan, const Target& target) const {
    ArtifactHead head;
    head.producer = fmt::format("tandem {}", kVersion);
    head.target = target.name;
    head.backend = target.backend;
    std::error_code ignored;
    const auto folder = std::filesystem::weakly_canonical(checkpoint.folder(), ignored);
    head.model = {folder.filename().string(),
                  std::string(plan.family->name),
                  plan.architecture,
                  plan.vocab_size,
                  plan.hidden_size,
                  static_cast<int64_t>(plan.layers.size()),
                  plan.heads,
                  plan.kv_heads,
                  plan.head_dim,
                  plan.max_positions,
                  plan.parameters};
    head.weights = file_.weights;
    head.vectors = file_.vectors;
    head.methods = methods_;
    head.text = make_text(checkpoint, plan);
    const GenerationConfig& g = checkpoint.generation();
    const GenerationDefaults none;
    head.generation = {g.do_sample.value_or(none.do_sample),
                       static_cast<float>(g.temperature.value_or(none.temperature)),
                       static_cast<int32_t>(g.top_k.value_or(none.top_k)),
                       static_cast<float>(g.top_p.value_or(none.top_p)),
                       static_cast<float>(g.min_p.value_or(none.min_p)),
                       static_cast<float>(g.repetition_penalty.value_or(none.repetition_penalty)),
                       static_cast<int32_t>(g.max_new_tokens.value_or(none.max_new_tokens))};
    head.recipe = options_.recipe.to_json();
    if (total_.noise > 0.0) head.figures.push_back({"weight_sqnr_db", total_.sqnr_db()});
    return head;
  }

  TextInfo make_text(const Checkpoint& checkpoint, const ModelPlan& plan) const {
    TextInfo text;
    const TokenizerConfig& config = checkpoint.tokenizer_config();
    text.has_tokenizer = tokenizer_.has_value();
    text.tokenizer = file_.tokenizer;
    text.chat_template = config.chat_template.value_or("");
    text.bos_token = config.bos_token.value_or("");
    text.eos_token = config.eos_token.value_or("");
    const GenerationConfig& generation = checkpoint.generation();
    const auto in_vocabulary = [&](int64_t id) { return id >= 0 && id < plan.vocab_size; };
    if (generation.bos_token_id && in_vocabulary(*generation.bos_token_id)) {
      text.bos_id = static_cast<int32_t>(*generation.bos_token_id);
    }
    for (const int64_t id : generation.eos_token_ids) {
      if (in_vocabulary(id)) text.eos_ids.push_back(static_cast<int32_t>(id));
    }
    return text;
  }

  Result<CompileReport> make_report(const ModelPlan& plan) {
    std::error_code ignored;
    report_.file_size = std::filesystem::file_size(output_, ignored);
    for (const WeightEntry& w : file_.weights) {
      report_.weight_bytes += w.bytes();
    }
    report_.parameters = plan.parameters;
    report_.context = context_;
    report_.sqnr_db = total_.sqnr_db();
    return std::move(report_);
  }

  const std::filesystem::path& output_;
  const CompileOptions& options_;
  ThreadPool pool_;
  int64_t context_ = 0;
  std::vector<int64_t> prefill_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<ir::Graph> methods_;
  FilePlan file_;
  uint64_t done_bytes_ = 0;
  QuantizationReport total_;
  CompileReport report_;
};

}  // namespace

Result<CompileReport> compile(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                              const CompileOptions& options) {
  return Compiler(output, options).run(checkpoint);
}

}  // namespace tandem
