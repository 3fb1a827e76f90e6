// Memory that the CPU and the DSP share, from Qualcomm's libcdsprpc.so, which phones have and other systems do not.
// Tensors in it need not be copied to the DSP and back (shared_memory.h).
//
// Never run on a phone here: the calls are those that public run times make. Tests use a library of their own with the
// same functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tandem/status.h"

namespace tandem::qnn {

inline constexpr const char* kRpcLibrary = "libcdsprpc.so";

// The location of an address in shared memory.
struct SharedRange {
  int fd = -1;
  uint64_t offset = 0;
  uint64_t buffer_bytes = 0;  // Of the whole buffer.
};

class SharedHeap : public std::enable_shared_from_this<SharedHeap> {
 public:
  // `library` is a name that the loader knows, or a path. Where there is none, the error says so: plain memory does.
  static Result<std::shared_ptr<SharedHeap>> open(const std::string& library = kRpcLibrary);
  SharedHeap(const SharedHeap&) = delete;
  SharedHeap& operator=(const SharedHeap&) = delete;

  // At least page-aligned. Null if there is none left. The memory keeps the heap.
  std::shared_ptr<uint8_t> allocate(uint64_t bytes);

  // Nothing if the bytes are not entirely inside one live buffer of allocate().
  std::optional<SharedRange> find(const void* data, uint64_t bytes) const;

 private:
  SharedHeap() = default;
  void release(uint8_t* data);

  void* (*alloc_)(int heap, uint32_t flags, int bytes) = nullptr;
  void (*free_)(void* data) = nullptr;
  int (*to_fd_)(void* data) = nullptr;
  struct Buffer {
    uint64_t bytes = 0;
    int fd = -1;
  };
  mutable std::mutex mutex_;
  std::map<const uint8_t*, Buffer, std::less<>> buffers_;  // By where they begin.
};

}  // namespace tandem::qnn
