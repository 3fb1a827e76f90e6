// Copies rows of one program's KV cache to another's: the dtypes, encodings and layouts differ, and one may have a
// cache for each head where the other has one for all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backends/interface/method_memory.h"
#include "backends/interface/program.h"
#include "base/thread_pool.h"
#include "runtime/method_table.h"
#include "tandem/status.h"

namespace tandem {

class KvTransfer {
 public:
  // Refuses programs whose caches do not hold the same rows: of another model, or with windows that drop positions.
  // Both must outlive it.
  static Result<KvTransfer> plan(const Program& from, const MethodTable& from_table, const Program& to,
                                 const MethodTable& to_table);

  // The rows of positions from `begin` up to `end`, rounded to what the other cache can hold.
  void copy(MethodMemory& from, MethodMemory& to, int64_t begin, int64_t end, ThreadPool& pool) const;

  // A head of a cache.
  struct Head {
    std::string state;
    std::string scales;  // "" without.
    int64_t head = 0;    // In the state.
    int64_t size = 0;
    bool operator==(const Head&) const = default;
  };

 private:
  struct Pair {
    Head from, to;
  };

  const Program* from_ = nullptr;
  const Program* to_ = nullptr;
  std::vector<Pair> pairs_;
};

}  // namespace tandem
