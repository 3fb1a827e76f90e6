#include "compiler/compile_job.h"

#include <algorithm>
#include <set>

#include "artifact/limits.h"
#include "artifact/reader.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/output_path.h"
#include "base/version.h"
#include "chat/chat_template.h"
#include "checkpoint/checkpoint_tokenizer.h"
#include "compiler/calibration/calibration_input.h"
#include "compiler/source_hash.h"
#include "compiler/target_rules.h"
#include "compiler/tuning/tune_job.h"
#include "quant/calibration_report.h"
#include "weights/transform_rules.h"

namespace tandem {
namespace {

constexpr int64_t kMaxPrefill = 4096;
constexpr const char* kCalibrationPart = "calibration";  // In the work folder.

// Default text for finding ranges.
constexpr std::string_view kSampleText =
    "The weather was cold that morning, and Anna had 3 letters to post before 9:30. \"Shall I come along?\" asked "
    "Tom.\n"
    "def add(a, b):\n    return a + b  # two numbers\n\n1. First, open the window. 2. Then, count: 10, 20, 30.";

// Made absolute first: weakly_canonical() leaves a relative path relative when no part of it exists.
std::filesystem::path resolved(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
}

}  // namespace

Result<std::unique_ptr<CompileJob>> CompileJob::open(const std::filesystem::path& folder,
                                                     const std::filesystem::path& output,
                                                     const CompileOptions& options) {
  TANDEM_ASSIGN(const Target* target, find_target(options.target));
  TANDEM_ASSIGN(Checkpoint checkpoint, Checkpoint::open(folder, {options.config_name}));
  std::unique_ptr<CompileJob> job(new CompileJob(std::move(checkpoint), output, options));
  job->target_ = target;
  TANDEM_ASSIGN(job->plan_, plan_model(job->checkpoint_));
  job->report_.warnings = job->plan_.warnings;
  TANDEM_TRY(job->check_context());
  TANDEM_TRY(job->check_weights());
  TANDEM_TRY(check_bits(options, job->recipe_));
  TANDEM_TRY(job->resolve_transforms());
  TANDEM_TRY(job->check_outputs());
  TANDEM_TRY(job->read_tokenizer());
  job->report_.target = target->name;
  job->report_.context = job->context_;
  job->report_.parameters = job->plan_.parameters;
  job->report_.kv = job->recipe_.kv;
  for (const MethodShape& shape : job->shapes_) job->report_.methods.push_back(shape.name);
  return job;
}

Status CompileJob::check_context() {
  context_ = options_.context;
  if (context_ == 0) {
    context_ = std::min(plan_.max_positions > 0 ? plan_.max_positions : kDefaultContext, kDefaultContext);
  }
  if (context_ < 1) return invalid_argument("a context of {} makes no sense; give at least 1", context_);
  if (plan_.max_positions > 0 && context_ > plan_.max_positions) {
    return invalid_argument("a context of {} is more than the model was made for ({}); use a `context` of {} or less",
                            context_, plan_.max_positions, plan_.max_positions);
  }
  std::set<int64_t> lengths;
  // The default lengths adapt to the target and a short context; lengths that the user chose do not.
  const bool adapts = !options_.prefill_exact && options_.prefill == CompileOptions().prefill;
  const int64_t longest = std::min(context_, compiler_of(*target_).longest_default_prefill());
  for (const int64_t length : options_.prefill) {
    if (length < 1 || length > kMaxPrefill) {
      return invalid_argument("a prefill of {} tokens is not possible; give 1 to {}", length, kMaxPrefill);
    }
    if (length == 1) continue;  // That is decode.
    if (adapts && length > longest) continue;
    if (length > context_) {
      return invalid_argument("a prefill of {} tokens does not fit a context of {}", length, context_);
    }
    lengths.insert(length);
  }
  if (lengths.size() + 1 > kMaxMethods) {
    return invalid_argument("{} prefill lengths are too many: a file can have {} methods, one of which is decode",
                            lengths.size(), kMaxMethods);
  }
  shapes_ = {{"decode", 1, context_}};
  for (const int64_t length : lengths) shapes_.push_back({str_format("prefill_{}", length), length, context_});
  return ok_status();
}

Status CompileJob::check_weights() {
  std::vector<std::string> names;
  for (const WeightSource& weight : plan_.weights) names.push_back(weight.name);
  for (const std::string& pattern : options_.recipe.unmatched_rules(names)) {
    report_.warnings.push_back(str_format("recipe: the rule \"{}\" matches no weight of this model", pattern));
  }
  std::vector<int64_t> prefill;
  for (size_t i = 1; i < shapes_.size(); ++i) prefill.push_back(shapes_[i].tokens);
  return apply_target_rules({*target_, plan_, options_, prefill}, recipe_, report_.warnings);
}

Status CompileJob::resolve_transforms() {
  TANDEM_ASSIGN(weights_, TransformedWeights::create(checkpoint_, plan_, recipe_.transforms));
  // A preset means those that the model allows.
  const auto preset = recipe_preset(options_.recipe.name);
  if (!preset || preset->transforms != recipe_.transforms) {
    report_.warnings.insert(report_.warnings.end(), weights_->notes().begin(), weights_->notes().end());
  }
  std::vector<std::string> repeated;
  recipe_.transforms = applicable_transforms(plan_, recipe_.transforms, repeated);
  return ok_status();
}

Result<uint64_t> CompileJob::checkpoint_hash() {
  if (checkpoint_hash_) return *checkpoint_hash_;
  SourceHash hash;
  for (const WeightSource& weight : plan_.weights) {
    if (stopped()) return cancelled("stopped; the same command goes on where it was");
    TANDEM_TRY(hash.add_weight(*weights_, weight.name));
  }
  for (const VectorSource& vector : plan_.vectors) TANDEM_TRY(hash.add_weight(*weights_, vector.name));
  checkpoint_hash_ = hash.value();
  return *checkpoint_hash_;
}

Result<const CalibrationData*> CompileJob::calibration_data(ThreadPool& pool, const CalibrationNeeds& needs) {
  if (calibration_) return &*calibration_;
  CalibrationNeeds all = needs;
  if (all.tokens == 0) all.tokens = calibration_tokens(*this);
  TANDEM_ASSIGN(calibration_, read_calibration_samples(*this, pool, all));
  report_.calibration = calibration_->describe();
  calibration_record_ = {{"source", calibration_->source}, {"tokens", calibration_->tokens}};
  if (calibration_->file_hash != 0) calibration_record_["hash"] = str_format("{:016x}", calibration_->file_hash);
  if (needs.work != nullptr) {
    TANDEM_TRY(needs.work->add(kCalibrationPart, {0, 0, needs.source, {}, dump_json(calibration_record_)}));
  }
  const auto warning = warning_about_few_tokens(*calibration_, plan_);
  const bool is_tuned = options_.bits || tunes_weights(options_, recipe_, plan_);
  if (warning && (is_tuned || !calibration_->is_sampled())) report_.warnings.push_back(*warning);
  return &*calibration_;
}

std::string CompileJob::calibration_record() const {
  Json record = calibration_record_;
  if (!tuned_.empty()) record["tune"] = tune_name(options_.tune);
  return record.empty() ? std::string() : dump_json(record);
}

void CompileJob::restore_calibration(const WorkFolder& work, uint64_t source) {
  const FinishedSegment* part = work.find(kCalibrationPart, source);
  if (part == nullptr || !calibration_record_.empty()) return;
  auto record = parse_json(part->note, kCalibrationPart);
  if (record.ok() && record->is_object()) calibration_record_ = *std::move(record);
}

// Never overwrites an input, nor a file that tandem did not make.
Status CompileJob::check_outputs() const {
  TANDEM_ASSIGN(std::vector<std::filesystem::path> inputs, checkpoint_.input_files());
  // A compiled file may be in its checkpoint's folder.
  std::erase_if(inputs, looks_like_artifact);
  const CalibrationOptions& calibration = options_.calibration;
  for (const auto& file : {calibration.file, calibration.import_encodings}) {
    if (!file.empty()) inputs.push_back(file);
  }
  inputs.insert(inputs.end(), options_.other_inputs.begin(), options_.other_inputs.end());
  const auto check = [&](const std::filesystem::path& path, std::string_view kind,
                         std::function<bool(const std::filesystem::path&)> may_replace) {
    return check_output_path(
        path, {inputs, std::move(may_replace), kind, "; `force` replaces it whatever it is", options_.force});
  };
  TANDEM_TRY(check(output_, "a compiled file", looks_like_artifact));
  std::vector<std::filesystem::path> outputs = {output_, WorkFolder::path_for(output_, part())};
  const auto check_more = [&](const std::filesystem::path& path, std::string_view kind,
                              std::function<bool(const std::filesystem::path&)> may_replace) -> Status {
    if (path.empty()) return ok_status();
    for (const auto& other : outputs) {
      if (resolved(path) != resolved(other)) continue;
      return invalid_argument("{} would be written twice; give each output a name of its own", path.string());
    }
    outputs.push_back(path);
    return check(path, kind, std::move(may_replace));
  };
  TANDEM_TRY(check_more(calibration.export_encodings, "a file of encodings",
                        [](const auto& path) { return EncodingTable::load(path).ok(); }));
  for (ExtraOutput& extra : compiler_of(*target_).extra_outputs(options_.backend)) {
    TANDEM_TRY(check_more(extra.path, extra.kind, std::move(extra.may_replace)));
  }
  return check_more(calibration.report, "a calibration report", is_calibration_report);
}

Status CompileJob::finish(ArtifactHeader header, std::vector<SegmentFile> segments, WorkFolder work) {
  if (!part().empty()) {
    finished_.emplace(FinishedProgram{std::move(header), std::move(segments), std::move(work)});
    return ok_status();
  }
  if (Status status = write_artifact(output_, std::move(header), segments, write_options(work.folder()));
      !status.ok()) {
    return work.give_up(std::move(status).error());
  }
  work.remove();
  return ok_status();
}

Status CompileJob::check_disk(uint64_t bytes, uint64_t finished) const {
  std::error_code error;
  const auto parent = parent_folder(output_);
  const auto space = std::filesystem::space(parent, error);
  const uint64_t needed = 2 * bytes - std::min(2 * bytes, finished);
  if (!error && space.available < needed) {
    return resource_exhausted("{} MB of disk are needed in {} and {} MB are free", (needed >> 20) + 1, parent.string(),
                              space.available >> 20);
  }
  return ok_status();
}

Status CompileJob::read_tokenizer() {
  auto found = load_checkpoint_tokenizer(checkpoint_);
  if (!found.ok()) {
    if (found.error().code != ErrorCode::kUnsupported) return std::move(found).error();
    report_.warnings.push_back(found.error().message + ": the file will take token ids, but no text");
    return ok_status();
  }
  std::optional<Tokenizer> tokenizer = std::move(found).value();
  if (!tokenizer) {
    report_.warnings.push_back("the checkpoint has no tokenizer: the file will take token ids, but no text");
    return ok_status();
  }
  if (tokenizer->vocab_size() > plan_.vocab_size) {
    report_.warnings.push_back(
        str_format("the tokenizer has {} tokens and the model {}; texts with the tokens beyond will be refused",
                   tokenizer->vocab_size(), plan_.vocab_size));
  }
  tokenizer_ = std::move(tokenizer);
  return ok_status();
}

std::vector<int32_t> CompileJob::sample_tokens(size_t most) const {
  std::vector<int32_t> tokens;
  if (tokenizer_) {
    if (auto encoded = tokenizer_->encode(kSampleText, true); encoded.ok()) tokens = *std::move(encoded);
  }
  std::erase_if(tokens, [&](int32_t token) { return token >= plan_.vocab_size; });
  for (int64_t i = 0; tokens.size() < 16; ++i) tokens.push_back(static_cast<int32_t>(i * 7919 % plan_.vocab_size));
  tokens.resize(std::min(tokens.size(), most));
  return tokens;
}

ArtifactHeader CompileJob::make_header(const FilePlan& file) const {
  ArtifactHeader header;
  header.producer = str_format("tandem {}", kVersion);
  header.target = target_->name;
  header.backend = target_->backend;
  header.model = {checkpoint_.name(), std::string(plan_.family->name),
                  plan_.architecture, plan_.vocab_size,
                  plan_.hidden_size,  static_cast<int64_t>(plan_.layers.size()),
                  plan_.heads,        plan_.kv_heads,
                  plan_.head_dim,     plan_.max_positions,
                  plan_.parameters};
  header.weights = file.weights;
  header.vectors = file.vectors;
  header.text = make_text(file);
  const GenerationConfig& g = checkpoint_.generation();
  const GenerationDefaults none;
  header.generation = {g.do_sample.value_or(none.do_sample),
                       static_cast<float>(g.temperature.value_or(none.temperature)),
                       static_cast<int32_t>(g.top_k.value_or(none.top_k)),
                       static_cast<float>(g.top_p.value_or(none.top_p)),
                       static_cast<float>(g.min_p.value_or(none.min_p)),
                       static_cast<float>(g.repetition_penalty.value_or(none.repetition_penalty)),
                       static_cast<int32_t>(g.max_new_tokens.value_or(none.max_new_tokens))};
  header.recipe = recipe_.to_json();
  header.calibration = calibration_record();
  header.checkpoint = checkpoint_.identity();
  return header;
}

TextInfo CompileJob::make_text(const FilePlan& file) const {
  TextInfo text;
  const TokenizerConfig& config = checkpoint_.tokenizer_config();
  text.has_tokenizer = tokenizer_.has_value();
  text.tokenizer = file.tokenizer;
  text.chat_template = config.chat_template.value_or("");
  text.bos_token = config.bos_token.value_or("");
  text.eos_token = config.eos_token.value_or("");
  text.special_tokens = config.special_tokens;
  text.tool_template = chat_template_source(config).tool_use;
  const GenerationConfig& generation = checkpoint_.generation();
  const auto in_vocabulary = [&](int64_t id) { return id >= 0 && id < plan_.vocab_size; };
  if (generation.bos_token_id && in_vocabulary(*generation.bos_token_id)) {
    text.bos_id = static_cast<int32_t>(*generation.bos_token_id);
  }
  for (const int64_t id : generation.eos_token_ids) {
    if (in_vocabulary(id)) text.eos_ids.push_back(static_cast<int32_t>(id));
  }
  return text;
}

}  // namespace tandem
