// Computes a session's tokens: on one program, or prompts on one and single tokens on another, with the rows of the KV
// cache handed over whenever the other takes its turn (EngineOptions::decode_on).
#pragma once

#include <optional>

#include "runtime/kv_transfer.h"
#include "runtime/loaded_engine.h"
#include "runtime/token_runner.h"

namespace tandem {

class SessionRunner {
 public:
  // The engine must outlive it.
  static Result<SessionRunner> create(LoadedEngine& engine);

  // As those of TokenRunner.
  Status feed(std::span<const int32_t> tokens, TokenRunner::Logits wanted, const std::atomic<bool>& stop,
              const TokenRunner::RowCallback& on_row);
  bool computes_argmax() const {
    return decode_ ? decode_->runner.computes_argmax() : prompt_.runner.computes_argmax();
  }
  int32_t argmax() const { return argmax_; }
  int64_t position() const { return prompt_is_current_ ? prompt_.runner.position() : decode_->runner.position(); }
  void rewind(int64_t position);

 private:
  struct Side {
    TokenRunner runner;
    int64_t rows = 0;  // Leading positions whose rows are in its cache.
  };

  SessionRunner(LoadedEngine& engine, TokenRunner prompt) : engine_(&engine), prompt_{std::move(prompt)} {}
  // Makes it current: its cache gets the rows that it lacks.
  Side& take_turn(bool is_prompt);

  LoadedEngine* engine_;
  Side prompt_;
  std::optional<Side> decode_;
  bool prompt_is_current_ = true;
  int32_t argmax_ = -1;
};

}  // namespace tandem
