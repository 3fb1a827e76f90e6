#include "eval/task_requests.h"

#include <algorithm>

#include "base/error.h"
#include "tasks/python_text.h"

namespace tandem {
namespace {

// With the tokenizer's own special tokens, unless the text begins with the prefix token already.
Result<std::vector<int32_t>> encode_request(const TestedModel& model, std::string_view text) {
  const auto prefix = model.prefix_token();
  const bool has_prefix = prefix.ok() && !prefix->text.empty() && text.starts_with(prefix->text);
  return model.encode(text, !has_prefix);
}

struct EncodedPair {
  std::vector<int32_t> tokens;
  size_t context = 0;  // Tokens of the context.
};

Result<EncodedPair> encode_pair(const TestedModel& model, const Choice& choice) {
  EncodedPair pair;
  if (choice.context.empty()) {
    TANDEM_ASSIGN(const PrefixToken prefix, model.prefix_token());
    TANDEM_ASSIGN(pair.tokens, model.encode(choice.continuation, false));
    if (pair.tokens.empty() || pair.tokens.front() != prefix.id) pair.tokens.insert(pair.tokens.begin(), prefix.id);
    pair.context = 1;
    return pair;
  }
  TANDEM_ASSIGN(pair.tokens, encode_request(model, choice.context + choice.continuation));
  TANDEM_ASSIGN(const std::vector<int32_t> context, encode_request(model, python_rstrip(choice.context)));
  pair.context = context.size();
  return pair;
}

}  // namespace

Result<ScoreRequest> choice_request(const TestedModel& model, const Choice& choice, int64_t max_length) {
  TANDEM_ASSIGN(EncodedPair pair, encode_pair(model, choice));
  if (pair.context == 0) return invalid_argument("the context has no tokens");
  if (pair.tokens.size() <= pair.context) return invalid_argument("the answer has no tokens of its own");
  ScoreRequest request;
  request.scored = pair.tokens.size() - pair.context;
  const auto most = static_cast<size_t>(max_length) + 1;  // The last token is only a target.
  if (request.scored >= most) {
    return resource_exhausted("the answer has {} tokens and the context {}; compile with a larger `context`",
                              request.scored, max_length);
  }
  if (pair.tokens.size() > most) {
    request.is_truncated = true;
    pair.tokens.erase(pair.tokens.begin(), pair.tokens.end() - static_cast<std::ptrdiff_t>(most));
  }
  request.tokens = std::move(pair.tokens);
  return request;
}

Result<std::vector<ScoreRequest>> rolling_requests(const TestedModel& model, const TextDocument& document,
                                                   int64_t max_length) {
  TANDEM_ASSIGN(const PrefixToken prefix, model.prefix_token());
  TANDEM_ASSIGN(std::vector<int32_t> tokens, encode_request(model, document.text));
  tokens.insert(tokens.begin(), prefix.id);
  const auto window = static_cast<size_t>(max_length);
  std::vector<ScoreRequest> requests;
  for (size_t done = 1; done < tokens.size();) {
    const size_t end = std::min(done + window, tokens.size());
    // Fed are up to `window` tokens before the last of these.
    const size_t begin = end - 1 > window ? end - 1 - window : 0;
    ScoreRequest request;
    request.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                          tokens.begin() + static_cast<std::ptrdiff_t>(end));
    request.scored = end - done;
    requests.push_back(std::move(request));
    done = end;
  }
  return requests;
}

}  // namespace tandem
