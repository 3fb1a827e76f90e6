#include "runtime/session_runner.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

// As Bindings::argmax.
int32_t argmax_of(std::span<const float> logits) {
  int32_t best = -1;
  float largest = -INFINITY;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > largest) {
      largest = logits[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

}  // namespace

Result<SessionRunner> SessionRunner::create(LoadedEngine& engine) {
  TANDEM_ASSIGN(TokenRunner prompt, TokenRunner::create(engine.program(), engine.table()));
  SessionRunner runner(engine, std::move(prompt));
  if (const LoadedEngine::DecodeProgram* decode = engine.decode_program()) {
    TANDEM_ASSIGN(TokenRunner decoder, TokenRunner::create(*decode->program, decode->table));
    runner.decode_.emplace(Side{std::move(decoder)});
  }
  return runner;
}

SessionRunner::Side& SessionRunner::take_turn(bool is_prompt) {
  const int64_t position = this->position();
  Side& side = is_prompt ? prompt_ : *decode_;
  Side& other = is_prompt ? *decode_ : prompt_;
  if (side.rows < position) {
    const LoadedEngine::DecodeProgram& decode = *engine_->decode_program();
    const KvTransfer& transfer = is_prompt ? decode.to_prompt : decode.from_prompt;
    transfer.copy(other.runner.memory(), side.runner.memory(), side.rows, position, engine_->pool());
    side.rows = position;
  }
  side.runner.continue_at(position);
  prompt_is_current_ = is_prompt;
  return side;
}

Status SessionRunner::feed(std::span<const int32_t> tokens, TokenRunner::Logits wanted, const std::atomic<bool>& stop,
                           const TokenRunner::RowCallback& on_row) {
  Side& side = decode_ ? take_turn(tokens.size() > 1) : prompt_;
  Status status;
  if (wanted == TokenRunner::Logits::kArgmax && !side.runner.computes_argmax()) {
    // The other program does, and the caller asks one for both.
    status = side.runner.feed(tokens, TokenRunner::Logits::kLast, stop, [&](size_t, std::span<const float> logits) {
      argmax_ = argmax_of(logits);
      return ok_status();
    });
  } else {
    status = side.runner.feed(tokens, wanted, stop, on_row);
    argmax_ = side.runner.argmax();
  }
  side.rows = side.runner.position();
  return status;
}

void SessionRunner::rewind(int64_t position) {
  prompt_.rows = std::min(prompt_.rows, position);
  if (decode_) decode_->rows = std::min(decode_->rows, position);
  (prompt_is_current_ ? prompt_ : *decode_).runner.rewind(position);
}

}  // namespace tandem
