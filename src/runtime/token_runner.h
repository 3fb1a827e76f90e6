// Computes tokens at the next positions: fills a method's inputs by its metadata, runs it, reads its logits.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backends/interface/method_memory.h"
#include "runtime/method_table.h"

namespace tandem {

// A method call that has just ended, for observers of its outputs.
struct MethodCall {
  const ir::Graph& graph;
  const MethodEntry& method;
  const Bindings& bindings;
  int64_t count = 0;  // Rows of tokens; those after them are padding.
};

class TokenRunner {
 public:
  // The program and the table must outlive it.
  static Result<TokenRunner> create(Program& program, const MethodTable& table);

  enum class Logits {
    kNone,
    kLast,
    kAll,
    kHidden,  // None, but the final norm's output for all of them. Only where the table has a hidden_size().
    kArgmax,  // Only the argmax of the last token's, for argmax(). Only where computes_argmax().
  };
  using RowCallback = std::function<Status(size_t index, std::span<const float> row)>;

  // Computes `tokens` at position(), position() + 1, ... and calls on_row with the logits of the last or of all of
  // them, or with the hidden states; those of the last stay valid until the next feed(). `stop` is checked between
  // method calls, and ends feed() with kCancelled. After an error, position() is the number of tokens in the cache:
  // those of the calls that completed.
  Status feed(std::span<const int32_t> tokens, Logits wanted, const std::atomic<bool>& stop, const RowCallback& on_row);

  // Whether the back end finds the argmax itself, so that logits need no memory.
  bool computes_argmax() const { return computes_argmax_ && !observer_; }
  // After a feed() for Logits::kArgmax: the first token with the largest logit, or -1 if no logit is above -infinity.
  int32_t argmax() const { return argmax_; }

  // Sees every call from now on; an error from it ends feed(). It cannot be removed.
  using CallObserver = std::function<Status(const MethodCall& call)>;
  void observe_calls(CallObserver observer) { observer_ = std::move(observer); }

  int64_t position() const { return position_; }
  // Frees positions from there on. Their contents are masked, then overwritten. Where a ring has dropped positions that
  // earlier tokens see, the next feed() recomputes those tokens.
  void rewind(int64_t position);
  // Goes on at a position whose rows somebody else has written to the cache (KvTransfer).
  void continue_at(int64_t position) {
    position_ = position;
    written_ = std::max(written_, position);
  }
  MethodMemory& memory() { return memory_; }
  uint64_t memory_bytes() const { return memory_.total_bytes(); }

 private:
  TokenRunner(Program& program, const MethodTable& table, MethodMemory memory,
              std::unique_ptr<ExecutionContext> context);

  Status compute(std::span<const int32_t> tokens, Logits wanted, const std::atomic<bool>& stop,
                 const RowCallback& on_row);
  // Recomputes the contents of the cache.
  Status compute_anew(const std::atomic<bool>& stop);
  bool keeps_history() const { return table_->rope_limit() > 0 || table_->ring().has_value(); }
  // Writes a call's output rows to their slots.
  void write_cache(const MethodEntry& method, int64_t count);
  // Passes rows [first, count) of an output on.
  Status read_rows(const MethodEntry& method, ir::TensorId output, size_t first, size_t done, size_t count,
                   const RowCallback& on_row);

  Program* program_;
  const MethodTable* table_;
  MethodMemory memory_;
  std::unique_ptr<ExecutionContext> context_;
  int64_t position_ = 0;
  int64_t written_ = 0;           // Positions written since the cache was last computed from its start.
  bool is_long_ = false;          // Which rotary table the cache was computed with.
  bool is_stale_ = false;         // The cache is not what the tokens before position() would produce.
  std::vector<int32_t> history_;  // The tokens in the cache, if they may be needed again.
  int64_t vocabulary_ = 0;
  std::vector<float> row_;  // Logits or a hidden state as floats.
  bool computes_argmax_ = false;
  int32_t argmax_ = -1;
  CallObserver observer_;
};

}  // namespace tandem
