#include "cli/eval_report.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace tandem {
namespace {

std::string decibels(double value) {
  if (std::isnan(value)) return "-";
  return std::isinf(value) && value > 0 ? "equal" : str_format("{:.1f}", value);
}

Json json_decibels(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

void add_answers(const PhaseMetrics& metrics, Json& json) {
  if (!metrics.answers) return;
  json["answers_right"] = metrics.answers->right;
  json["answers_asked"] = metrics.answers->asked;
}

void add_kl(const PhaseMetrics& metrics, Json& json) {
  if (!metrics.kl) return;
  json["kl_mean"] = metrics.kl->mean();
  json["kl_p99"] = metrics.kl->percentile(0.99);
  json["top1_agreement"] = metrics.kl->top1_agreement();
}

void add_text_metrics(const std::optional<TextSize>& text, const PhaseMetrics& metrics, Json& json) {
  if (!text) return;
  json["bits_per_byte"] = text->bits_per_byte(metrics.perplexity.nats());
  json["byte_perplexity"] = text->byte_perplexity(metrics.perplexity.nats());
  json["word_perplexity"] = text->word_perplexity(metrics.perplexity.nats());
}

int64_t below_noise(const GreedyAgreement& greedy) {
  return std::ranges::count_if(greedy.divergences, [](const Divergence& p) { return p.gap < p.noise; });
}

void add_greedy_text(const GreedyAgreement& greedy, std::string& text) {
  append_format(text, "greedy tokens of device equal to qdq's: {} of {} (noise of the logits {:.4f} rms)\n",
                greedy.equal, greedy.steps, greedy.noise);
  for (const Divergence& p : greedy.divergences) {
    append_format(text,
                  "  step {}: {} instead of {}; qdq's two best are {:.4f} apart, noise {:.4f} rms, {:.4f} at most\n",
                  p.step, p.got_token, p.wanted_token, p.gap, p.noise, p.largest_noise);
  }
  if (!greedy.divergences.empty()) {
    append_format(text, "  {} of the {} that part are below the noise\n", below_noise(greedy),
                  greedy.divergences.size());
  }
}

Json greedy_json(const GreedyAgreement& greedy) {
  Json divergences = Json::array();
  for (const Divergence& p : greedy.divergences) {
    divergences.push_back({{"step", p.step},
                           {"qdq_token", p.wanted_token},
                           {"device_token", p.got_token},
                           {"top2_gap", p.gap},
                           {"noise_rms", p.noise},
                           {"noise_max", p.largest_noise}});
  }
  return {{"steps", greedy.steps},
          {"equal", greedy.equal},
          {"noise_rms", greedy.noise},
          {"below_noise", below_noise(greedy)},
          {"divergences", std::move(divergences)}};
}

void add_layers_text(const std::vector<LayerSqnr>& layers, std::string& text) {
  append_format(text, "SQNR of device against qdq by layer, dB\n{:>7}{:>10}{:>10}{:>10}\n", "layer", "hidden", "keys",
                "values");
  for (const LayerSqnr& layer : layers) {
    append_format(text, "{:>7}{:>10}{:>10}{:>10}\n", layer.layer, layer.hidden ? decibels(layer.hidden->db()) : "-",
                  decibels(layer.keys.db()), decibels(layer.values.db()));
  }
}

Json layers_json(const std::vector<LayerSqnr>& layers) {
  Json list = Json::array();
  for (const LayerSqnr& layer : layers) {
    Json json = {{"layer", layer.layer},
                 {"keys_sqnr_db", json_decibels(layer.keys.db())},
                 {"values_sqnr_db", json_decibels(layer.values.db())}};
    if (layer.hidden) json["hidden_sqnr_db"] = json_decibels(layer.hidden->db());
    list.push_back(std::move(json));
  }
  return list;
}

void add_phases_text_metrics(const PhasesReport& report, std::string& text) {
  append_format(text, "{:<8}{:>14}{:>16}\n", "phase", "bits per byte", "word perplexity");
  for (const PhaseMetrics& metrics : report.phases) {
    const double nats = metrics.perplexity.nats();
    append_format(text, "{:<8}{:>14.4f}{:>16.4f}\n", phase_name(metrics.phase), report.text->bits_per_byte(nats),
                  report.text->word_perplexity(nats));
  }
}

void add_phases_kl(const PhasesReport& report, std::string& text) {
  append_format(text, "{:<8}{:>12}{:>12}{:>14}\n", "phase", "KL mean", "KL p99", "top-1 agrees");
  for (const PhaseMetrics& metrics : report.phases) {
    if (!metrics.kl) continue;
    append_format(text, "{:<8}{:>12.4f}{:>12.4f}{:>12.2f} %\n", phase_name(metrics.phase), metrics.kl->mean(),
                  metrics.kl->percentile(0.99), 100.0 * metrics.kl->top1_agreement());
  }
}

}  // namespace

std::string data_text(const EvaluationData& data, const std::string& calibration) {
  const auto record = read_calibration_record(calibration);
  return record ? str_format("evaluated on {}; calibrated on {} ({} tokens)\n", data.source, record->source,
                             record->tokens)
                : str_format("evaluated on {}\n", data.source);
}

void add_data(const EvaluationData& data, const std::string& calibration, Json& json) {
  json["data"] = {{"source", data.source}, {"hash", str_format("{:016x}", data.hash)}};
  const auto record = read_calibration_record(calibration);
  if (!record) return;
  json["calibration"] = {{"source", record->source},
                         {"tokens", record->tokens},
                         {"same_data", calibration_overlap(calibration, data.hash)}};
}

std::string one_phase_text(const PhasesReport& report) {
  const PhaseMetrics& metrics = report.phases.back();
  std::string text =
      str_format("perplexity {:.4f} over {} tokens ({} sequences, phase {})\n", metrics.perplexity.value(),
                 metrics.perplexity.tokens(), report.sequences, phase_name(metrics.phase));
  if (report.text) {
    const double nats = metrics.perplexity.nats();
    append_format(text, "bits per byte {:.4f}, perplexity per word {:.4f}\n", report.text->bits_per_byte(nats),
                  report.text->word_perplexity(nats));
  }
  if (metrics.kl) {
    append_format(text,
                  "KL divergence from float: mean {:.4f}, 99th percentile {:.4f}; the same most likely token: "
                  "{:.2f} %\nperplexity to float: {:+.2f} %\n",
                  metrics.kl->mean(), metrics.kl->percentile(0.99), 100.0 * metrics.kl->top1_agreement(),
                  100.0 * (*report.ratio_to_float(metrics) - 1.0));
  }
  if (metrics.answers) {
    text += str_format("answers right: {} of {}\n", metrics.answers->right, metrics.answers->asked);
  }
  return text += data_text(report.data, report.calibration);
}

Json one_phase_json(const PhasesReport& report) {
  const PhaseMetrics& metrics = report.phases.back();
  Json json = {{"phase", phase_name(metrics.phase)},
               {"perplexity", metrics.perplexity.value()},
               {"tokens", metrics.perplexity.tokens()},
               {"sequences", report.sequences}};
  add_text_metrics(report.text, metrics, json);
  add_kl(metrics, json);
  if (metrics.kl) json["ratio_to_float"] = *report.ratio_to_float(metrics);
  add_answers(metrics, json);
  add_data(report.data, report.calibration, json);
  return json;
}

std::string phases_text(const PhasesReport& report) {
  std::string text = str_format("{:<8}{:>12}{:>12}{:>14}\n", "phase", "perplexity", "to float", "answers right");
  for (const PhaseMetrics& metrics : report.phases) {
    const auto ratio = report.ratio_to_float(metrics);
    const bool compares = ratio && metrics.phase != Phase::kFloat;
    append_format(text, "{:<8}{:>12.4f}{:>12}{:>14}\n", phase_name(metrics.phase), metrics.perplexity.value(),
                  compares ? str_format("{:+.2f} %", 100.0 * (*ratio - 1.0)) : "",
                  metrics.answers ? str_format("{} of {}", metrics.answers->right, metrics.answers->asked) : "");
  }
  if (report.text) add_phases_text_metrics(report, text);
  if (std::ranges::any_of(report.phases, [](const PhaseMetrics& metrics) { return metrics.kl.has_value(); })) {
    add_phases_kl(report, text);
  }
  append_format(text, "{} tokens in {} sequences\n", report.phases.front().perplexity.tokens(), report.sequences);
  if (report.logits) {
    append_format(text, "SQNR of device's logits against qdq's: {} dB\n", decibels(report.logits->db()));
  }
  if (report.greedy) add_greedy_text(*report.greedy, text);
  if (!report.layers.empty()) add_layers_text(report.layers, text);
  return text += data_text(report.data, report.calibration);
}

Json phases_json(const PhasesReport& report) {
  Json phases = Json::array();
  for (const PhaseMetrics& metrics : report.phases) {
    Json phase = {{"phase", phase_name(metrics.phase)}, {"perplexity", metrics.perplexity.value()}};
    if (const auto ratio = report.ratio_to_float(metrics)) phase["ratio_to_float"] = *ratio;
    add_text_metrics(report.text, metrics, phase);
    add_kl(metrics, phase);
    add_answers(metrics, phase);
    phases.push_back(std::move(phase));
  }
  Json json = {{"phases", std::move(phases)},
               {"tokens", report.phases.front().perplexity.tokens()},
               {"sequences", report.sequences}};
  if (report.logits) json["logits_sqnr_db"] = json_decibels(report.logits->db());
  if (report.greedy) json["greedy"] = greedy_json(*report.greedy);
  if (!report.layers.empty()) json["layers"] = layers_json(report.layers);
  add_data(report.data, report.calibration, json);
  return json;
}

}  // namespace tandem
