#include "runtime/chat_session.h"

#include <algorithm>
#include <atomic>

#include "base/clock.h"
#include "base/error.h"
#include "base/guarded.h"
#include "base/scope_exit.h"
#include "generation/reasoning_splitter.h"
#include "generation/sampler.h"
#include "generation/stop_strings.h"
#include "runtime/session_runner.h"
#include "tokenizer/stream_decoder.h"

namespace tandem {
namespace {

// Turns tokens into text that may be shown: whole characters, no part of a stop string, reasoning separate.
class TextStream {
 public:
  TextStream(const LoadedEngine& engine, StopStrings stops, ReasoningSplitter splitter, const GenerateOptions& options,
             const StreamCallback& callback, GenerateResult& result)
      : artifact_(engine.artifact()),
        stops_(std::move(stops)),
        splitter_(std::move(splitter)),
        on_reasoning_(options.on_reasoning),
        callback_(callback),
        result_(result) {
    const std::optional<Tokenizer>& tokenizer = engine.tokenizer();
    if (!tokenizer) return;
    decoder_.emplace(*tokenizer);
    if (!splitter_.splits()) return;
    for (const std::string_view tag : {kThinkBegin, kThinkEnd}) {
      const auto id = tokenizer->token_to_id(tag);
      if (id && tokenizer->is_special(*id)) hidden_tags_.emplace_back(*id, tag);
    }
  }

  // False: the callback wants no more.
  Result<bool> push(int32_t token) {
    if (!decoder_) return true;
    std::string piece = decoder_->push(token);
    // Special tokens are not shown, but these delimit the reasoning.
    for (const auto& [id, tag] : hidden_tags_) {
      if (id == token) piece += tag;
    }
    return emit(splitter_.push(stops_.push(piece)));
  }
  Result<bool> finish() {
    if (!decoder_) return true;
    std::string rest = stops_.push(decoder_->flush());
    rest += stops_.flush();
    TANDEM_ASSIGN(const bool wanted, emit(splitter_.push(rest)));
    TANDEM_ASSIGN(const bool still_wanted, emit(splitter_.flush()));
    return still_wanted && wanted;
  }
  const std::optional<std::string>& reached() const { return stops_.reached(); }

 private:
  Result<bool> emit(const ReasoningSplitter::Pieces& pieces) {
    if (pieces.reasoning.empty() && pieces.answer.empty()) return true;
    TANDEM_TRY(artifact_.check());  // The tokens' text comes out of the mapped file.
    result_.reasoning += pieces.reasoning;
    result_.text += pieces.answer;
    TANDEM_ASSIGN(const bool wanted, show(on_reasoning_, pieces.reasoning));
    if (!wanted) return false;
    return show(callback_, pieces.answer);
  }
  static Result<bool> show(const StreamCallback& callback, std::string_view piece) {
    if (piece.empty() || !callback) return true;
    return guarded_callback([&] { return callback(piece); });
  }

  const Artifact& artifact_;
  std::optional<StreamDecoder> decoder_;
  StopStrings stops_;
  ReasoningSplitter splitter_;
  std::vector<std::pair<int32_t, std::string_view>> hidden_tags_;
  const StreamCallback& on_reasoning_;
  const StreamCallback& callback_;
  GenerateResult& result_;
};

class ChatSession final : public Session {
 public:
  ChatSession(std::shared_ptr<LoadedEngine> engine, SessionRunner runner)
      : engine_(std::move(engine)), runner_(std::move(runner)) {
    history_.reserve(static_cast<size_t>(engine_->context()) + 1);
  }

  Result<GenerateResult> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                  const StreamCallback& callback) override {
    return stoppable(
        [&]() -> Result<GenerateResult> { return run(prompt, 0, ReasoningSplitter(), options, callback); });
  }

  Result<GenerateResult> generate_from(std::span<const int32_t> tokens, const GenerateOptions& options,
                                       const StreamCallback& callback) override {
    return stoppable([&] { return go_on_from(tokens, ReasoningSplitter(), options, callback); });
  }

  Result<GenerateResult> generate_chat(std::span<const Message> messages, const GenerateOptions& options,
                                       const StreamCallback& callback) override {
    return stoppable([&]() -> Result<GenerateResult> {
      if (messages.empty()) return invalid_argument("there are no messages; give at least one");
      TANDEM_ASSIGN(const LoadedEngine::ChatPrompt prompt,
                    engine_->chat_prompt(messages, true, options.template_variables, options.parse_special));
      return go_on_from(prompt.tokens, ReasoningSplitter::after_prompt(prompt.text), options, callback);
    });
  }

