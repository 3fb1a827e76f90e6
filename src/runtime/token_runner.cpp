#include "runtime/token_runner.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tandem {
namespace {

struct MaskShape {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t context = 0;
  int64_t first = 0;  // Position of row 0.
  int64_t count = 0;  // Rows from there on are padding and see nothing.
};

// Row i sees the slots up to and including `first` + i. Where the call's own rows stand behind the slots, it sees the
// slots before `first` and the own rows up to its own.
template <typename Element>
void fill_rows(Element* mask, const MaskShape& shape, const ir::MaskCodes& codes) {
  const auto visible = static_cast<Element>(codes.visible), masked = static_cast<Element>(codes.masked);
  const bool rows_behind = shape.columns > shape.context;
  for (int64_t i = 0; i < shape.rows; ++i) {
    Element* row = mask + i * shape.columns;
    std::fill_n(row, shape.columns, masked);
    if (i >= shape.count) continue;
    std::fill_n(row, rows_behind ? shape.first : shape.first + i + 1, visible);
    if (rows_behind) std::fill_n(row + shape.context, i + 1, visible);
  }
}

}  // namespace

TokenRunner::TokenRunner(Program& program, const MethodTable& table, MethodMemory memory,
                         std::unique_ptr<ExecutionContext> context)
    : program_(&program), table_(&table), memory_(std::move(memory)), context_(std::move(context)) {
  const MethodEntry& any = table.methods().front();
  logits_.resize(static_cast<size_t>(program.method(any.index).at(any.logits_output).shape[1]));
}

Result<TokenRunner> TokenRunner::create(Program& program, const MethodTable& table) {
  TANDEM_ASSIGN(MethodMemory memory, MethodMemory::allocate(program));
  TANDEM_ASSIGN(auto context, program.new_context());
  return TokenRunner(program, table, std::move(memory), std::move(context));
}

void TokenRunner::fill_mask(const MethodEntry& method, int64_t count) {
  void* mask = memory_.bindings(method.index).data[static_cast<size_t>(method.mask_input)];
  const MaskShape shape{method.tokens, method.mask_columns, table_->context(), position_, count};
  switch (method.mask_element_bytes) {
    case 1: fill_rows(static_cast<uint8_t*>(mask), shape, method.mask_codes); return;
    case 2: fill_rows(static_cast<uint16_t*>(mask), shape, method.mask_codes); return;
    default: fill_rows(static_cast<uint32_t*>(mask), shape, method.mask_codes); return;
  }
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

void TokenRunner::fill_inputs(const MethodEntry& method, std::span<const int32_t> tokens) {
  const Bindings& bindings = memory_.bindings(method.index);
  auto* ids = static_cast<int32_t*>(bindings.data[static_cast<size_t>(method.token_input)]);
  auto* positions = static_cast<int32_t*>(bindings.data[static_cast<size_t>(method.position_input)]);
  for (int64_t i = 0; i < method.tokens; ++i) {
    const bool real = i < static_cast<int64_t>(tokens.size());
    ids[i] = real ? tokens[static_cast<size_t>(i)] : 0;
    positions[i] = real ? static_cast<int32_t>(position_ + i) : -1;
  }
  fill_mask(method, static_cast<int64_t>(tokens.size()));
}

Status TokenRunner::read_rows(const MethodEntry& method, size_t first, size_t done, size_t count,
                              const RowCallback& on_row) {
  const ir::Tensor& tensor = program_->method(method.index).at(method.logits_output);
  const auto* data =
      static_cast<const uint8_t*>(memory_.bindings(method.index).data[static_cast<size_t>(method.logits_output)]);
  for (size_t row = first; row < count; ++row) {
    ir::decode_row(tensor.dtype, tensor.encoding, data + dtype_bytes(tensor.dtype, row * logits_.size()),
                   static_cast<int64_t>(logits_.size()), logits_.data());
    TANDEM_TRY(on_row(done + row, logits_));
  }
  return ok_status();
}

Status TokenRunner::feed(std::span<const int32_t> tokens, Logits wanted, const std::atomic<bool>& stop,
                         const RowCallback& on_row) {
  const auto vocabulary = static_cast<int64_t>(logits_.size());
  for (const int32_t token : tokens) {
    if (token < 0 || token >= vocabulary) {
      return invalid_argument("token {} is not in the model's vocabulary of {}", token, vocabulary);
    }
  }
  const auto total = static_cast<int64_t>(tokens.size());
  if (total > table_->context() - position_) {
    return resource_exhausted(
        "{} tokens do not fit: the context has {} positions and {} are used; shorten the text or compile with a larger "
        "--context",
        total, table_->context(), position_);
  }
  for (size_t done = 0; done < tokens.size();) {
    if (stop.load(std::memory_order_relaxed)) return cancelled("stopped");
    const MethodEntry& method = table_->choose(static_cast<int64_t>(tokens.size() - done));
    const size_t count = std::min(tokens.size() - done, static_cast<size_t>(method.tokens));
    fill_inputs(method, tokens.subspan(done, count));
    Bindings& bindings = memory_.bindings(method.index);
    const bool is_last = done + count == tokens.size();
    // Rows that nobody will read need not be computed.
    const size_t first = wanted == Logits::kAll ? 0 : is_last ? count - 1 : count;
    bindings.first_row = static_cast<int64_t>(first);
    bindings.rows = static_cast<int64_t>(count - first);
    TANDEM_TRY(context_->run(method.index, bindings));
    if (observer_) {
      TANDEM_TRY(observer_({program_->method(method.index), method, bindings, static_cast<int64_t>(count)}));
    }
    write_cache(method, static_cast<int64_t>(count));
    position_ += static_cast<int64_t>(count);
    TANDEM_TRY(read_rows(method, first, done, count, on_row));
    done += count;
  }
  return ok_status();
}

}  // namespace tandem
