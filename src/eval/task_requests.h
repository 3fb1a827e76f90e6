// Tasks as tokens: what a model is fed and which of its predictions count. As lm-eval 0.4 does it for models of the
// transformers library, so that the figures are the same.
#pragma once

#include <span>
#include <vector>

#include "eval/tested_model.h"
#include "tasks/task.h"

namespace tandem {

// The log-likelihood of the last `scored` of `tokens` is wanted. All but the last token are fed.
struct ScoreRequest {
  std::vector<int32_t> tokens;
  size_t scored = 0;
  bool is_truncated = false;  // The context was too long and lost its beginning.
};

// The continuation after the context. White space at the context's end moves to the continuation, and both are
// tokenized together. `max_length` is the most tokens that can be fed.
Result<ScoreRequest> choice_request(const TestedModel& model, const Choice& choice, int64_t max_length);

// All tokens of a text, in windows of up to `max_length` tokens: each sees the last token of the one before, the first
// the model's prefix token, and the last one, being shorter, as many earlier tokens as fit.
Result<std::vector<ScoreRequest>> rolling_requests(const TestedModel& model, const TextDocument& document,
                                                   int64_t max_length);

}  // namespace tandem
