#include "runtime/chat_session.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/token_runner.h"
#include "text/sampler.h"
#include "text/stop_strings.h"
#include "text/stream_decoder.h"

namespace tandem {
namespace {

// Turns tokens into text that may be shown: whole characters, nothing of a stop string.
class TextStream {
 public:
  TextStream(const std::optional<Tokenizer>& tokenizer, StopStrings stops, const StreamCallback& callback,
             std::string& text)
      : stops_(std::move(stops)), callback_(callback), text_(text) {
    if (tokenizer) decoder_.emplace(*tokenizer);
  }

  // False: the callback wants no more.
  bool push(int32_t token) { return !decoder_ || emit(stops_.push(decoder_->push(token))); }
  bool finish() {
    if (!decoder_) return true;
    std::string rest = stops_.push(decoder_->flush());
    rest += stops_.flush();
    return emit(rest);
  }
  const std::optional<std::string>& reached() const { return stops_.reached(); }

 private:
  bool emit(const std::string& piece) {
    text_ += piece;
    return piece.empty() || !callback_ || callback_(piece);
  }

  std::optional<StreamDecoder> decoder_;
  StopStrings stops_;
  const StreamCallback& callback_;
  std::string& text_;
};

class ChatSession final : public Session {
 public:
  ChatSession(std::shared_ptr<LoadedEngine> engine, TokenRunner runner)
      : engine_(std::move(engine)), runner_(std::move(runner)) {
    history_.reserve(static_cast<size_t>(engine_->context()) + 1);
  }

  Result<GenerateResult> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                  const StreamCallback& callback) override {
    cancel_.store(false);
    return run(prompt, 0, options, callback);
  }

  Result<GenerateResult> generate_from(std::span<const int32_t> tokens, const GenerateOptions& options,
                                       const StreamCallback& callback) override {
    if (tokens.empty()) return invalid_argument("there is nothing to go on from: the prompt is empty");
    if (static_cast<int64_t>(tokens.size()) > engine_->context()) {
      return resource_exhausted(
          "the prompt has {} tokens and the context {} positions; shorten it or compile with a larger "
          "--context",
          tokens.size(), engine_->context());
    }
    cancel_.store(false);
    auto common = static_cast<size_t>(std::ranges::mismatch(history_, tokens).in2 - tokens.begin());
    common = std::min(common, tokens.size() - 1);  // The last one is computed again, for its logits.
    TANDEM_TRY(rewind(static_cast<int64_t>(common)));
    return run(tokens.subspan(common), static_cast<int64_t>(common), options, callback);
  }

  Result<GenerateResult> generate_chat(std::span<const Message> messages, const GenerateOptions& options,
                                       const StreamCallback& callback) override {
    TANDEM_ASSIGN(const std::string text, engine_->render_chat(messages, true));
    // Templates write their own special tokens; the tokenizer adds none.
    TANDEM_ASSIGN(const std::vector<int32_t> tokens, engine_->encode(text, false));
    return generate_from(tokens, options, callback);
  }

  void cancel() override { cancel_.store(true); }
  std::span<const int32_t> tokens() const override { return history_; }

  Status rewind(int64_t length) override {
    if (length < 0 || length > static_cast<int64_t>(history_.size())) {
      return invalid_argument("cannot go back to {} tokens: the session has {}", length, history_.size());
    }
    history_.resize(static_cast<size_t>(length));
    runner_.rewind(length);
    return ok_status();
  }

  Status score(std::span<const int32_t> tokens,
               const std::function<Status(size_t, std::span<const float>)>& on_row) override {
    TANDEM_TRY(engine_->verify_weights());
    cancel_.store(false);
    return feed(tokens, TokenRunner::Logits::kAll, on_row);
  }

 private:
  // Computes tokens and keeps the history equal to what is in the cache, also after an error.
  Status feed(std::span<const int32_t> tokens, TokenRunner::Logits wanted, const TokenRunner::RowCallback& on_row) {
    const auto before = static_cast<size_t>(runner_.position());
    const Status status = runner_.feed(tokens, wanted, cancel_, on_row);
    const size_t computed = static_cast<size_t>(runner_.position()) - before;
    history_.insert(history_.end(), tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(computed));
    return status;
  }

