#include "cli/task_report.h"

#include <cmath>

#include "base/format.h"
#include "cli/eval_report.h"

namespace tandem {
namespace task_report {

Json metrics_json(const TaskReport& report, const TaskMetrics& metrics) {
  Json json = {{"phase", phase_name(metrics.phase)}};
  if (report.is_text) {
    json["word_perplexity"] = metrics.text.word_perplexity(metrics.nats);
    json["byte_perplexity"] = metrics.text.byte_perplexity(metrics.nats);
    json["bits_per_byte"] = metrics.text.bits_per_byte(metrics.nats);
    json["tokens"] = metrics.tokens;
    return json;
  }
  const auto add_accuracy = [&](const std::string& name, int64_t right) {
    json[name] = metrics.accuracy(right);
    const double error = metrics.accuracy_error(right);
    if (!std::isnan(error)) json[name + "_stderr"] = error;
  };
  add_accuracy("acc", metrics.right);
  if (report.has_acc_norm) add_accuracy("acc_norm", metrics.right_norm);
  if (metrics.truncated > 0) json["truncated"] = metrics.truncated;
  return json;
}

std::string percent(const TaskMetrics& metrics, int64_t right) {
  const double error = metrics.accuracy_error(right);
  const std::string value = str_format("{:.2f} %", 100.0 * metrics.accuracy(right));
  return std::isnan(error) ? value : value + str_format(" +- {:.2f}", 100.0 * error);
}

void add_table(const TaskReport& report, std::string& text) {
  if (report.is_text) {
    append_format(text, "{:<8}{:>17}{:>17}{:>15}\n", "phase", "word perplexity", "byte perplexity", "bits per byte");
    for (const TaskMetrics& m : report.phases) {
      append_format(text, "{:<8}{:>17.4f}{:>17.4f}{:>15.4f}\n", phase_name(m.phase), m.text.word_perplexity(m.nats),
                    m.text.byte_perplexity(m.nats), m.text.bits_per_byte(m.nats));
    }
    return;
  }
  append_format(text, "{:<8}{:>18}{:>18}\n", "phase", "acc", report.has_acc_norm ? "acc_norm" : "");
  for (const TaskMetrics& m : report.phases) {
    append_format(text, "{:<8}{:>18}{:>18}\n", phase_name(m.phase), percent(m, m.right),
                  report.has_acc_norm ? percent(m, m.right_norm) : "");
  }
}

}  // namespace task_report

std::string task_text(const TaskReport& report) {
  using namespace task_report;
  std::string text;
  add_table(report, text);
  const TaskMetrics& first = report.phases.front();
  if (report.is_text) {
    append_format(text, "{}: {} documents, {} bytes, {} words\n", report.task, first.items, first.text.bytes,
                  first.text.words);
  } else {
    append_format(text, "{}: {} items\n", report.task, first.items);
  }
  if (first.truncated > 0) {
    append_format(text, "{} items are longer than the context: they lost their beginning\n", first.truncated);
  }
  return text += data_text(report.data, report.calibration);
}

Json task_json(const TaskReport& report, bool is_list) {
  using namespace task_report;
  Json json;
  if (is_list) {
    json["phases"] = Json::array();
    for (const TaskMetrics& metrics : report.phases) json["phases"].push_back(metrics_json(report, metrics));
  } else {
    json = metrics_json(report, report.phases.front());
  }
  const TaskMetrics& first = report.phases.front();
  json["task"] = report.task;
  json[report.is_text ? "documents" : "items"] = first.items;
  if (report.is_text) json["bytes"] = first.text.bytes, json["words"] = first.text.words;
  add_data(report.data, report.calibration, json);
  return json;
}

}  // namespace tandem
