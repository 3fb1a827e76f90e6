// The same dataset through several phases of a model: float, fake-quantized, and on the device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "eval/dataset.h"
#include "eval/kl_divergence.h"
#include "eval/layer_sqnr.h"
#include "eval/metrics.h"
#include "eval/side_by_side.h"

namespace tandem {

struct PhasesOptions {
  int64_t answers = 0;  // Number of questions from the conversations; 0: none.
  bool kl = false;      // Compare each phase's distributions with those of float, which must be given.
  // The three below compare the phases qdq and device, both of which must be given.
  int64_t greedy = 0;        // Number of greedy tokens.
  std::string prompt = {};   // The prompt for them; "": see prompt_of().
  int64_t layer_tokens = 0;  // Compare layers over this many tokens of the dataset.
};

struct PhaseMetrics {
  Phase phase = Phase::kFloat;
  Perplexity perplexity;
  std::optional<Answers> answers;
  std::optional<KlDivergence> kl;  // From float.
};

struct PhasesReport {
  std::vector<PhaseMetrics> phases;  // In the order of the models.
  size_t sequences = 0;
  std::optional<TextSize> text;  // The dataset's.
  EvaluationData data;
  std::string calibration;     // What the compiled file says about its calibration data.
  std::optional<Sqnr> logits;  // Device against qdq over all scored tokens, if both are given.
  std::optional<GreedyAgreement> greedy;
  std::vector<LayerSqnr> layers;

  const PhaseMetrics* find(Phase phase) const;
  // The phase's perplexity over that of float; nothing if float is absent.
  std::optional<double> ratio_to_float(const PhaseMetrics& metrics) const;
};

// The models of different phases, all opened from one path. `phases` must not name one twice. `options` apply to each.
using PhaseModels = std::vector<std::unique_ptr<TestedModel>>;
Result<PhaseModels> open_phases(const std::filesystem::path& path, std::span<const Phase> phases,
                                const TestedModelOptions& options);
int64_t smallest_context(const PhaseModels& models);
// What the compiled file among them says about its calibration data; "" if nothing.
std::string calibration_of(const PhaseModels& models);

// Progress is counted in tokens, or answers.
Result<PhasesReport> measure_phases(const PhaseModels& models, const Dataset& dataset, const PhasesOptions& options,
                                    const ProgressCallback& progress);

}  // namespace tandem
