#include "compiler/tuning/tune_job.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "artifact/reader.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "compiler/calibration/choose_activations.h"
#include "compiler/segment_writer.h"
#include "compiler/tuning/choose_bits.h"
#include "compiler/tuning/tune_state_file.h"
#include "compiler/tuning/tune_weights.h"

namespace tandem {
namespace {

// What stopping may cost. A state of this size is saved after every layer.
constexpr double kStateSeconds = 15.0;
constexpr size_t kSmallState = 32 << 20;

std::string part_name(int64_t layer) { return str_format("tuned.{}", layer); }

bool is_tunable(const WeightSource& weight, const Recipe& recipe) {
  return weight.purpose.layer >= 0 && is_quantized(recipe.spec_for(weight.name).format);
}

std::string note_of(const std::vector<TunedWeight>& weights) {
  Json list = Json::array();
  const auto number = [](double db) { return std::isfinite(db) ? Json(db) : Json(); };
  for (const TunedWeight& w : weights) {
    list.push_back({{"name", w.name},
                    {"format", weight_format_name(w.spec.format)},
                    {"block", w.spec.block},
                    {"weights", w.weights},
                    {"before", number(w.before_db)},
                    {"after", number(w.after_db)}});
  }
  return dump_json(list);
}

// Written by note_of(): anything else is treated as not finished.
std::optional<std::vector<TunedWeight>> read_note(const std::string& note) {
  const auto list = parse_json(note, "note");
  if (!list.ok() || !list->is_array()) return std::nullopt;
  std::vector<TunedWeight> weights;
  for (const Json& item : *list) {
    const auto format = weight_format_from_name(item.value("format", ""));
    if (!format) return std::nullopt;
    const auto number = [&](const char* key) {
      return item.contains(key) && item[key].is_number() ? item[key].get<double>()
                                                         : std::numeric_limits<double>::infinity();
    };
    weights.push_back({item.value("name", ""),
                       {*format, item.value("block", 0)},
                       item.value("weights", int64_t{0}),
                       number("before"),
                       number("after")});
  }
  return weights;
}

std::string note_of_bits(const BitsChoice& choice) {
  Json weights = Json::object();
  for (const BitsChoice::Weight& weight : choice.weights) weights[weight.name] = weight.kl;
  return dump_json(Json{{"recipe", choice.recipe.to_json()}, {"bits", choice.bits}, {"kl", std::move(weights)}});
}

// False if it is no such note.
bool take_bits(const std::string& note, CompileJob& job) {
  const auto json = parse_json(note, "note");
  if (!json.ok() || !json->is_object() || !json->contains("kl") || !(*json)["kl"].is_object()) return false;
  auto recipe = Recipe::from_json(json->value("recipe", ""));
  if (!recipe.ok()) return false;
  job.resolve_recipe(std::move(recipe).value());
  job.report().bits = json->value("bits", 0.0);
  for (const auto& [name, kl] : (*json)["kl"].items()) {
    if (kl.is_number()) job.report().sensitivities[name] = kl.get<double>();
  }
  return true;
}

class JobTuner {
 public:
  JobTuner(CompileJob& job, WorkFolder& work, uint64_t source, ThreadPool& pool)
      : job_(job), work_(work), source_(source), pool_(pool), layers_(static_cast<int64_t>(job.plan().layers.size())) {}

  Status run() {
    find_finished();
    if (static_cast<int64_t>(finished_.size()) < layers_) TANDEM_TRY(tune_rest());
    job_.restore_calibration(work_, source_);
    for (std::vector<TunedWeight>& layer : finished_) std::ranges::move(layer, std::back_inserter(job_.report().tuned));
    TANDEM_ASSIGN(TunedWeights tuned, open_tuned_weights(work_.folder(), layers_));
    job_.set_tuned(std::move(tuned));
    return ok_status();
  }

 private:
  // The leading layers that an earlier run has finished.
  void find_finished() {
    for (int64_t layer = 0; layer < layers_; ++layer) {
      const FinishedSegment* part = work_.find(part_name(layer), source_);
      if (part == nullptr || !is_intact(work_.tuned_path(layer), *part)) return;
      auto weights = read_note(part->note);
      if (!weights) return;
      finished_.push_back(*std::move(weights));
      ++job_.report().segments_reused;
    }
  }

  Status tune_rest() {
    TANDEM_ASSIGN(const CalibrationData* data, job_.calibration_data(pool_, {.work = &work_, .source = source_}));
    const bool full = job_.options().tune == Tune::kFull;
    TuneJob tuning{.plan = job_.plan(),
                   .weights = job_.weights(),
                   .recipe = job_.recipe(),
                   .samples = data->samples,
                   .feedback = {.candidates = full ? 6 : 4, .rounds = full ? 3 : 1}};
    tuning.on_layer = [&](int64_t layer, auto weights) { return keep(layer, std::move(weights)); };
    tuning.save_state = [&](const TuneState& state) { return keep_state(state); };
    tuning.progress = job_.options().progress;
    tuning.stop = job_.options().stop;
    tuning.resume = find_state();
    // Without their activations, finished layers are computed again.
    if (!tuning.resume) finished_.clear();
    if (tuning.resume) finished_.resize(static_cast<size_t>(tuning.resume->next_layer));
    return tune_weights(std::move(tuning), pool_);
  }

