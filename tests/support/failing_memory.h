// Memory that runs out where a test requests it. Replaces operator new and C's functions: only for a separate program,
// included by one of its files. Sanitizers replace both, so it cannot be used with them.
#pragma once

#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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

// The addresses of this program's functions whose names contain a text. dladdr() does not know hidden ones, so they are
// read from the program's symbol table.
class OwnFunctions {
 public:
  explicit OwnFunctions(const char* part) {
    const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    struct stat status {};
    if (file < 0 || ::fstat(file, &status) != 0) return;
    const auto size = static_cast<size_t>(status.st_size);
    void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
    ::close(file);
    if (mapped == MAP_FAILED) return;
    read(static_cast<const char*>(mapped), part);
    ::munmap(mapped, size);
  }
  bool contains(const void* address) const {
    for (size_t i = 0; i < count_; ++i) {
      if (address >= ranges_[i].begin && address < ranges_[i].end) return true;
    }
    return false;
  }
  size_t count() const { return count_; }

 private:
  struct Range {
    const char* begin;
    const char* end;
  };

  void read(const char* program, const char* part) {
    const auto* const header = reinterpret_cast<const Elf64_Ehdr*>(program);
    const auto* const sections = reinterpret_cast<const Elf64_Shdr*>(program + header->e_shoff);
    Dl_info self{};
    // The load address; a program that is not position-independent has absolute addresses.
    if (header->e_type == ET_DYN) ::dladdr(&g_failed, &self);
    for (int i = 0; i < header->e_shnum; ++i) {
      if (sections[i].sh_type != SHT_SYMTAB) continue;
      const char* const names = program + sections[sections[i].sh_link].sh_offset;
      const auto* const symbols = reinterpret_cast<const Elf64_Sym*>(program + sections[i].sh_offset);
      for (size_t s = 0; s < sections[i].sh_size / sizeof(Elf64_Sym) && count_ < kMost; ++s) {
        const Elf64_Sym& symbol = symbols[s];
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_size == 0) continue;
        if (std::strstr(names + symbol.st_name, part) == nullptr) continue;
        const char* const begin = static_cast<const char*>(self.dli_fbase) + symbol.st_value;
        ranges_[count_++] = {begin, begin + symbol.st_size};
      }
    }
  }

  static constexpr size_t kMost = 64;
  Range ranges_[kMost] = {};
  size_t count_ = 0;
};

// Code that allocates where nothing may be thrown, so that a failure ends the process: destructors of nlohmann's JSON,
// and libstdc++'s directory iteration. Such allocations never fail.
inline bool must_not_fail() {
  static const OwnFunctions json("json_value7destroy");
  void* frames[64];
  const int count = ::backtrace(frames, 64);
  for (int i = 0; i < count; ++i) {
    if (json.contains(frames[i])) return true;
    Dl_info info{};
    if (::dladdr(frames[i], &info) == 0 || info.dli_sname == nullptr) continue;
    for (const char* name : {"directory_iterator", "filesystem10remove_all"}) {
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
  g_allocations_left.store(-1, std::memory_order_relaxed);  // Inspecting the call stack may allocate.
  if (must_not_fail()) {
    g_allocations_left.store(0, std::memory_order_relaxed);
    return true;
  }
  // Stays at 0 if all later ones fail; otherwise one failure is the last.
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
