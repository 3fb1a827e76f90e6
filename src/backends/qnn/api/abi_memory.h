// Our own declarations for registering shared memory with a context. See abi.h for where the numbers come from. Sizes
// and offsets are measured; the x86 library refuses to register memory (1000), so what a device does with these was
// never seen here.
#pragma once

#include "backends/qnn/api/abi.h"

namespace tandem::qnn::abi {

struct MemoryShape {
  uint32_t rank;
  const uint32_t* dimensions;
  const char* config;  // Null.
};
static_assert(sizeof(MemoryShape) == 24);
static_assert(offsetof(MemoryShape, dimensions) == 8);
static_assert(offsetof(MemoryShape, config) == 16);

enum class MemoryType : uint32_t { kIon = 1, kCustom = 2 };

enum class HtpMemoryType : uint32_t { kSharedBuffer = 1 };

// A tensor somewhere inside a shared buffer.
struct HtpMemoryDescriptor {
  HtpMemoryType type;
  uint64_t size;  // Of the whole buffer.
  int32_t fd;
  uint64_t offset;
};
static_assert(sizeof(HtpMemoryDescriptor) == 32);
static_assert(offsetof(HtpMemoryDescriptor, size) == 8);
static_assert(offsetof(HtpMemoryDescriptor, fd) == 16);
static_assert(offsetof(HtpMemoryDescriptor, offset) == 24);

struct DmaBuffer {
  int32_t fd;
  void* data;
};
static_assert(sizeof(DmaBuffer) == 16);
static_assert(offsetof(DmaBuffer, data) == 8);

struct MemoryDescriptor {
  MemoryShape shape;
  DataType dtype;
  MemoryType type;
  union {
    DmaBuffer dma_buffer;  // The largest member; it is here for its size.
    HtpMemoryDescriptor* custom;
    int32_t ion_fd;
  };
};
static_assert(sizeof(MemoryDescriptor) == 48);
static_assert(offsetof(MemoryDescriptor, dtype) == 24);
static_assert(offsetof(MemoryDescriptor, type) == 28);
static_assert(offsetof(MemoryDescriptor, custom) == 32);
static_assert(offsetof(MemoryDescriptor, ion_fd) == 32);

}  // namespace tandem::qnn::abi
