#include "runtime/token_runner.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/scope_exit.h"

namespace tandem {

TokenRunner::TokenRunner(Program& program, const MethodTable& table, MethodMemory memory,
                         std::unique_ptr<ExecutionContext> context)
    : program_(&program), table_(&table), memory_(std::move(memory)), context_(std::move(context)) {
  const MethodEntry& any = table.methods().front();
  vocabulary_ = program.method(any.index).at(any.logits_output).shape[1];
  row_.resize(static_cast<size_t>(std::max(vocabulary_, table.hidden_size())));
  computes_argmax_ =
      std::ranges::all_of(table.methods(), [&](const auto& m) { return program.computes_argmax(m.index); });
  if (keeps_history()) history_.reserve(static_cast<size_t>(table.context()));
}

Result<TokenRunner> TokenRunner::create(Program& program, const MethodTable& table) {
  TANDEM_ASSIGN(MethodMemory memory, MethodMemory::allocate(program));
  TANDEM_ASSIGN(auto context, program.new_context());
  return TokenRunner(program, table, std::move(memory), std::move(context));
}

void TokenRunner::write_cache(const MethodEntry& method, int64_t count) {
  const Bindings& bindings = memory_.bindings(method.index);
  for (const CacheWrite& write : method.cache_writes) {
    const auto* rows = static_cast<const uint8_t*>(bindings.data[static_cast<size_t>(write.rows)]);
    auto* cache = static_cast<uint8_t*>(bindings.data[static_cast<size_t>(write.cache)]);
    for (int64_t head = 0; head < write.heads; ++head) {
      std::memcpy(cache + static_cast<size_t>(head * table_->context() + position_) * write.row_bytes,
                  rows + static_cast<size_t>(head * method.tokens) * write.row_bytes,
                  static_cast<size_t>(count) * write.row_bytes);
    }
  }
}

Status TokenRunner::read_rows(const MethodEntry& method, ir::TensorId output, size_t first, size_t done, size_t count,
                              const RowCallback& on_row) {
  const ir::Tensor& tensor = program_->method(method.index).at(output);
  const auto* data = static_cast<const uint8_t*>(memory_.bindings(method.index).data[static_cast<size_t>(output)]);
  const auto width = static_cast<size_t>(tensor.shape[1]);
  for (size_t row = first; row < count; ++row) {
    if (tensor.dtype == DType::kF32) {  // Without a copy: a large vocabulary has half a megabyte of them.
      TANDEM_TRY(on_row(done + row, {reinterpret_cast<const float*>(data) + row * width, width}));
      continue;
    }
    ir::decode_row(tensor.dtype, tensor.encoding, data + dtype_bytes(tensor.dtype, row * width),
                   static_cast<int64_t>(width), row_.data());
    TANDEM_TRY(on_row(done + row, {row_.data(), width}));
  }
  return ok_status();
}

Status TokenRunner::feed(std::span<const int32_t> tokens, Logits wanted, const std::atomic<bool>& stop,
                         const RowCallback& on_row) {
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary_) {
      return invalid_argument("token {} is not in the model's vocabulary of {}", token, vocabulary_);
    }
  }
  if (wanted == Logits::kArgmax && !computes_argmax()) return internal_error("this back end gives logits only");
  if (wanted == Logits::kHidden && table_->hidden_size() == 0) return internal_error("the methods give logits only");
  const auto total = static_cast<int64_t>(tokens.size());
  if (total > table_->context() - position_) {
    return resource_exhausted(
        "{} tokens do not fit: the context has {} positions and {} are used; shorten the text or compile with a larger "
        "`context`",
        total, table_->context(), position_);
  }
  const bool is_long = table_->rope_limit() > 0 && position_ + total > table_->rope_limit();
  if (position_ > 0 && (is_stale_ || is_long != is_long_)) {
    is_long_ = is_long;
    TANDEM_TRY(compute_anew(stop));
  }
  is_long_ = is_long;
  return compute(tokens, wanted, stop, on_row);
}

void TokenRunner::rewind(int64_t position) {
  position_ = position;
  if (position == 0) {
    written_ = 0;
    is_stale_ = false;
  } else if (const auto& ring = table_->ring(); ring && written_ > ring->slots) {
    is_stale_ = is_stale_ || written_ - position > ring->slots - ring->window;
  }
}

Status TokenRunner::compute_anew(const std::atomic<bool>& stop) {
  const int64_t end = position_;
  // Stays set after an error, so that the next call starts over.
  is_stale_ = true;
  const std::vector<int32_t> tokens(history_.begin(), history_.begin() + end);
  position_ = written_ = 0;
  const ScopeExit restore([&] {
    position_ = end;
    history_.assign(tokens.begin(), tokens.end());  // Its capacity is the context.
  });
  TANDEM_TRY(compute(tokens, Logits::kNone, stop, {}));
  is_stale_ = false;
  return ok_status();
}

Status TokenRunner::compute(std::span<const int32_t> tokens, Logits wanted, const std::atomic<bool>& stop,
                            const RowCallback& on_row) {
  for (size_t done = 0; done < tokens.size();) {
    if (stop.load(std::memory_order_relaxed)) return cancelled("stopped");
    const MethodEntry& method = table_->choose(static_cast<int64_t>(tokens.size() - done));
    const size_t count = std::min(tokens.size() - done, static_cast<size_t>(method.tokens));
    const std::span<const int32_t> part = tokens.subspan(done, count);
    Bindings& bindings = memory_.bindings(method.index);
    ir::fill_inputs(program_->method(method.index), method.inputs, {part, position_, is_long_}, bindings);
    const bool is_last = done + count == tokens.size();
    // Rows that are never read need not be computed.
    const bool wants_all = wanted == Logits::kAll || wanted == Logits::kHidden;
    const size_t first = wants_all ? 0 : is_last && wanted != Logits::kNone ? count - 1 : count;
    bindings.first_row = static_cast<int64_t>(first);
    bindings.rows = static_cast<int64_t>(count - first);
    bindings.argmax = is_last && wanted == Logits::kArgmax ? &argmax_ : nullptr;
    bindings.reads_logits = wanted != Logits::kHidden;
    // Even if the call fails, slots of these positions may have been written.
    written_ = std::max(written_, position_ + static_cast<int64_t>(count));
    TANDEM_TRY(context_->run(method.index, bindings));
    if (observer_) {
      TANDEM_TRY(observer_({program_->method(method.index), method, bindings, static_cast<int64_t>(count)}));
    }
    write_cache(method, static_cast<int64_t>(count));
    if (keeps_history()) {
      history_.resize(static_cast<size_t>(position_));
      history_.insert(history_.end(), part.begin(), part.end());
    }
    position_ += static_cast<int64_t>(count);
    const ir::TensorId output = wanted == Logits::kHidden ? method.hidden_output : method.logits_output;
    if (wanted != Logits::kArgmax) TANDEM_TRY(read_rows(method, output, first, done, count, on_row));
    done += count;
  }
  return ok_status();
}

}  // namespace tandem
