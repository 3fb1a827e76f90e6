#include "runtime/method_table.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

// "k_new.3" is written to "k_cache.3".
Result<CacheWrite> read_cache_write(const ir::Graph& graph, ir::TensorId output) {
  const ir::Tensor& rows = graph.at(output);
  std::string name = rows.name;
  const auto cache = graph.find(name.replace(1, 4, "_cache"));
  if (!cache || graph.at(*cache).role != ir::TensorRole::kState) {
    return corrupt("method \"{}\" gives \"{}\" and has no \"{}\" to keep it in", graph.name, rows.name, name);
  }
  const ir::Tensor& state = graph.at(*cache);
  const bool fits = rows.shape.size() == 3 && state.shape.size() == 3 && rows.shape[0] == state.shape[0] &&
                    rows.shape[1] == graph.tokens && state.shape[1] == graph.context &&
                    rows.shape[2] == state.shape[2] && rows.dtype == state.dtype && rows.encoding == state.encoding;
  if (!fits) return corrupt("method \"{}\": \"{}\" does not fit \"{}\"", graph.name, rows.name, state.name);
  return CacheWrite{output, *cache, rows.shape[0], dtype_bytes(rows.dtype, static_cast<size_t>(rows.shape[2]))};
}

bool is_new_rows(std::string_view name) { return name.starts_with("k_new.") || name.starts_with("v_new."); }
bool is_trace(std::string_view name) { return name.starts_with("layers."); }

Result<MethodEntry> read_method(const ir::Graph& graph, size_t index, int64_t vocab_size) {
  MethodEntry entry;
  entry.index = index;
  entry.tokens = graph.tokens;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const ir::Tensor& t = graph.tensors[i];
    const auto id = static_cast<ir::TensorId>(i);
    if (t.role == ir::TensorRole::kInput) {
      if (t.name == "tokens") {
        entry.token_input = id;
      } else if (t.name == "positions") {
        entry.position_input = id;
      } else if (t.name == "mask") {
        entry.mask_input = id;
      } else {
        return unsupported(
            "method \"{}\" wants the input \"{}\", which this run time does not know; use a newer tandem", graph.name,
            t.name);
      }
    } else if (t.role == ir::TensorRole::kOutput) {
      if (is_new_rows(t.name)) {
        TANDEM_ASSIGN(const CacheWrite write, read_cache_write(graph, id));
        entry.cache_writes.push_back(write);
        continue;
      }
      if (is_trace(t.name)) {
        entry.trace_outputs.push_back(id);
        continue;
      }
      if (t.name != "logits") {
        return unsupported("method \"{}\" has the output \"{}\", which this run time does not know; use a newer tandem",
                           graph.name, t.name);
      }
      entry.logits_output = id;
    }
  }
  if (entry.token_input < 0 || entry.position_input < 0 || entry.mask_input < 0 || entry.logits_output < 0) {
    return corrupt("method \"{}\" lacks one of tokens, positions, mask and logits", graph.name);
  }
  for (const ir::TensorId id : {entry.token_input, entry.position_input}) {
    const ir::Tensor& t = graph.at(id);
    if (t.dtype != DType::kI32 || t.shape != std::vector<int64_t>{graph.tokens}) {
      return unsupported("method \"{}\": the input \"{}\" is not i32 [{}]", graph.name, t.name, graph.tokens);
    }
  }
  const ir::Tensor& logits = graph.at(entry.logits_output);
  if (logits.shape != std::vector<int64_t>{graph.tokens, vocab_size}) {
    return corrupt("method \"{}\" does not give logits for the model's {} tokens", graph.name, vocab_size);
  }
  const ir::Tensor& mask = graph.at(entry.mask_input);
  entry.mask_columns = entry.cache_writes.empty() ? graph.context : graph.context + graph.tokens;
  if (mask.shape != std::vector<int64_t>{graph.tokens, entry.mask_columns}) {
    return corrupt("method \"{}\" has a mask that does not cover its context", graph.name);
  }
  entry.mask_codes = ir::mask_codes(mask.dtype, mask.encoding);
  // Added as it is, and the difference of two infinities would be no number.
  if (!entry.cache_writes.empty() && dtype_is_float(mask.dtype)) {
    entry.mask_codes = ir::finite_mask_codes(mask.dtype);
  }
  entry.mask_element_bytes = dtype_bits(mask.dtype) / 8;
  return entry;
}

}  // namespace

Result<MethodTable> MethodTable::read(const Program& program, int64_t vocab_size) {
  MethodTable table;
  for (size_t i = 0; i < program.method_count(); ++i) {
    const ir::Graph& graph = program.method(i);
    TANDEM_ASSIGN(const MethodEntry entry, read_method(graph, i, vocab_size));
    if (table.context_ != 0 && table.context_ != graph.context) {
      return corrupt("the methods have contexts of {} and {}", table.context_, graph.context);
    }
    table.context_ = graph.context;
    table.methods_.push_back(entry);
  }
  std::ranges::sort(table.methods_, {}, &MethodEntry::tokens);
  if (table.methods_.empty() || table.methods_.front().tokens != 1) {
    return corrupt("the file has no method that takes one token (decode)");
  }
  return table;
}

const MethodEntry& MethodTable::choose(int64_t remaining) const {
  const MethodEntry* best = &methods_.front();
  for (const MethodEntry& method : methods_) {
    if (method.tokens <= remaining) best = &method;
  }
  if (best->tokens == 1 && remaining > 1 && methods_.size() > 1) return methods_[1];
  return *best;
}

}  // namespace tandem
