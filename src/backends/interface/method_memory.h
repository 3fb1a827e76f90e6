// Memory for the inputs, outputs and states of methods, sized by their metadata.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/interface/program.h"
#include "tandem/status.h"

namespace tandem {

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }
};
using AlignedMemory = std::unique_ptr<uint8_t[], FreeDeleter>;

// `size` bytes, 64-byte aligned, not cleared. Null if there is no memory.
AlignedMemory allocate_aligned(uint64_t size);

// The same, all zeros. A page of a large block takes no memory until it is written.
std::shared_ptr<uint8_t> allocate_zeroed(uint64_t size);

uint64_t tensor_bytes(const ir::Tensor& tensor);

// The memory that this machine has. Larger requests are refused before they are allocated: the system would often grant
// them, and kill the process once they are used.
uint64_t machine_memory();

// Buffers for one caller of a set of methods. A state that several methods name is one buffer: that is how prefill and
// decode share a KV cache. Inputs and outputs are per method.
class MethodMemory {
 public:
  // Fails if two methods declare one state with different shapes or dtypes, or if there is not enough memory.
  static Result<MethodMemory> allocate(Program& program);

  Bindings& bindings(size_t method) { return bindings_[method]; }
  // The buffer of an input, output or state of a method, or null if it has none of that name.
  void* find(const Program& program, size_t method, std::string_view name);

  struct State {
    ir::Tensor tensor;
    std::shared_ptr<uint8_t> memory;
    uint64_t bytes = 0;
  };
  std::map<std::string, State>& states() { return states_; }
  const std::map<std::string, State>& states() const { return states_; }
  uint64_t total_bytes() const { return total_bytes_; }

 private:
  std::map<std::string, State> states_;
  std::vector<std::shared_ptr<uint8_t>> io_buffers_;
  std::vector<Bindings> bindings_;
  uint64_t total_bytes_ = 0;
};

}  // namespace tandem
