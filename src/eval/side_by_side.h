// Models of one file on the same tokens, row by row: the float model, the fake-quantized reference and the device.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "eval/sqnr.h"
#include "eval/tested_model.h"

namespace tandem {

// Calls on_rows(index, each model's logits) for each token, from an empty context. Only the rows of one method call are
// kept at a time, whatever the sequence's length.
using ModelRowsCallback = std::function<Status(size_t index, std::span<const std::span<const float>> rows)>;
Status score_together(std::span<TestedModel* const> models, std::span<const int32_t> tokens,
                      const ModelRowsCallback& on_rows);

// The same of two models: on_rows(index, wanted's logits, got's logits).
using RowsCallback = std::function<Status(size_t index, std::span<const float> wanted, std::span<const float> got)>;
Status score_side_by_side(TestedModel& wanted, TestedModel& got, std::span<const int32_t> tokens,
                          const RowsCallback& on_rows);

// A step at which the most likely tokens differ.
struct Divergence {
  int64_t step = 0;
  int32_t wanted_token = -1;
  int32_t got_token = -1;
  double gap = 0.0;            // Between the wanted model's two largest logits.
  double noise = 0.0;          // Root mean square of the differences of all logits at this step.
  double largest_noise = 0.0;  // The largest of these differences.
};

struct GreedyAgreement {
  int64_t steps = 0;
  int64_t equal = 0;
  double noise = 0.0;  // Root mean square of the differences over all steps.
  std::vector<Divergence> divergences;
};

// Generates `steps` tokens greedily with the wanted model, and compares the other model's argmax after the same tokens.
// End-of-text tokens do not end it; a full context does.
Result<GreedyAgreement> compare_greedy(TestedModel& wanted, TestedModel& got, std::span<const int32_t> prompt,
                                       int64_t steps, const std::function<void(int64_t done)>& on_step = {});

}  // namespace tandem
