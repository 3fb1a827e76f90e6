#include "runtime/token_runner.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

// Rows of a mask: row i sees the slots up to and including `first` + i; rows from `count` on are padding and see none.
template <typename Element>
void fill_rows(Element* mask, int64_t rows, int64_t context, int64_t first, int64_t count, const ir::MaskCodes& codes) {
  const auto visible = static_cast<Element>(codes.visible), masked = static_cast<Element>(codes.masked);
  for (int64_t i = 0; i < rows; ++i) {
    Element* row = mask + i * context;
    const int64_t seen = i < count ? first + i + 1 : 0;
    std::fill_n(row, seen, visible);
    std::fill_n(row + seen, context - seen, masked);
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
  const int64_t context = table_->context();
  switch (method.mask_element_bytes) {
    case 1: fill_rows(static_cast<uint8_t*>(mask), method.tokens, context, position_, count, method.mask_codes); return;
    case 2:
      fill_rows(static_cast<uint16_t*>(mask), method.tokens, context, position_, count, method.mask_codes);
      return;
    default:
      fill_rows(static_cast<uint32_t*>(mask), method.tokens, context, position_, count, method.mask_codes);
      return;
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
    position_ += static_cast<int64_t>(count);
    TANDEM_TRY(read_rows(method, first, done, count, on_row));
    done += count;
  }
  return ok_status();
}

}  // namespace tandem
