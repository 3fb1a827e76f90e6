#include "eval/task_metrics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "eval/metrics.h"

namespace tandem {
namespace {

// Log-likelihoods of requests. What a request has in common with the one before stays in the cache: the choices of an
// item mostly differ only at the end.
class RequestScorer {
 public:
  explicit RequestScorer(TestedModel& model) : model_(model) {}

  // Sum of log p of the scored tokens.
  Result<double> score(const ScoreRequest& request) {
    const auto fed = std::span(request.tokens).first(request.tokens.size() - 1);
    const size_t context = fed.size() - request.scored;  // Tokens whose logits nobody needs.
    const auto common = static_cast<size_t>(std::ranges::mismatch(fed, cached_).in1 - fed.begin());
    const size_t begin = std::min(common, context);
    cached_.clear();  // Unknown if feeding fails.
    model_.rewind(static_cast<int64_t>(begin));
    if (begin < context) {
      TANDEM_TRY(model_.feed(fed.subspan(begin, context - begin), TokenRunner::Logits::kNone, {}));
    }
    Perplexity perplexity;
    TANDEM_TRY(model_.feed(fed.subspan(context), TokenRunner::Logits::kAll, [&](size_t i, std::span<const float> row) {
      return perplexity.add(row, request.tokens[context + i + 1]);
    }));
    cached_.assign(fed.begin(), fed.end());
    return -perplexity.nats();
  }

 private:
  TestedModel& model_;
  std::vector<int32_t> cached_;
};

class TaskMeasurement {
 public:
  TaskMeasurement(TestedModel& model, const Task& task, int64_t max_length)
      : model_(model), scorer_(model), max_length_(max_length) {
    metrics_.phase = model.phase();
    metrics_.items = static_cast<int64_t>(std::max(task.items.size(), task.documents.size()));
  }
  const TaskMetrics& metrics() const { return metrics_; }

  Status add(const ChoiceItem& item) {
    size_t best = 0, best_norm = 0;
    double highest = 0.0, highest_norm = 0.0;
    bool is_truncated = false;
    for (size_t i = 0; i < item.choices.size(); ++i) {
      TANDEM_ASSIGN(const ScoreRequest request, choice_request(model_, item.choices[i], max_length_));
      TANDEM_ASSIGN(const double likelihood, scorer_.score(request));
      const double per_character = likelihood / static_cast<double>(item.choices[i].length);
      // The first of equal ones, as numpy's argmax.
      if (i == 0 || likelihood > highest) highest = likelihood, best = i;
      if (i == 0 || per_character > highest_norm) highest_norm = per_character, best_norm = i;
      is_truncated |= request.is_truncated;
      metrics_.log_likelihood += likelihood;
    }
    metrics_.right += best == item.gold;
    metrics_.right_norm += best_norm == item.gold;
    metrics_.truncated += is_truncated;
    return ok_status();
  }

  Status add(const TextDocument& document) {
    TANDEM_ASSIGN(const std::vector<ScoreRequest> requests, rolling_requests(model_, document, max_length_));
    for (const ScoreRequest& request : requests) {
      TANDEM_ASSIGN(const double likelihood, scorer_.score(request));
      metrics_.nats -= likelihood;
      metrics_.tokens += static_cast<int64_t>(request.scored);
    }
    metrics_.text.bytes += document.bytes;
    metrics_.text.words += document.words;
    return ok_status();
  }

 private:
  TestedModel& model_;
  RequestScorer scorer_;
  int64_t max_length_;
  TaskMetrics metrics_;
};

}  // namespace

double TaskMetrics::accuracy_error(int64_t of_right) const {
  if (items < 2) return std::nan("");
  const double p = accuracy(of_right);
  return std::sqrt(p * (1.0 - p) / static_cast<double>(items - 1));
}

Result<TaskMetrics> measure_task(TestedModel& model, const Task& task, int64_t max_length,
                                 const ProgressCallback& progress) {
  if (max_length < 1 || max_length > model.context()) {
    return invalid_argument("a `window` of {} does not fit the context of {}", max_length, model.context());
  }
  TaskMeasurement measurement(model, task, max_length);
  const auto total = static_cast<uint64_t>(measurement.metrics().items);
  uint64_t done = 0;
  const auto report = [&] {
    if (progress) progress({str_format("{}, {}", task.name, phase_name(model.phase())), done, total});
  };
  report();
  const auto add_all = [&](const auto& list, const char* kind) -> Status {
    for (const auto& entry : list) {
      if (Status status = measurement.add(entry); !status.ok()) {
        return with_context(std::move(status).error(), "{} {} of {}", kind, done + 1, task.source);
      }
      ++done;
      report();
    }
    return ok_status();
  };
  TANDEM_TRY(add_all(task.items, "item"));
  TANDEM_TRY(add_all(task.documents, "document"));
  return measurement.metrics();
}

Result<TaskReport> measure_task_phases(const PhaseModels& models, const Task& task, int64_t max_length,
                                       const ProgressCallback& progress) {
  TaskReport report;
  report.task = task.name;
  report.has_acc_norm = task.has_acc_norm;
  report.is_text = !task.documents.empty();
  report.data = {task.source, task.hash};
  report.calibration = calibration_of(models);
  for (const auto& model : models) {
    TANDEM_ASSIGN(report.phases.emplace_back(),
                  measure_task(*model, task, max_length > 0 ? max_length : smallest_context(models), progress));
  }
  return report;
}

}  // namespace tandem
