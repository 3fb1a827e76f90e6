#include "base/mapping_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace {

// A signal handler may neither lock nor allocate, so the table has a fixed size. The largest checkpoints have some 200
// files.
constexpr int kSlots = 1024;

struct Slot {
  std::atomic<bool> taken{false};
  // Odd while begin and end are valid; they change only while it is even. A reader that finds the same odd number
  // before and after has read a consistent pair.
  std::atomic<uint64_t> version{0};
  std::atomic<uintptr_t> begin{0};
  std::atomic<uintptr_t> end{0};
  std::atomic<bool> faulted{false};
};

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uintptr_t>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

std::array<Slot, kSlots> g_slots;

// Written once, before the handler is installed.
struct sigaction g_previous;
uintptr_t g_page = 0;

// Maps zeros from the page of the address to the end of its mapping. False if it is in none of ours.
bool replace_with_zeros(uintptr_t address) {
  for (Slot& slot : g_slots) {
    const uint64_t version = slot.version.load();
    const uintptr_t begin = slot.begin.load(), end = slot.end.load();
    if (version % 2 == 0 || slot.version.load() != version || address < begin || address >= end) continue;
    slot.faulted.store(true);
    const uintptr_t page = address / g_page * g_page;
    // The rest of the mapping at once: past the end of a truncated file every page would fault. Two threads may do this
    // at the same time; the second replaces zeros by zeros.
    // The raw system call: wrappers that others put around mmap() are not made for signal handlers.
    return ::syscall(SYS_mmap, page, end - page, PROT_READ, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                     0) != -1;
  }
  return false;
}

// Behaves as if this handler did not exist.
void pass_on(int signal, siginfo_t* info, void* context) {
  if ((g_previous.sa_flags & SA_SIGINFO) != 0) {
    g_previous.sa_sigaction(signal, info, context);
    return;
  }
  const bool was_sent = info->si_code <= 0;  // By kill() and the like, not by a memory access.
  if (g_previous.sa_handler == SIG_IGN && was_sent) return;
  if (g_previous.sa_handler != SIG_IGN && g_previous.sa_handler != SIG_DFL) {
    g_previous.sa_handler(signal);
    return;
  }
  // The default action ends the process. An access is retried when the handler returns; a sent signal is sent again,
  // and delivered when the signal is no longer blocked.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  if (was_sent) ::raise(signal);
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  // A misaligned access (BUS_ADRALN) says nothing about the file.
  const bool is_access = info->si_code > 0 && info->si_code != BUS_ADRALN;
  if (!is_access || !replace_with_zeros(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(signal, info, context);
  errno = error;
}

}  // namespace

MappingRecord::MappingRecord(const void* begin, size_t size) noexcept {
  for (int i = 0; i < kSlots; ++i) {
    Slot& slot = g_slots[static_cast<size_t>(i)];
    if (slot.taken.exchange(true)) continue;
    slot.faulted.store(false);
    slot.begin.store(reinterpret_cast<uintptr_t>(begin));
    slot.end.store(reinterpret_cast<uintptr_t>(begin) + size);
    slot.version.fetch_add(1);
    slot_ = i;
    return;
  }
}

MappingRecord::MappingRecord(MappingRecord&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}

MappingRecord& MappingRecord::operator=(MappingRecord&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

MappingRecord::~MappingRecord() {
  if (slot_ < 0) return;
  Slot& slot = g_slots[static_cast<size_t>(slot_)];
  slot.version.fetch_add(1);
  slot.taken.store(false);
}

bool MappingRecord::has_faulted() const noexcept {
  return slot_ >= 0 && g_slots[static_cast<size_t>(slot_)].faulted.load(std::memory_order_relaxed);
}

Status guard_file_mappings() {
  // Once: if another handler was installed over ours since, ours would become its own predecessor.
  static std::once_flag once;
  static int error = 0;
  std::call_once(once, [] {
    g_page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
    struct sigaction action {};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    // The old action is read before it is replaced: a SIGBUS may arrive as soon as the handler is installed.
    if (::sigaction(SIGBUS, nullptr, &g_previous) != 0 || ::sigaction(SIGBUS, &action, nullptr) != 0) error = errno;
  });
  if (error != 0) return io_error("SIGBUS cannot be handled ({})", std::strerror(error));
  return ok_status();
}

}  // namespace tandem
