// The same material through several phases of a model: float, fake-quantized, and on the device.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "eval/dataset.h"
#include "eval/layer_sqnr.h"
#include "eval/measures.h"
#include "eval/side_by_side.h"

namespace tandem {

struct PhasesOptions {
  int64_t answers = 0;  // So many questions of the conversations; 0: none.
  // The three below compare the phases qdq and device, which then must both be there.
  int64_t greedy = 0;        // So many greedy tokens.
  std::string prompt = {};   // What they answer; "": see prompt_of().
  int64_t layer_tokens = 0;  // Layers, over so many tokens of the material.
};

struct PhaseMetrics {
  Phase phase = Phase::kFloat;
  Perplexity perplexity;
  std::optional<Answers> answers;
};

struct PhasesReport {
  std::vector<PhaseMetrics> phases;  // In the order of the models.
  size_t sequences = 0;
  std::optional<Sqnr> logits;  // Of device against qdq over all scored tokens, where both are there.
  std::optional<GreedyAgreement> greedy;
  std::vector<LayerSqnr> layers;

  const PhaseMetrics* find(Phase phase) const;
  // The phase's perplexity over that of float; nothing where float is absent.
  std::optional<double> ratio_to_float(const PhaseMetrics& figures) const;
};

// The models of different phases, opened on one model. `phases` must not name one twice. `options` are those of each.
using PhaseModels = std::vector<std::unique_ptr<TestedModel>>;
Result<PhaseModels> open_phases(const std::filesystem::path& path, std::span<const Phase> phases,
                                const TestedModelOptions& options);
int64_t smallest_context(const PhaseModels& models);

// Progress is told in tokens, or answers.
Result<PhasesReport> measure_phases(const PhaseModels& models, const Dataset& material, const PhasesOptions& options,
                                    const ProgressCallback& progress);

}  // namespace tandem
