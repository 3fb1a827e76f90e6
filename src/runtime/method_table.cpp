#include "runtime/method_table.h"

#include <algorithm>
#include <span>

#include "backends/interface/method_selection.h"
#include "base/error.h"

namespace tandem {
namespace {

// New keys are written to the key cache of their layer and head, new values to the value cache.
Result<CacheWrite> read_cache_write(const ir::Graph& graph, ir::TensorId output) {
  const ir::Tensor& rows = graph.at(output);
  ir::Purpose wanted = rows.purpose;
  wanted.kind = ir::is_keys(rows.purpose) ? ir::PurposeKind::kKeyCache : ir::PurposeKind::kValueCache;
  const auto cache = graph.find(wanted);
  if (!cache) {
    return corrupt("method \"{}\" gives \"{}\" and has no {} of layer {} to keep it in", graph.name, rows.name,
                   ir::purpose_kind_name(wanted.kind), wanted.layer);
  }
  const ir::Tensor& state = graph.at(*cache);
  const bool fits = rows.shape.size() == 3 && state.shape.size() == 3 && rows.shape[0] == state.shape[0] &&
                    rows.shape[1] == graph.tokens && state.shape[1] == graph.context &&
                    rows.shape[2] == state.shape[2] && rows.dtype == state.dtype && rows.encoding == state.encoding;
  if (!fits) return corrupt("method \"{}\": \"{}\" does not fit \"{}\"", graph.name, rows.name, state.name);
  return CacheWrite{output, *cache, rows.shape[0], dtype_bytes(rows.dtype, static_cast<size_t>(rows.shape[2]))};
}

Result<MethodEntry> read_method(const ir::Graph& graph, size_t index, int64_t vocab_size) {
  MethodEntry entry;
  entry.index = index;
  entry.tokens = graph.tokens;
  TANDEM_ASSIGN(entry.inputs, ir::MethodInputs::read(graph));
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const ir::Tensor& t = graph.tensors[i];
    const auto id = static_cast<ir::TensorId>(i);
    if (t.role != ir::TensorRole::kOutput) continue;
    if (ir::is_new_rows(t.purpose)) {
      TANDEM_ASSIGN(const CacheWrite write, read_cache_write(graph, id));
      entry.cache_writes.push_back(write);
    } else if (t.purpose.kind == ir::PurposeKind::kHidden) {
      entry.trace_outputs.push_back(id);
    } else if (t.purpose.kind == ir::PurposeKind::kLogits) {
      entry.logits_output = id;
    } else if (t.purpose.kind == ir::PurposeKind::kFinalNorm) {
      if (t.shape.size() != 2 || t.shape[0] != graph.tokens || entry.hidden_output >= 0) {
        return corrupt("method \"{}\" does not give one hidden state for each token", graph.name);
      }
      entry.hidden_output = id;
    } else {
      return unsupported("method \"{}\" has the output \"{}\", which this run time does not know; use a newer tandem",
                         graph.name, t.name);
    }
  }
  if (entry.logits_output < 0) return corrupt("method \"{}\" gives no logits", graph.name);
  const ir::Tensor& logits = graph.at(entry.logits_output);
  if (logits.shape != std::vector<int64_t>{graph.tokens, vocab_size}) {
    return corrupt("method \"{}\" does not give logits for the model's {} tokens", graph.name, vocab_size);
  }
  const int64_t own_rows = entry.cache_writes.empty() ? 0 : graph.tokens;
  if (entry.inputs.mask_columns != graph.context + own_rows) {
    return corrupt("method \"{}\" has a mask that does not cover its context", graph.name);
  }
  return entry;
}

// Of all methods, or 0 if one of them gives no hidden states.
Result<int64_t> read_hidden_size(const Program& program, const std::vector<MethodEntry>& methods) {
  int64_t size = -1;
  for (const MethodEntry& method : methods) {
    const ir::TensorId id = method.hidden_output;
    const int64_t found = id < 0 ? 0 : program.method(method.index).at(id).shape[1];
    if (size > 0 && found > 0 && found != size)
      return corrupt("the methods have hidden states of {} and {}", size, found);
    size = size < 0 ? found : std::min(size, found);
  }
  return size;
}

// In a ring, a token may go back by `slots` - `window` positions and still find everything it attends to.
void keep_tighter(std::optional<RingCache>& ring, const ir::Graph& graph) {
  for (const ir::Op& op : graph.ops) {
    if (!ir::is_attention(op.kind)) continue;
    const RingCache found{graph.at(op.inputs[1]).shape[1], op.attributes.window};
    if (found.slots >= graph.context) continue;
    if (!ring || found.slots - found.window < ring->slots - ring->window) ring = found;
  }
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
    if (!table.methods_.empty() && table.rope_limit() != entry.inputs.rope_limit) {
      return corrupt("the methods have rotary tables for different lengths");
    }
    table.context_ = graph.context;
    table.methods_.push_back(entry);
    keep_tighter(table.ring_, graph);
  }
  std::ranges::sort(table.methods_, {}, &MethodEntry::tokens);
  if (table.methods_.empty() || table.methods_.front().tokens != 1) {
    return corrupt("the file has no method that takes one token (decode)");
  }
  TANDEM_ASSIGN(table.hidden_size_, read_hidden_size(program, table.methods_));
  return table;
}

const MethodEntry& MethodTable::choose(int64_t remaining) const {
  return ir::choose_method(std::span(methods_), remaining);
}

}  // namespace tandem
