#include "eval/phases.h"

#include <algorithm>

#include "base/error.h"
#include "base/format.h"

namespace tandem {
namespace {

TestedModel* find_model(const PhaseModels& models, Phase phase) {
  const auto it = std::ranges::find_if(models, [&](const auto& model) { return model->phase() == phase; });
  return it == models.end() ? nullptr : it->get();
}

class Measurement {
 public:
  Measurement(const PhaseModels& models, const Dataset& dataset, const ProgressCallback& progress)
      : models_(models),
        dataset_(dataset),
        progress_(progress),
        qdq_(find_model(models, Phase::kQdq)),
        device_(find_model(models, Phase::kDevice)) {
    for (const auto& model : models) report_.phases.push_back({model->phase(), {}, {}, {}});
    report_.sequences = dataset.sequences.size();
    report_.text = dataset.text;
    report_.data = dataset.data;
    report_.calibration = calibration_of(models);
  }

  bool compares() const { return qdq_ != nullptr && device_ != nullptr; }
  PhasesReport take() { return std::move(report_); }

  // `kl`: compare with float, which is among the models.
  Status perplexity(bool kl) {
    if (compares()) report_.logits.emplace();
    if (kl) {
      for (PhaseMetrics& metrics : report_.phases) {
        if (metrics.phase != Phase::kFloat) metrics.kl.emplace();
      }
    }
    const auto groups = scored_together(kl);
    for (const std::vector<int32_t>& sequence : dataset_.sequences) {
      if (sequence.size() < 2) continue;
      for (const std::vector<size_t>& group : groups) TANDEM_TRY(score(group, sequence));
    }
    return ok_status();
  }

  Status answers(int64_t limit) {
    for (size_t i = 0; i < models_.size(); ++i) {
      const auto report_progress = [&](Progress progress) {
        progress.stage = str_format("answers, {}", phase_name(models_[i]->phase()));
        if (progress_) progress_(progress);
      };
      TANDEM_ASSIGN(report_.phases[i].answers,
                    ask_questions(*models_[i], dataset_.conversations, limit, report_progress));
    }
    return ok_status();
  }

  Status greedy(int64_t steps, const std::string& prompt_text) {
    TANDEM_ASSIGN(const std::vector<int32_t> prompt, prompt_of(dataset_, prompt_text, *device_));
    TANDEM_ASSIGN(report_.greedy, compare_greedy(*qdq_, *device_, prompt, steps,
                                                 [&](int64_t done) { report_progress("greedy tokens", done, steps); }));
    return ok_status();
  }

  // Over the beginning of the first sequence.
  Status layers(int64_t count) {
    report_progress("layers", 0, 1);
    const std::vector<int32_t>& first =
        *std::ranges::find_if(dataset_.sequences, [](const auto& sequence) { return sequence.size() > 1; });
    const auto tokens = std::span(first).first(std::min(first.size() - 1, static_cast<size_t>(count)));
    TANDEM_ASSIGN(report_.layers, compare_layers(*qdq_, *device_, tokens));
    return ok_status();
  }

 private:
  void report_progress(std::string stage, int64_t done, int64_t total) const {
    if (progress_) progress_({std::move(stage), static_cast<uint64_t>(done), static_cast<uint64_t>(total)});
  }
  // The models whose rows are compared, by their indices.
  std::vector<std::vector<size_t>> scored_together(bool kl) const {
    std::vector<std::vector<size_t>> groups;
    std::vector<size_t> compared;
    for (size_t i = 0; i < models_.size(); ++i) {
      const bool is_compared = kl || (compares() && models_[i]->phase() != Phase::kFloat);
      if (is_compared) {
        compared.push_back(i);
      } else {
        groups.push_back({i});
      }
    }
    if (!compared.empty()) groups.push_back(std::move(compared));
    return groups;
  }

