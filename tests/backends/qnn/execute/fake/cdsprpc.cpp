// A libcdsprpc.so for machines without a DSP: memory with a file descriptor, like the phone's.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <mutex>

namespace {

struct Buffer {
  int fd;
  size_t bytes;
};
std::mutex mutex;
std::map<void*, Buffer> buffers;

}  // namespace

extern "C" void* rpcmem_alloc(int heap, uint32_t flags, int bytes) {
  if (heap != 25 || flags != 1 || bytes <= 0) return nullptr;
  const int fd = static_cast<int>(::syscall(SYS_memfd_create, "fake_rpcmem", 1u));
  if (fd < 0 || ::ftruncate(fd, bytes) != 0) return nullptr;
  void* const data = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return nullptr;
  const std::lock_guard lock(mutex);
  buffers[data] = {fd, static_cast<size_t>(bytes)};
  return data;
}

extern "C" void rpcmem_free(void* data) {
  const std::lock_guard lock(mutex);
  const auto it = buffers.find(data);
  if (it == buffers.end()) return;
  ::munmap(data, it->second.bytes);
  ::close(it->second.fd);
  buffers.erase(it);
}

extern "C" int rpcmem_to_fd(void* data) {
  const std::lock_guard lock(mutex);
  const auto it = buffers.find(data);
  return it == buffers.end() ? -1 : it->second.fd;
}

extern "C" int fake_rpcmem_live() {
  const std::lock_guard lock(mutex);
  return static_cast<int>(buffers.size());
}
