#include "eval/side_by_side.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

Status check_alike(const TestedModel& wanted, const TestedModel& got) {
  if (wanted.vocab_size() == got.vocab_size()) return ok_status();
  return invalid_argument("models with vocabularies of {} and {} cannot be compared", wanted.vocab_size(),
                          got.vocab_size());
}

int32_t best_of(std::span<const float> logits) {
  return static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
}

Divergence describe_divergence(int64_t step, std::span<const float> wanted, std::span<const float> got) {
  Divergence divergence{.step = step, .wanted_token = best_of(wanted), .got_token = best_of(got)};
  float second = -INFINITY;
  double squares = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (static_cast<int32_t>(i) != divergence.wanted_token) second = std::max(second, wanted[i]);
    const double difference = std::abs(static_cast<double>(got[i]) - wanted[i]);
    squares += difference * difference;
    divergence.largest_noise = std::max(divergence.largest_noise, difference);
  }
  divergence.gap = static_cast<double>(wanted[static_cast<size_t>(divergence.wanted_token)]) - second;
  divergence.noise = std::sqrt(squares / static_cast<double>(wanted.size()));
  return divergence;
}

}  // namespace

Status score_together(std::span<TestedModel* const> models, std::span<const int32_t> tokens,
                      const ModelRowsCallback& on_rows) {
  int64_t part = 1;
  for (TestedModel* model : models) {
    TANDEM_TRY(check_alike(*models.front(), *model));
    model->restart();
    // Parts as long as the longest call: all models then make the same calls as for the whole sequence.
    part = std::max(part, model->longest_call());
  }
  const auto vocabulary = static_cast<size_t>(models.front()->vocab_size());
  // The last model's rows are used as they come.
  std::vector<std::vector<float>> kept(models.size() - 1);
  std::vector<std::span<const float>> rows(models.size());
  for (size_t done = 0; done < tokens.size();) {
    const auto now = tokens.subspan(done, std::min(static_cast<size_t>(part), tokens.size() - done));
    for (size_t m = 0; m < kept.size(); ++m) {
      kept[m].resize(now.size() * vocabulary);
      TANDEM_TRY(models[m]->feed(now, TokenRunner::Logits::kAll, [&](size_t i, std::span<const float> logits) {
        std::ranges::copy(logits, kept[m].begin() + static_cast<std::ptrdiff_t>(i * vocabulary));
        return ok_status();
      }));
    }
    TANDEM_TRY(models.back()->feed(now, TokenRunner::Logits::kAll, [&](size_t i, std::span<const float> logits) {
      for (size_t m = 0; m < kept.size(); ++m) rows[m] = std::span(kept[m]).subspan(i * vocabulary, vocabulary);
      rows.back() = logits;
      return on_rows(done + i, rows);
    }));
    done += now.size();
  }
  return ok_status();
}

Status score_side_by_side(TestedModel& wanted, TestedModel& got, std::span<const int32_t> tokens,
                          const RowsCallback& on_rows) {
  TestedModel* const models[] = {&wanted, &got};
  return score_together(models, tokens, [&](size_t i, std::span<const std::span<const float>> rows) {
    return on_rows(i, rows[0], rows[1]);
  });
}

Result<GreedyAgreement> compare_greedy(TestedModel& wanted, TestedModel& got, std::span<const int32_t> prompt,
                                       int64_t steps, const std::function<void(int64_t done)>& on_step) {
  TANDEM_TRY(check_alike(wanted, got));
  if (prompt.empty()) return invalid_argument("the prompt has no tokens; give one with `prompt`");
  GreedyAgreement agreement;
  Sqnr noise;
  std::vector<float> rows[2];
  const auto keep_in = [](std::vector<float>& row) {
    return [&row](size_t, std::span<const float> logits) {
      row.assign(logits.begin(), logits.end());
      return ok_status();
    };
  };
  wanted.restart();
  got.restart();
  const int64_t positions_left = std::min(wanted.context(), got.context()) - static_cast<int64_t>(prompt.size());
  std::vector<int32_t> next(prompt.begin(), prompt.end());
  for (int64_t step = 0; step < std::min(steps, positions_left + 1); ++step) {
    TANDEM_TRY(wanted.feed(next, TokenRunner::Logits::kLast, keep_in(rows[0])));
    TANDEM_TRY(got.feed(next, TokenRunner::Logits::kLast, keep_in(rows[1])));
    noise.add(rows[0], rows[1]);
    const int32_t best = best_of(rows[0]);
    ++agreement.steps;
    if (best == best_of(rows[1])) {
      ++agreement.equal;
    } else {
      agreement.divergences.push_back(describe_divergence(step, rows[0], rows[1]));
    }
    next = {best};
    if (on_step) on_step(step + 1);
  }
  if (noise.count > 0) agreement.noise = std::sqrt(noise.noise / static_cast<double>(noise.count));
  return agreement;
}

}  // namespace tandem