  void cancel() override { cancel_.store(true); }
  void clear_cancel() override { cancel_.store(false); }
  std::span<const int32_t> tokens() const override { return history_; }

  Status rewind(int64_t length) override {
    return alone([&]() -> Status {
      if (length < 0 || length > static_cast<int64_t>(history_.size())) {
        return invalid_argument("cannot go back to {} tokens: the session has {}", length, history_.size());
      }
      go_back(length);
      return ok_status();
    });
  }

  Status score(std::span<const int32_t> tokens,
               const std::function<Status(size_t, std::span<const float>)>& on_row) override {
    return stoppable([&]() -> Status {
      TANDEM_TRY(engine_->verify_weights());
      if (!on_row) return feed(tokens, TokenRunner::Logits::kNone, {});
      return feed(tokens, TokenRunner::Logits::kAll, checked(on_row));
    });
  }

  Status embed(std::span<const int32_t> tokens,
               const std::function<Status(size_t, std::span<const float>)>& on_row) override {
    return stoppable([&]() -> Status {
      if (engine_->hidden_size() == 0) {
        return unsupported(
            "the program for {} gives logits and no hidden states; compile the model for a CPU, or name such a program "
            "in `run_on`",
            engine_->target());
      }
      TANDEM_TRY(engine_->verify_weights());
      if (!on_row) return feed(tokens, TokenRunner::Logits::kNone, {});
      return feed(tokens, TokenRunner::Logits::kHidden, checked(on_row));
    });
  }

 private:
  using RowFunction = std::function<Status(size_t, std::span<const float>)>;
  // An exception of the app's function is an error.
  static TokenRunner::RowCallback checked(const RowFunction& on_row) {
    return [&on_row](size_t index, std::span<const float> row) -> Status {
      TANDEM_ASSIGN(Status status, guarded_callback([&] { return on_row(index, row); }));
      return status;
    };
  }

  // One call at a time: a second one, from a callback of the first or from another thread, is refused without effect.
  template <typename Call>
  auto alone(Call&& call) -> decltype(call()) {
    return guarded([&]() -> decltype(call()) {
      if (in_call_.test_and_set(std::memory_order_acquire)) {
        return invalid_argument("the session is in another call; wait until that has returned");
      }
      const ScopeExit leave([&] { in_call_.clear(std::memory_order_release); });
      return call();
    });
  }

  // A call that cancel() stops. Whether the request came before it or while it ran, it ends with the call.
  template <typename Call>
  auto stoppable(Call&& call) -> decltype(call()) {
    return alone([&]() -> decltype(call()) {
      const ScopeExit take_request([&] { cancel_.store(false); });
      return call();
    });
  }

  void go_back(int64_t length) {
    history_.resize(static_cast<size_t>(length));
    runner_.rewind(length);
  }

  // Makes the session hold exactly these tokens and generates from there.
  Result<GenerateResult> go_on_from(std::span<const int32_t> tokens, ReasoningSplitter splitter,
                                    const GenerateOptions& options, const StreamCallback& callback) {
    if (tokens.empty()) return invalid_argument("there is nothing to go on from: the prompt is empty");
    if (static_cast<int64_t>(tokens.size()) > engine_->context()) {
      return resource_exhausted(
          "the prompt has {} tokens and the context {} positions; shorten it or compile with a larger "
          "`context`",
          tokens.size(), engine_->context());
    }
    auto common = static_cast<size_t>(std::ranges::mismatch(history_, tokens).in2 - tokens.begin());
    common = std::min(common, tokens.size() - 1);  // The last one is recomputed for its logits.
    go_back(static_cast<int64_t>(common));
    return run(tokens.subspan(common), static_cast<int64_t>(common), std::move(splitter), options, callback);
  }

  // Computes tokens and keeps the history equal to the cache's contents, even after an error or an exception.
  Status feed(std::span<const int32_t> tokens, TokenRunner::Logits wanted, const TokenRunner::RowCallback& on_row) {
    const ScopeExit keep_history([&, before = runner_.position()] {
      const int64_t computed = runner_.position() - before;
      history_.insert(history_.end(), tokens.begin(), tokens.begin() + computed);  // Its capacity is the context.
    });
    return runner_.feed(tokens, wanted, cancel_, on_row);
  }

