// What runs graphs: a back end's loaded methods, or the reference interpreter. The runtime knows only this.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/interface/cache_rows.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem {

// Memory for one call of a method: for each tensor of its graph that is an input, an output or a state, a pointer to
// dtype_bytes(dtype, elements) bytes, 64-byte aligned. Other entries are null.
struct Bindings {
  std::vector<void*> data;  // By TensorId.
  // Which rows of the outputs the caller will read. A back end may leave the others unwritten.
  int64_t first_row = 0;
  int64_t rows = 0;
  // Only for methods of which Program::computes_argmax() is true, with one row: the index of that row's largest logit
  // is written there, the first one if there are several, -1 if no logit is above -infinity (NaN is not). "logits"
  // may be left unwritten then.
  int32_t* argmax = nullptr;
  // False: the caller reads the output of the final norm and no logits, which may be left unwritten.
  bool reads_logits = true;
};

// The scratch memory of one caller. Not thread-safe: make one per session.
class ExecutionContext {
 public:
  virtual ~ExecutionContext() = default;
  // A failed call may leave states and outputs half-written; nothing outside the bindings is touched.
  virtual Status run(size_t method, const Bindings& bindings) = 0;
};

// Loaded methods that share weights. Immutable; contexts of one program may run at the same time.
class Program {
 public:
  virtual ~Program() = default;
  virtual size_t method_count() const = 0;
  virtual const ir::Graph& method(size_t index) const = 0;
  virtual Result<std::unique_ptr<ExecutionContext>> new_context() = 0;
  // Whether a method can be asked for the index of the largest logit alone (Bindings::argmax).
  virtual bool computes_argmax(size_t) const { return false; }
  // Memory for a session's inputs, outputs and states that the device reads and writes without copies. Null where any
  // memory does. It must outlive the execution contexts that it is bound to.
  virtual std::shared_ptr<uint8_t> allocate_shared(uint64_t) { return nullptr; }
  // A row of a key or value cache as floats, and back, for a back end that orders its caches in its own way.
  virtual void load_cache_row(const CacheState& cache, int64_t head, int64_t slot, float* row) const {
    load_plain_cache_row(cache, head, slot, row);
  }
  virtual void store_cache_row(const CacheState& cache, int64_t head, int64_t slot, const float* row) const {
    store_plain_cache_row(cache, head, slot, row);
  }
};

}  // namespace tandem
