#include "eval/metrics.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

Status Perplexity::add(std::span<const float> logits, double log_sum, int32_t target) {
  if (target < 0 || target >= static_cast<int64_t>(logits.size())) {
    return invalid_argument("token {} is not in the model's vocabulary of {}", target, logits.size());
  }
  nats_ += log_sum - logits[static_cast<size_t>(target)];
  ++count_;
  return ok_status();
}

double Perplexity::value() const { return count_ == 0 ? std::nan("") : std::exp(nats_ / static_cast<double>(count_)); }

Result<Answers> ask_questions(TestedModel& model, std::span<const Conversation> conversations, int64_t limit,
                              const ProgressCallback& progress) {
  constexpr int64_t kAnswerTokens = 40;
  Answers answers;
  for (const Conversation& conversation : conversations) {
    if (answers.asked >= limit) break;
    if (conversation.size() < 4) continue;
    TANDEM_ASSIGN(const std::string text, model.render_chat(std::span(conversation).first(3), true));
    TANDEM_ASSIGN(const std::vector<int32_t> prompt, model.encode(text, false));
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, model.generate_greedy(prompt, kAnswerTokens));
    TANDEM_ASSIGN(const std::string answer, model.decode(tokens));
    ++answers.asked;
    if (trimmed(answer) == trimmed(conversation[3].content)) ++answers.right;
    if (progress) progress({"answers", static_cast<uint64_t>(answers.asked), static_cast<uint64_t>(limit)});
  }
  return answers;
}

}  // namespace tandem
