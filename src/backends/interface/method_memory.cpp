#include "backends/interface/method_memory.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstring>

#include "base/checked.h"
#include "base/error.h"

namespace tandem {
AlignedMemory allocate_aligned(uint64_t size) {
  void* memory = nullptr;  // C11's function is in Android from API 28 on.
  if (::posix_memalign(&memory, 64, size == 0 ? 1 : size) != 0) return nullptr;
  return AlignedMemory(static_cast<uint8_t*>(memory));
}

std::shared_ptr<uint8_t> allocate_zeroed(uint64_t size) {
  constexpr uint64_t kAlignment = 64;
  if (size > UINT64_MAX - kAlignment) return nullptr;
  void* memory = std::calloc(1, size + kAlignment);
  if (memory == nullptr) return nullptr;
  const std::shared_ptr<void> owner(memory, FreeDeleter());
  const uint64_t address = round_up(reinterpret_cast<uintptr_t>(memory), kAlignment);
  return {owner, reinterpret_cast<uint8_t*>(address)};
}

uint64_t tensor_bytes(const ir::Tensor& tensor) {
  return dtype_bytes(tensor.dtype, static_cast<size_t>(ir::element_count_of(tensor)));
}

uint64_t machine_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return UINT64_MAX;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
}

Result<MethodMemory> MethodMemory::allocate(Program& program) {
  const uint64_t limit = machine_memory();
  MethodMemory memory;
  for (size_t m = 0; m < program.method_count(); ++m) {
    const ir::Graph& graph = program.method(m);
    Bindings bindings;
    bindings.data.assign(graph.tensors.size(), nullptr);
    for (size_t i = 0; i < graph.tensors.size(); ++i) {
      const ir::Tensor& tensor = graph.tensors[i];
      const bool is_state = tensor.role == ir::TensorRole::kState;
      if (!is_state && tensor.role != ir::TensorRole::kInput && tensor.role != ir::TensorRole::kOutput) continue;
      const uint64_t bytes = tensor_bytes(tensor);
      if (is_state) {
        if (const auto it = memory.states_.find(tensor.name); it != memory.states_.end()) {
          const ir::Tensor& other = it->second.tensor;
          if (other.dtype != tensor.dtype || other.shape != tensor.shape || other.encoding != tensor.encoding) {
            return corrupt("the methods do not agree on \"{}\"", tensor.name);
          }
          bindings.data[i] = it->second.memory.get();
          continue;
        }
      }
      const bool fits = bytes <= limit - memory.total_bytes_;
      // Attention reads masked slots too and discards the result, so they must not hold NaN.
      std::shared_ptr<uint8_t> block = fits ? program.allocate_shared(bytes) : nullptr;
      if (block != nullptr && is_state) std::memset(block.get(), 0, bytes);
      if (block == nullptr && fits) block = allocate_zeroed(bytes);
      if (block == nullptr) {
        return resource_exhausted("no memory for {} bytes of \"{}\"; use a shorter context or a smaller KV format",
                                  bytes, tensor.name);
      }
      memory.total_bytes_ += bytes;
      bindings.data[i] = block.get();
      if (is_state) {
        memory.states_[tensor.name] = {tensor, std::move(block), bytes};
      } else {
        memory.io_buffers_.push_back(std::move(block));
      }
    }
    memory.bindings_.push_back(std::move(bindings));
  }
  return memory;
}

void* MethodMemory::find(const Program& program, size_t method, std::string_view name) {
  const auto id = program.method(method).find(name);
  return id ? bindings_[method].data[static_cast<size_t>(*id)] : nullptr;
}

}  // namespace tandem
