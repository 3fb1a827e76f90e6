// Perplexity and correct answers.
#pragma once

#include <span>

#include "base/progress.h"
#include "chat/conversations.h"
#include "eval/tested_model.h"
#include "numerics/divergence.h"

namespace tandem {

// Sum of -log p(token | the tokens before it) over all tokens but the first of each sequence.
class Perplexity {
 public:
  // The logits at one position and the token that follows.
  Status add(std::span<const float> logits, int32_t target) { return add(logits, log_sum_exp(logits), target); }
  Status add(std::span<const float> logits, double log_sum, int32_t target);
  double value() const;
  double nats() const { return nats_; }  // The sum.
  int64_t tokens() const { return count_; }

 private:
  double nats_ = 0.0;
  int64_t count_ = 0;
};

struct Answers {
  int64_t right = 0;
  int64_t asked = 0;
};
// Asks the second question of each conversation that has one (story, then question), greedily with at most 40 tokens,
// and compares with the conversation's own answer, ignoring white space at the ends.
Result<Answers> ask_questions(TestedModel& model, std::span<const Conversation> conversations, int64_t limit,
                              const ProgressCallback& progress);

}  // namespace tandem