  Status keep(int64_t layer, std::vector<std::pair<TunedWeight, WeightMatrix>> weights) {
    std::vector<std::pair<std::string, WeightMatrix>> matrices;
    std::vector<TunedWeight> described;
    for (auto& [what, matrix] : weights) {
      matrices.emplace_back(what.name, std::move(matrix));
      described.push_back(std::move(what));
    }
    const std::filesystem::path path = work_.tuned_path(layer);
    TANDEM_TRY(write_tuned_file(path, matrices));
    TANDEM_TRY(add(part_name(layer), path, note_of(described)));
    finished_.push_back(std::move(described));
    return ok_status();
  }

  Status add(const std::string& name, const std::filesystem::path& path, const std::string& note) {
    TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
    TANDEM_TRY(work_.add(name, {file.bytes().size(), hash_bytes(file.bytes()), source_, {}, note}));
    return file.check();
  }

  Status keep_state(const TuneState& state) {
    size_t bytes = 0;
    for (const std::vector<float>& rows : state.rows) bytes += rows.size() * sizeof(float);
    const bool is_due = bytes <= kSmallState || seconds_since(saved_) >= kStateSeconds;
    if (state.next_layer == layers_ || !is_due) return ok_status();
    TANDEM_TRY(write_tune_state(work_.tuning_state_path(), state));
    saved_ = Clock::now();
    return add("tuning state", work_.tuning_state_path(), {});
  }

  std::optional<TuneState> find_state() const {
    const FinishedSegment* part = work_.find("tuning state", source_);
    if (part == nullptr || !is_intact(work_.tuning_state_path(), *part)) return std::nullopt;
    auto state = read_tune_state(work_.tuning_state_path());
    if (!state.ok() || state->next_layer > static_cast<int64_t>(finished_.size())) return std::nullopt;
    return std::move(state).value();
  }

  CompileJob& job_;
  WorkFolder& work_;
  uint64_t source_ = 0;
  ThreadPool& pool_;
  int64_t layers_ = 0;
  std::vector<std::vector<TunedWeight>> finished_;  // By layer.
  Clock::time_point saved_ = Clock::now();
};

}  // namespace

bool tunes_weights(const CompileOptions& options, const Recipe& recipe, const ModelPlan& plan) {
  if (options.tune == Tune::kNone) return false;
  return std::ranges::any_of(plan.weights, [&](const WeightSource& weight) { return is_tunable(weight, recipe); });
}

Status check_bits(const CompileOptions& options, const Recipe& recipe) {
  if (!options.bits) return ok_status();
  if (!std::isfinite(*options.bits)) return invalid_argument("`bits` is not a number; give 4.125 to 8");
  if (recipe.weights.format != WeightFormat::kLpbq4) {
    return invalid_argument("`bits` is for recipes with lpbq4 weights, and {} has {}; use `recipe` w4, or leave it out",
                            recipe.name, weight_format_name(recipe.weights.format));
  }
  return ok_status();
}

Status resolve_bits(CompileJob& job, WorkFolder& work, bool whole_blocks, ThreadPool& pool) {
  if (!job.options().bits) return ok_status();
  constexpr const char* kPart = "recipe";
  TANDEM_ASSIGN(const uint64_t source, job.checkpoint_hash());
  if (const FinishedSegment* part = work.find(kPart, source)) {
    if (take_bits(part->note, job)) {
      job.restore_calibration(work, source);
      ++job.report().segments_reused;
      return ok_status();
    }
  }
  TANDEM_ASSIGN(const CalibrationData* data, job.calibration_data(pool, {.work = &work, .source = source}));
  const BitsJob choosing{job.plan(),   job.weights(), job.recipe(),           *job.options().bits,
                         whole_blocks, data->samples, job.options().progress, job.options().stop};
  TANDEM_ASSIGN(const BitsChoice choice, choose_bits(choosing, pool));
  const std::string note = note_of_bits(choice);
  TANDEM_TRY(work.add(kPart, {0, 0, source, {}, note}));
  if (!take_bits(note, job)) return internal_error("the recipe within the budget cannot be read");
  return ok_status();
}

std::string tuning_key(const CompileOptions& options) {
  return str_format("tune {} bits {}", tune_name(options.tune), options.bits.value_or(0.0));
}

int64_t calibration_tokens(const CompileJob& job) {
  // Sampled tokens cost a pass over the model each, and tuning three more.
  constexpr int64_t kOperations[] = {0, 7'000'000'000'000, 28'000'000'000'000};
  constexpr int64_t kFewest = 4096, kMost[] = {0, 40960, 65536};
  const CompileOptions& options = job.options();
  const bool is_tuned = tunes_weights(options, job.recipe(), job.plan());
  if (!is_tuned && !options.bits) return 0;
  const auto level = static_cast<size_t>(is_tuned ? options.tune : Tune::kFast);
  const int64_t affordable = kOperations[level] / std::max<int64_t>(2 * job.plan().parameters, 1);
  return std::clamp(affordable, kFewest, kMost[level]);
}

bool reads_calibration_data(const CompileJob& job) {
  return leaves_activations_open(job.recipe(), job.plan()) || job.options().bits ||
         tunes_weights(job.options(), job.recipe(), job.plan());
}

Status tune_job_weights(CompileJob& job, WorkFolder& work, ThreadPool& pool) {
  if (!tunes_weights(job.options(), job.recipe(), job.plan())) return ok_status();
  TANDEM_ASSIGN(const uint64_t source, job.checkpoint_hash());
  return JobTuner(job, work, source, pool).run();
}

Result<TunedWeights> open_tuned_weights(const std::filesystem::path& folder, int64_t layers) {
  TunedWeights tuned;
  for (int64_t layer = 0; layer < layers; ++layer) {
    TANDEM_TRY(tuned.add_file(WorkFolder::tuned_path(folder, layer)));
  }
  return tuned;
}

}  // namespace tandem
