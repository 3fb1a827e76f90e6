// Memory that runs out where a test wants it. Replaces operator new and C's functions: for a program of its own, and to
// be included by one file of it. A sanitizer has taken both, so there it cannot be used.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace tandem::test {

// Allocations until one fails; negative: none does. From there on all fail, or just the one.
inline std::atomic<int64_t> g_allocations_left{-1};
inline std::atomic<bool> g_all_fail{false};
inline std::atomic<int64_t> g_failed{0};

// What allocates where nothing may be thrown, and so ends the process if that fails: destructors of nlohmann's JSON,
// and libstdc++'s walk through a folder. Such allocations are let through. Needs a program that exports its symbols.
inline bool must_not_fail() {
  void* frames[64];
  const int count = ::backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    Dl_info info{};
    if (::dladdr(frames[i], &info) == 0 || info.dli_sname == nullptr) continue;
    for (const char* name : {"json_value7destroy", "directory_iterator", "filesystem10remove_all"}) {
      if (std::strstr(info.dli_sname, name) != nullptr) return true;
    }
  }
  return false;
}

inline bool may_allocate() {
  if (g_allocations_left.load(std::memory_order_relaxed) < 0) return true;
  const int64_t left = g_allocations_left.fetch_sub(1, std::memory_order_relaxed);
  if (left > 0) return true;
  if (left < 0 && !g_all_fail.load(std::memory_order_relaxed)) return true;
  g_allocations_left.store(-1, std::memory_order_relaxed);  // Looking where we are may allocate.
  if (must_not_fail()) {
    g_allocations_left.store(0, std::memory_order_relaxed);
    return true;
  }
  // Stays at 0 where all fail, and ends where one did.
  g_allocations_left.store(g_all_fail.load(std::memory_order_relaxed) ? 0 : -1, std::memory_order_relaxed);
  g_failed.fetch_add(1, std::memory_order_relaxed);
  return false;
}

// While it lives, the allocation after `count` others fails, and with `all` every one after that.
class FailingMemory {
 public:
  FailingMemory(int64_t count, bool all) {
    g_all_fail = all;
    g_failed = 0;
    g_allocations_left = count;
  }
  ~FailingMemory() { stop(); }
  FailingMemory(const FailingMemory&) = delete;
  FailingMemory& operator=(const FailingMemory&) = delete;

  void stop() { g_allocations_left = -1; }
  bool has_failed() const { return g_failed > 0; }
};

}  // namespace tandem::test

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void* malloc(size_t size) { return tandem::test::may_allocate() ? __libc_malloc(size) : nullptr; }
void* calloc(size_t n, size_t size) { return tandem::test::may_allocate() ? __libc_calloc(n, size) : nullptr; }
void* realloc(void* p, size_t size) { return tandem::test::may_allocate() ? __libc_realloc(p, size) : nullptr; }
void* aligned_alloc(size_t alignment, size_t size) {
  return tandem::test::may_allocate() ? __libc_memalign(alignment, size) : nullptr;
}
}
