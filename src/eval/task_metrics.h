// The figures of a task: accuracy of multiple choice, perplexity of texts.
#pragma once

#include "base/progress.h"
#include "eval/phases.h"
#include "eval/task_requests.h"

namespace tandem {

struct TaskMetrics {
  Phase phase = Phase::kFloat;
  int64_t items = 0;      // Items or documents.
  int64_t truncated = 0;  // Items that were longer than the context and lost their beginning.
  // Multiple choice: items whose right answer had the highest log-likelihood, and the highest per character.
  int64_t right = 0;
  int64_t right_norm = 0;
  double log_likelihood = 0.0;  // The sum over all choices of all items.
  // Texts.
  TextSize text;
  double nats = 0.0;
  int64_t tokens = 0;

  double accuracy(int64_t of_right) const { return static_cast<double>(of_right) / static_cast<double>(items); }
  // The standard error of accuracy(of_right); NaN for a single item.
  double accuracy_error(int64_t of_right) const;
};

struct TaskReport {
  std::string task;
  bool has_acc_norm = false;
  bool is_text = false;
  EvaluationData data;
  std::string calibration;          // What the compiled file says about its calibration data.
  std::vector<TaskMetrics> phases;  // In the order of the models.
};

// The task in each phase. `max_length`: see below; 0: the smallest context.
Result<TaskReport> measure_task_phases(const PhaseModels& models, const Task& task, int64_t max_length,
                                       const ProgressCallback& progress);

// `max_length`: the most tokens that the model is fed at once, at most its context. Progress is counted in items.
Result<TaskMetrics> measure_task(TestedModel& model, const Task& task, int64_t max_length,
                                 const ProgressCallback& progress);

}  // namespace tandem
