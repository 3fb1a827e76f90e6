#include "backends/qnn/api/rpcmem.h"

#include <dlfcn.h>

#include <functional>
#include <limits>

#include "base/error.h"

namespace tandem::qnn {
namespace {

constexpr int kSystemHeap = 25;
constexpr uint32_t kDefaultFlags = 1;  // Cached.

template <typename Function>
bool find_symbol(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

Result<std::shared_ptr<SharedHeap>> SharedHeap::open(const std::string& library) {
  ::dlerror();
  // Kept loaded until the process ends: buffers may live in threads of the library.
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* const reason = ::dlerror();
    return not_found("{} could not be loaded ({}); tensors are copied to the NPU instead of shared with it", library,
                     reason != nullptr ? reason : "no reason given");
  }
  auto heap = std::shared_ptr<SharedHeap>(new SharedHeap);
  if (!find_symbol(handle, "rpcmem_alloc", heap->alloc_) || !find_symbol(handle, "rpcmem_free", heap->free_) ||
      !find_symbol(handle, "rpcmem_to_fd", heap->to_fd_)) {
    return unsupported("{} lacks the functions for shared memory; tensors are copied to the NPU instead", library);
  }
  return heap;
}

std::shared_ptr<uint8_t> SharedHeap::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > static_cast<uint64_t>(std::numeric_limits<int>::max())) return nullptr;
  auto* const data = static_cast<uint8_t*>(alloc_(kSystemHeap, kDefaultFlags, static_cast<int>(bytes)));
  if (data == nullptr) return nullptr;
  const int fd = to_fd_(data);
  if (fd < 0) {
    free_(data);
    return nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    buffers_[data] = {bytes, fd};
  }
  return {data, [self = shared_from_this()](uint8_t* owned) { self->release(owned); }};
}

void SharedHeap::release(uint8_t* data) {
  {
    const std::lock_guard lock(mutex_);
    buffers_.erase(data);
  }
  free_(data);
}

std::optional<SharedRange> SharedHeap::find(const void* data, uint64_t bytes) const {
  const auto* const begin = static_cast<const uint8_t*>(data);
  const std::lock_guard lock(mutex_);
  auto next = buffers_.upper_bound(begin);
  if (next == buffers_.begin()) return std::nullopt;
  const auto& [start, buffer] = *--next;
  const auto offset = static_cast<uint64_t>(begin - start);
  if (offset > buffer.bytes || bytes > buffer.bytes - offset) return std::nullopt;
  return SharedRange{buffer.fd, offset, buffer.bytes};
}

}  // namespace tandem::qnn