  Result<GenerateResult> run(std::span<const int32_t> prompt, int64_t reused, const GenerateOptions& options,
                             const StreamCallback& callback) {
    if (prompt.empty()) return invalid_argument("the prompt is empty; give at least one token");
    if (options.max_new_tokens < 0) return invalid_argument("max_new_tokens is {}", options.max_new_tokens);
    TANDEM_ASSIGN(Sampler sampler, Sampler::create(options.sampler));
    TANDEM_ASSIGN(StopStrings stops, StopStrings::create(options.stop_strings));
    const Clock::time_point start = Clock::now();
    TANDEM_TRY(engine_->verify_weights());

    GenerateResult result;
    result.reused_tokens = reused;
    result.prompt_tokens = static_cast<int64_t>(prompt.size());
    TextStream stream(engine_->tokenizer(), std::move(stops), callback, result.text);
    const auto keep = [&](size_t, std::span<const float> logits) {
      logits_.assign(logits.begin(), logits.end());
      return ok_status();
    };
    const int64_t start_position = runner_.position();
    if (Status status = feed(prompt, TokenRunner::Logits::kLast, keep); !status.ok()) {
      if (status.error().code == ErrorCode::kCancelled) {
        result.finish = FinishReason::kCancelled;
        result.prompt_tokens = runner_.position() - start_position;
        return result;
      }
      TANDEM_TRY(rewind(start_position));
      return std::move(status).error();
    }
    result.prompt_seconds = seconds_since(start);
    if (Status status = generate_tokens(options, sampler, stream, start, keep, result); !status.ok()) {
      TANDEM_TRY(rewind(start_position));
      return std::move(status).error();
    }
    return result;
  }

  // The loop: pick a token, show it, compute it. A token is computed only if another one will follow.
  Status generate_tokens(const GenerateOptions& options, Sampler& sampler, TextStream& stream, Clock::time_point start,
                         const TokenRunner::RowCallback& keep, GenerateResult& result) {
    const auto eos = engine_->eos_tokens();
    Clock::time_point first;
    for (;;) {
      if (cancel_.load(std::memory_order_relaxed)) {
        result.finish = FinishReason::kCancelled;
        break;
      }
      TANDEM_ASSIGN(const int32_t token, sampler.sample(logits_, history_));
      if (result.tokens.empty()) {
        first = Clock::now();
        result.first_token_seconds = seconds_since(start);
      }
      if (!options.ignore_eos && std::ranges::find(eos, token) != eos.end()) {
        result.finish = FinishReason::kStop;
        break;
      }
      result.tokens.push_back(token);
      if (!stream.push(token)) {
        result.finish = FinishReason::kCancelled;
        break;
      }
      if (stream.reached()) {
        result.finish = FinishReason::kStop;
        break;
      }
      if (options.max_new_tokens > 0 && static_cast<int64_t>(result.tokens.size()) >= options.max_new_tokens) {
        result.finish = FinishReason::kLength;
        break;
      }
      if (runner_.position() >= engine_->context()) {
        result.finish = FinishReason::kContextFull;
        break;
      }
      if (Status status = feed({&token, 1}, TokenRunner::Logits::kLast, keep); !status.ok()) {
        if (status.error().code != ErrorCode::kCancelled) return status;
        result.finish = FinishReason::kCancelled;
        break;
      }
    }
    if (first != Clock::time_point()) result.decode_seconds = seconds_since(first);
    if (!stream.finish() && result.finish != FinishReason::kStop) result.finish = FinishReason::kCancelled;
    if (stream.reached()) {
      result.finish = FinishReason::kStop;
      result.stop_string = *stream.reached();
    }
    return ok_status();
  }

  std::shared_ptr<LoadedEngine> engine_;
  TokenRunner runner_;
  std::vector<int32_t> history_;
  std::vector<float> logits_;
  std::atomic<bool> cancel_{false};
};

}  // namespace

Result<std::unique_ptr<Session>> make_session(std::shared_ptr<LoadedEngine> engine) {
  TANDEM_ASSIGN(TokenRunner runner, TokenRunner::create(engine->program(), engine->table()));
  return std::unique_ptr<Session>(std::make_unique<ChatSession>(std::move(engine), std::move(runner)));
}

}  // namespace tandem
