// Threads that share loops. A loop is split into tasks; the caller works too and returns when all tasks are done.
//
// Made for kernels that last tens of microseconds: starting a loop allocates nothing, and workers spin briefly after a
// loop before they sleep, because the next one usually follows at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace tandem {

class ThreadPool {
 public:
  // `threads` counts the caller; 0 means one per core that this process may use. If the system grants fewer threads,
  // the pool has fewer: see size().
  explicit ThreadPool(int threads = 0);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(task, thread) for every task in [0, tasks), each once, on any of size() threads; `thread` is in [0,
  // size()). Tasks are handed out one by one, so a few more tasks than threads balance the load. One loop at a time:
  // calls from several threads wait for each other. Not to be called from inside a body. If bodies throw (memory may
  // run out), the first exception is rethrown here, once no thread is working; whether the other tasks ran is
  // unspecified.
  template <typename Body>
  void run(int64_t tasks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run_erased(
        tasks, [](void* context, int64_t task, int thread) { (*static_cast<Plain*>(context))(task, thread); },
        const_cast<void*>(static_cast<const void*>(&body)));
  }

 private:
  using Function = void (*)(void* context, int64_t task, int thread);

  void run_erased(int64_t tasks, Function function, void* context);
  void run_loop(uint32_t tasks, int64_t first, Function function, void* context);
  void work(int thread);
  void take_tasks(uint32_t loop, int thread);

  std::vector<std::thread> workers_;
  std::mutex one_loop_;  // Held by the thread whose loop is running.

  // The running loop. Written before its ticket, and not before all tasks of the previous loop are done: whoever holds
  // a task of a loop may read these.
  Function function_ = nullptr;
  void* context_ = nullptr;
  int64_t first_task_ = 0;
  uint32_t tasks_ = 0;
  // The loop's number in the upper half, the number of tasks not yet taken in the lower. A late worker finds another
  // number, or no tasks left, and takes none: so nobody waits for workers that have not woken up.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> finished_{0};

  std::mutex thrown_mutex_;
  std::exception_ptr thrown_;  // The first of the loop; read by the caller after the last task.

  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  int sleepers_ = 0;  // Guarded by sleep_mutex_.
  std::atomic<bool> stopping_{false};
};

// How many cores this process may use (its affinity mask, not the machine's count), without those that the system says
// have less than half the capacity of the fastest: a phone's efficiency cores. Every loop waits for its slowest thread.
// `system` is the folder with a cpuN/cpu_capacity for each core; machines whose cores are all alike have none.
int usable_cores(const std::filesystem::path& system = "/sys/devices/system/cpu");

}  // namespace tandem
