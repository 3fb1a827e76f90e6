// Computes tokens at the next positions: fills a method's inputs by its metadata, runs it, reads its logits.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "ir/method_memory.h"
#include "runtime/method_table.h"

namespace tandem {

// A call of a method that has just ended, for whoever wants to look at its outputs.
struct MethodCall {
  const ir::Graph& graph;
  const MethodEntry& method;
  const Bindings& bindings;
  int64_t count = 0;  // Rows of tokens; those behind them are padding.
};

class TokenRunner {
 public:
  // The program and the table must outlive it.
  static Result<TokenRunner> create(Program& program, const MethodTable& table);

  enum class Logits { kLast, kAll };
  using RowCallback = std::function<Status(size_t index, std::span<const float> logits)>;

  // Computes `tokens` at position(), position() + 1, ... and calls on_row with the logits of the last or of all of
  // them. `stop` is looked at between calls of a method; then the error is kCancelled. After an error, position() tells
  // how many tokens are in the cache: those of the calls that were complete.
  Status feed(std::span<const int32_t> tokens, Logits wanted, const std::atomic<bool>& stop, const RowCallback& on_row);

  // Sees every call from now on; an error ends feed(). Nothing removes it.
  using CallObserver = std::function<Status(const MethodCall& call)>;
  void observe_calls(CallObserver observer) { observer_ = std::move(observer); }

  int64_t position() const { return position_; }
  // Positions from there on are free again. What they held is masked, then overwritten.
  void rewind(int64_t position) { position_ = position; }
  uint64_t memory_bytes() const { return memory_.total_bytes(); }

 private:
  TokenRunner(Program& program, const MethodTable& table, MethodMemory memory,
              std::unique_ptr<ExecutionContext> context);

  void fill_inputs(const MethodEntry& method, std::span<const int32_t> tokens);
  void fill_mask(const MethodEntry& method, int64_t count);
  // Writes the rows that a call gave to their slots.
  void write_cache(const MethodEntry& method, int64_t count);
  Status read_rows(const MethodEntry& method, size_t first, size_t done, size_t count, const RowCallback& on_row);

  Program* program_;
  const MethodTable* table_;
  MethodMemory memory_;
  std::unique_ptr<ExecutionContext> context_;
  int64_t position_ = 0;
  std::vector<float> logits_;
  CallObserver observer_;
};

}  // namespace tandem
