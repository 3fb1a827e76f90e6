#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>

#include "base/format.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {
namespace {

// About 50 microseconds: longer than the gap between two kernels of a token, shorter than anyone notices.
constexpr int kSpins = 2000;
// More than any machine this runs on; a typo must not start a million threads.
constexpr int kMaxThreads = 1024;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Relative to the machine's fastest core, which has 1024. 0 where the system does not say.
int64_t core_capacity(const std::filesystem::path& system, int core) {
  std::ifstream file(system / str_format("cpu{}", core) / "cpu_capacity");
  int64_t capacity = 0;
  return file >> capacity && capacity > 0 ? capacity : 0;
}

uint32_t loop_of(uint64_t ticket) { return static_cast<uint32_t>(ticket >> 32); }
uint32_t tasks_left(uint64_t ticket) { return static_cast<uint32_t>(ticket); }

}  // namespace

int usable_cores(const std::filesystem::path& system) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    std::vector<int64_t> capacities;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &set)) capacities.push_back(core_capacity(system, core));
    }
    if (!capacities.empty()) {
      const int64_t largest = std::ranges::max(capacities);
      return static_cast<int>(std::ranges::count_if(capacities, [&](int64_t c) { return c >= largest - c; }));
    }
  }
  const unsigned count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : static_cast<int>(count);
}

ThreadPool::ThreadPool(int threads) {
  if (threads <= 0) threads = usable_cores();
  threads = std::min(threads, kMaxThreads);
  workers_.reserve(static_cast<size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error&) {
      break;  // The system has no more threads: fewer do the same work.
    } catch (const std::bad_alloc&) {
      break;  // The same; the threads that exist must be joined before anything is thrown.
    }
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(sleep_mutex_);
    stopping_.store(true);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_erased(int64_t tasks, Function function, void* context) {
  if (tasks <= 0) return;
  if (workers_.empty() || tasks == 1) {
    for (int64_t task = 0; task < tasks; ++task) function(context, task, 0);
    return;
  }
  const std::lock_guard one_loop(one_loop_);
  constexpr int64_t kMostAtOnce = 1 << 30;
  for (int64_t first = 0; first < tasks; first += kMostAtOnce) {
    run_loop(static_cast<uint32_t>(std::min(kMostAtOnce, tasks - first)), first, function, context);
  }
}

void ThreadPool::run_loop(uint32_t tasks, int64_t first, Function function, void* context) {
  function_ = function;
  context_ = context;
  first_task_ = first;
  tasks_ = tasks;
  finished_.store(0, std::memory_order_relaxed);
  const uint32_t loop = loop_of(ticket_.load(std::memory_order_relaxed)) + 1;
  bool anyone_sleeps;
  {
    // Under the mutex, so that a worker about to sleep either sees the new loop or is counted as a sleeper.
    const std::lock_guard lock(sleep_mutex_);
    ticket_.store(uint64_t{loop} << 32 | tasks, std::memory_order_release);
    anyone_sleeps = sleepers_ > 0;
  }
  if (anyone_sleeps) wake_.notify_all();
  take_tasks(loop, 0);
  for (int spins = 0; finished_.load(std::memory_order_acquire) < tasks; ++spins) {
    pause_briefly();
    if (spins > kSpins) std::this_thread::yield();  // More threads than cores: let the others finish.
  }
  if (thrown_ != nullptr) std::rethrow_exception(std::exchange(thrown_, nullptr));
}

void ThreadPool::take_tasks(uint32_t loop, int thread) {
  uint32_t done = 0;
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (loop_of(ticket) == loop && tasks_left(ticket) > 0) {
    if (!ticket_.compare_exchange_weak(ticket, ticket - 1, std::memory_order_acquire)) continue;
    // We hold a task of the loop: until it is counted, the loop does not end, and its description stays valid.
    try {
      function_(context_, first_task_ + (tasks_ - tasks_left(ticket)), thread);
    } catch (...) {
      // Nothing may escape a worker, and the caller must not return while others still use its stack.
      const std::lock_guard lock(thrown_mutex_);
      if (thrown_ == nullptr) thrown_ = std::current_exception();
    }
    ++done;
    ticket = ticket_.load(std::memory_order_acquire);
  }
  if (done > 0) finished_.fetch_add(done, std::memory_order_release);
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  const auto current = [this] { return loop_of(ticket_.load(std::memory_order_acquire)); };
  for (;;) {
    int spins = 0;
    while (current() == seen && !stopping_.load(std::memory_order_relaxed)) {
      if (++spins < kSpins) {
        pause_briefly();
        continue;
      }
      std::unique_lock lock(sleep_mutex_);
      ++sleepers_;
      wake_.wait(lock, [&] { return current() != seen || stopping_.load(); });
      --sleepers_;
    }
    if (stopping_.load()) return;
    seen = current();
    take_tasks(seen, thread);
  }
}

}  // namespace tandem