  // The last token of a sequence is only a target.
  Status score(const std::vector<size_t>& group, const std::vector<int32_t>& tokens) {
    std::vector<TestedModel*> models;
    for (const size_t i : group) models.push_back(models_[i].get());
    std::vector<double> sums(group.size());
    return score_together(models, std::span(tokens).first(tokens.size() - 1),
                          [&](size_t at, std::span<const std::span<const float>> rows) -> Status {
                            for (size_t m = 0; m < group.size(); ++m) {
                              sums[m] = log_sum_exp(rows[m]);
                              TANDEM_TRY(report_.phases[group[m]].perplexity.add(rows[m], sums[m], tokens[at + 1]));
                            }
                            compare(group, rows, sums);
                            rows_ += static_cast<int64_t>(group.size());
                            report_progress("perplexity", rows_,
                                            dataset_.scored_tokens() * static_cast<int64_t>(models_.size()));
                            return ok_status();
                          });
  }

  void compare(const std::vector<size_t>& group, std::span<const std::span<const float>> rows,
               std::span<const double> sums) {
    const auto row_of = [&](Phase phase) {
      const auto it = std::ranges::find(group, phase, [&](size_t i) { return models_[i]->phase(); });
      return static_cast<size_t>(it - group.begin());
    };
    const size_t qdq = row_of(Phase::kQdq), device = row_of(Phase::kDevice), exact = row_of(Phase::kFloat);
    if (report_.logits && qdq < group.size() && device < group.size()) report_.logits->add(rows[qdq], rows[device]);
    for (size_t m = 0; m < group.size(); ++m) {
      auto& kl = report_.phases[group[m]].kl;
      if (kl && exact < group.size()) kl->add(rows[exact], sums[exact], rows[m], sums[m]);
    }
  }

  const PhaseModels& models_;
  const Dataset& dataset_;
  const ProgressCallback& progress_;
  TestedModel* qdq_;
  TestedModel* device_;
  PhasesReport report_;
  int64_t rows_ = 0;
};

}  // namespace

const PhaseMetrics* PhasesReport::find(Phase phase) const {
  const auto it = std::ranges::find(phases, phase, &PhaseMetrics::phase);
  return it == phases.end() ? nullptr : &*it;
}

std::optional<double> PhasesReport::ratio_to_float(const PhaseMetrics& metrics) const {
  const PhaseMetrics* exact = find(Phase::kFloat);
  if (exact == nullptr) return std::nullopt;
  return metrics.perplexity.value() / exact->perplexity.value();
}

Result<PhaseModels> open_phases(const std::filesystem::path& path, std::span<const Phase> phases,
                                const TestedModelOptions& options) {
  PhaseModels models;
  for (const Phase phase : phases) {
    if (find_model(models, phase) != nullptr) return invalid_argument("the phase {} is there twice", phase_name(phase));
    TestedModelOptions own = options;
    own.phase = phase;
    TANDEM_ASSIGN(std::unique_ptr<TestedModel> model, TestedModel::open(path, own));
    models.push_back(std::move(model));
  }
  return models;
}

std::string calibration_of(const PhaseModels& models) {
  for (const auto& model : models) {
    if (std::string calibration = model->calibration(); !calibration.empty()) return calibration;
  }
  return {};
}

int64_t smallest_context(const PhaseModels& models) {
  int64_t context = INT64_MAX;
  for (const auto& model : models) context = std::min(context, model->context());
  return context;
}

Result<PhasesReport> measure_phases(const PhaseModels& models, const Dataset& dataset, const PhasesOptions& options,
                                    const ProgressCallback& progress) {
  if (models.empty()) return invalid_argument("no phase to measure");
  Measurement measurement(models, dataset, progress);
  if ((options.greedy > 0 || options.layer_tokens > 0) && !measurement.compares()) {
    return invalid_argument("greedy tokens and layers are compared between qdq and device; give `phases` qdq,device");
  }
  if (options.kl && find_model(models, Phase::kFloat) == nullptr) {
    return invalid_argument("the KL divergence is that from the phase float; measure it too");
  }
  TANDEM_TRY(measurement.perplexity(options.kl));
  if (options.layer_tokens > 0) TANDEM_TRY(measurement.layers(options.layer_tokens));
  if (options.greedy > 0) TANDEM_TRY(measurement.greedy(options.greedy, options.prompt));
  if (options.answers > 0 && !dataset.conversations.empty()) TANDEM_TRY(measurement.answers(options.answers));
  return measurement.take();
}

}  // namespace tandem
