#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tandem {
namespace {

// About 50 microseconds: longer than the gap between two kernels of a token, shorter than anyone notices.
constexpr int kSpins = 2000;
// More than any machine that this runs on; a typing error must not start a million threads.
constexpr int kMaxThreads = 1024;

void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    const int count = CPU_COUNT(&set);
    if (count > 0) return count;
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
      break;  // The system gives no more threads: fewer do the same work.
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
  function_ = function;
  context_ = context;
  tasks_ = tasks;
  next_task_.store(0, std::memory_order_relaxed);
  busy_workers_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  bool anyone_sleeps;
  {
    // Under the mutex, so that a worker about to sleep either sees the new generation or is counted as a sleeper.
    const std::lock_guard lock(sleep_mutex_);
    generation_.fetch_add(1, std::memory_order_release);
    anyone_sleeps = sleepers_ > 0;
  }
  if (anyone_sleeps) wake_.notify_all();
  take_tasks(0);
  for (int spins = 0; busy_workers_.load(std::memory_order_acquire) > 0; ++spins) {
    pause_briefly();
    if (spins > kSpins) std::this_thread::yield();  // More threads than cores: let the others finish.
  }
}

void ThreadPool::take_tasks(int thread) {
  for (;;) {
    const int64_t task = next_task_.fetch_add(1, std::memory_order_relaxed);
    if (task >= tasks_) return;
    function_(context_, task, thread);
  }
}

void ThreadPool::work(int thread) {
  uint64_t seen = 0;
  for (;;) {
    int spins = 0;
    while (generation_.load(std::memory_order_acquire) == seen && !stopping_.load(std::memory_order_relaxed)) {
      if (++spins < kSpins) {
        pause_briefly();
        continue;
      }
      std::unique_lock lock(sleep_mutex_);
      ++sleepers_;
      wake_.wait(lock, [&] { return generation_.load() != seen || stopping_.load(); });
      --sleepers_;
    }
    if (stopping_.load()) return;
    seen = generation_.load(std::memory_order_acquire);
    take_tasks(thread);
    busy_workers_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace tandem