  Result<GenerateResult> run(std::span<const int32_t> prompt, int64_t reused, ReasoningSplitter splitter,
                             const GenerateOptions& options, const StreamCallback& callback) {
    if (prompt.empty()) return invalid_argument("the prompt is empty; give at least one token");
    if (options.max_new_tokens < 0) return invalid_argument("max_new_tokens is {}", options.max_new_tokens);
    TANDEM_ASSIGN(Sampler sampler, Sampler::create(options.sampler));
    TANDEM_ASSIGN(StopStrings stops, StopStrings::create(options.stop_strings));
    const Clock::time_point start = Clock::now();
    GenerateResult result;
    if (cancel_.load(std::memory_order_relaxed)) {  // Before all weights are read for their checksums.
      result.finish = FinishReason::kCancelled;
      return result;
    }
    TANDEM_TRY(engine_->verify_weights());
    result.reused_tokens = reused;
    result.prompt_tokens = static_cast<int64_t>(prompt.size());
    TextStream stream(*engine_, std::move(stops), std::move(splitter), options, callback, result);
    const auto keep = [&](size_t, std::span<const float> logits) {
      logits_ = logits;
      return ok_status();
    };
    wanted_ = sampler.consumes_argmax() && runner_.computes_argmax() ? TokenRunner::Logits::kArgmax
                                                                     : TokenRunner::Logits::kLast;
    const int64_t start_position = runner_.position();
    ScopeExit restore([&] { go_back(start_position); });
    if (Status status = feed(prompt, wanted_, keep); !status.ok()) {
      if (status.error().code == ErrorCode::kCancelled) {
        result.finish = FinishReason::kCancelled;
        result.prompt_tokens = runner_.position() - start_position;
        restore.cancel();
        return result;
      }
      return std::move(status).error();
    }
    result.prompt_seconds = seconds_since(start);
    TANDEM_TRY(generate_tokens(options, sampler, stream, start, keep, result));
    restore.cancel();
    return result;
  }

  Result<int32_t> pick(Sampler& sampler) {
    if (wanted_ == TokenRunner::Logits::kArgmax) {
      return Sampler::consume_argmax(runner_.argmax(), static_cast<size_t>(engine_->vocab_size()));
    }
    return sampler.sample(logits_, history_);
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
      TANDEM_ASSIGN(const int32_t token, pick(sampler));
      if (result.tokens.empty()) {
        first = Clock::now();
        result.first_token_seconds = seconds_since(start);
      }
      if (!options.ignore_eos && std::ranges::find(eos, token) != eos.end()) {
        result.finish = FinishReason::kStop;
        break;
      }
      result.tokens.push_back(token);
      TANDEM_ASSIGN(const bool wanted, stream.push(token));
      if (!wanted) {
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
      if (Status status = feed({&token, 1}, wanted_, keep); !status.ok()) {
        if (status.error().code != ErrorCode::kCancelled) return status;
        result.finish = FinishReason::kCancelled;
        break;
      }
    }
    if (first != Clock::time_point()) result.decode_seconds = seconds_since(first);
    TANDEM_ASSIGN(const bool wanted, stream.finish());
    if (!wanted && result.finish != FinishReason::kStop) result.finish = FinishReason::kCancelled;
    if (stream.reached()) {
      result.finish = FinishReason::kStop;
      result.stop_string = *stream.reached();
    }
    return ok_status();
  }

  std::shared_ptr<LoadedEngine> engine_;
  SessionRunner runner_;
  std::vector<int32_t> history_;
  std::span<const float> logits_;                            // Of the token computed last, in the runner's memory.
  TokenRunner::Logits wanted_ = TokenRunner::Logits::kLast;  // What the running call picks tokens from.
  std::atomic<bool> cancel_{false};
  std::atomic_flag in_call_;
};

}  // namespace

Result<std::unique_ptr<Session>> make_session(std::shared_ptr<LoadedEngine> engine) {
  return guarded([&]() -> Result<std::unique_ptr<Session>> {
    TANDEM_ASSIGN(SessionRunner runner, SessionRunner::create(*engine));
    return std::unique_ptr<Session>(std::make_unique<ChatSession>(std::move(engine), std::move(runner)));
  });
}

}  // namespace tandem
