#include "runtime/kv_transfer.h"

#include <map>
#include <optional>
#include <tuple>

#include "base/error.h"

namespace tandem {
namespace {

// Whether keys, layer, KV head.
using HeadKey = std::tuple<bool, int32_t, int64_t>;

std::map<HeadKey, KvTransfer::Head> heads_of(const Program& program, const MethodTable& table) {
  std::map<HeadKey, KvTransfer::Head> heads;
  const ir::Graph& graph = program.method(table.methods().front().index);
  for (const ir::Tensor& tensor : graph.tensors) {
    const bool is_cache =
        tensor.purpose.kind == ir::PurposeKind::kKeyCache || tensor.purpose.kind == ir::PurposeKind::kValueCache;
    if (tensor.role != ir::TensorRole::kState || !is_cache) continue;
    const bool keys = ir::is_keys(tensor.purpose);
    ir::Purpose scales = tensor.purpose;
    scales.kind = keys ? ir::PurposeKind::kKeyScales : ir::PurposeKind::kValueScales;
    const auto found = graph.find(scales);
    for (int64_t head = 0; head < tensor.shape[0]; ++head) {
      const int64_t number = tensor.purpose.kv_head >= 0 ? tensor.purpose.kv_head : head;
      heads[{keys, tensor.purpose.layer, number}] = {tensor.name, found ? graph.at(*found).name : std::string(), head,
                                                     tensor.shape[2]};
    }
  }
  return heads;
}

CacheState state_of(MethodMemory& memory, const KvTransfer::Head& head) {
  MethodMemory::State& state = memory.states().at(head.state);
  CacheState cache{&state.tensor, state.memory.get(), nullptr};
  if (!head.scales.empty()) {
    cache.scale_and_min = reinterpret_cast<float*>(memory.states().at(head.scales).memory.get());
  }
  return cache;
}

}  // namespace

Result<KvTransfer> KvTransfer::plan(const Program& from, const MethodTable& from_table, const Program& to,
                                    const MethodTable& to_table) {
  if (from_table.context() != to_table.context()) {
    return unsupported("the programs have contexts of {} and {}, so one cannot continue what the other began",
                       from_table.context(), to_table.context());
  }
  for (const MethodTable* table : {&from_table, &to_table}) {
    if (!table->ring() && table->rope_limit() == 0) continue;
    return unsupported(
        "this model's caches depend on how long a conversation is (windows, or rotary tables for two lengths), so one "
        "program cannot continue what another began; leave `decode_on` out");
  }
  KvTransfer transfer;
  transfer.from_ = &from;
  transfer.to_ = &to;
  const auto theirs = heads_of(from, from_table), ours = heads_of(to, to_table);
  for (const auto& [key, head] : ours) {
    const auto found = theirs.find(key);
    if (found == theirs.end() || found->second.size != head.size) break;
    transfer.pairs_.push_back({found->second, head});
  }
  if (transfer.pairs_.size() != theirs.size() || theirs.size() != ours.size()) {
    return corrupt("the file's programs do not have the same keys and values; compile it again");
  }
  return transfer;
}

void KvTransfer::copy(MethodMemory& from, MethodMemory& to, int64_t begin, int64_t end, ThreadPool& pool) const {
  pool.run(static_cast<int64_t>(pairs_.size()), [&](int64_t i, int) {
    const Pair& pair = pairs_[static_cast<size_t>(i)];
    const CacheState source = state_of(from, pair.from), target = state_of(to, pair.to);
    std::vector<float> row(static_cast<size_t>(pair.from.size));
    for (int64_t slot = begin; slot < end; ++slot) {
      from_->load_cache_row(source, pair.from.head, slot, row.data());
      to_->store_cache_row(target, pair.to.head, slot, row.data());
    }
  });
}

}  // namespace tandem
