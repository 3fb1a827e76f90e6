#include "base/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <new>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/temp_folder.h"

namespace tandem {
namespace thread_pool_test {

// Every task once, every thread number in range.
void expect_each_task_once(ThreadPool& pool, int64_t tasks) {
  std::vector<std::atomic<int>> seen(static_cast<size_t>(tasks));
  std::atomic<int> bad_threads = 0;
  pool.run(tasks, [&](int64_t task, int thread) {
    seen[static_cast<size_t>(task)].fetch_add(1);
    if (thread < 0 || thread >= pool.size()) bad_threads.fetch_add(1);
  });
  int64_t wrong = 0;
  for (const auto& count : seen) wrong += count.load() != 1;
  EXPECT_EQ(wrong, 0) << tasks << " tasks on " << pool.size() << " threads";
  EXPECT_EQ(bad_threads.load(), 0);
}

TEST(ThreadPool, HasTheSizeAskedFor) {
  EXPECT_EQ(ThreadPool(1).size(), 1);
  EXPECT_EQ(ThreadPool(3).size(), 3);
  EXPECT_EQ(ThreadPool(0).size(), usable_cores());
  EXPECT_EQ(ThreadPool(-5).size(), usable_cores());
  EXPECT_GE(usable_cores(), 1);
  EXPECT_EQ(usable_cores("/no such folder"), usable_cores());
}

TEST(ThreadPool, EfficiencyCoresAreNotCounted) {
  const int all = usable_cores("/no such folder");
  const test::TempFolder system;
  cpu_set_t set;
  CPU_ZERO(&set);
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  int cores = 0;
  const auto write_capacities = [&](const std::string& first, const std::string& others) {
    cores = 0;
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (!CPU_ISSET(core, &set)) continue;
      const auto folder = system.path() / ("cpu" + std::to_string(core));
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "cpu_capacity") << (cores++ == 0 ? first : others) << "\n";
    }
  };
  write_capacities("325", "1024");
  EXPECT_EQ(usable_cores(system.path()), all == 1 ? 1 : all - 1);
  write_capacities("1024", "325");
  EXPECT_EQ(usable_cores(system.path()), 1);
  write_capacities("512", "1024");
  EXPECT_EQ(usable_cores(system.path()), all) << "half is enough";
  write_capacities("nonsense", "-5");
  EXPECT_EQ(usable_cores(system.path()), all);
}

TEST(ThreadPool, AnAbsurdSizeIsClamped) {
  const ThreadPool pool(1'000'000);
  EXPECT_GE(pool.size(), 1);
  EXPECT_LE(pool.size(), 1024);
}

TEST(ThreadPool, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const int64_t tasks : {0, 1, 2, 3, 7, 8, 9, 100, 10'000}) expect_each_task_once(pool, tasks);
  }
}

TEST(ThreadPool, WritesOfTasksAreVisibleAfterwards) {
  ThreadPool pool(4);
  std::vector<int64_t> values(1000, 0);  // Not atomic: run() itself must order the writes.
  for (int64_t round = 1; round <= 200; ++round) {
    pool.run(1000, [&](int64_t task, int) { values[static_cast<size_t>(task)] += task; });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), int64_t{0}), round * 999 * 500);
  }
}

// Loop after loop, as in decoding: far shorter than a thread's sleep.
TEST(ThreadPool, ManySmallLoops) {
  for (const int threads : {2, 4}) {
    ThreadPool pool(threads);
    std::atomic<int64_t> sum = 0;
    constexpr int64_t kLoops = 2'000;
    for (int64_t loop = 0; loop < kLoops; ++loop) {
      pool.run(threads + loop % 3, [&](int64_t, int) { sum.fetch_add(1, std::memory_order_relaxed); });
    }
    int64_t wanted = 0;
    for (int64_t loop = 0; loop < kLoops; ++loop) wanted += threads + loop % 3;
    EXPECT_EQ(sum.load(), wanted);
  }
}

// One loop after another, each with a different number of tasks: no task of an old loop may leak into the next.
TEST(ThreadPool, ChangingSizesLeakNoTask) {
  ThreadPool pool(3);
  for (int64_t outer = 1; outer <= 60; ++outer) {
    for (int64_t inner = outer; inner > 0; inner /= 2) expect_each_task_once(pool, outer * inner);
  }
}

// Workers fall asleep between loops; the pauses vary around the time that they spin.
TEST(ThreadPool, SleepingWorkersWakeUp) {
  ThreadPool pool(4);
  int64_t wanted = 0;
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 400; ++i) {
    pool.run(8, [&](int64_t task, int) {
      if (task % 4 == i % 4) std::this_thread::sleep_for(std::chrono::microseconds(i % 50));
      sum.fetch_add(task);
    });
    wanted += 28;
    ASSERT_EQ(sum.load(), wanted) << i;
    std::this_thread::sleep_for(std::chrono::microseconds(i % 7 == 0 ? 2000 : i));
  }
}

TEST(ThreadPool, CallersWaitForEachOther) {
  ThreadPool pool(3);
  std::atomic<int64_t> sum = 0;
  std::atomic<int> inside = 0, most = 0;
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        pool.run(16, [&](int64_t, int) {
          const int now = inside.fetch_add(1) + 1;
          int seen = most.load();
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
          sum.fetch_add(1);
          inside.fetch_sub(1);
        });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum.load(), 4 * 500 * 16);
  EXPECT_LE(most.load(), 3);
}

TEST(ThreadPool, CanBeDestroyedWithoutRunning) {
  for (int i = 0; i < 200; ++i) {
    ThreadPool pool(1 + i % 5);
    if (i % 3 == 0) expect_each_task_once(pool, 5);
  }
}

TEST(ThreadPool, TakesBodiesOfAnyKind) {
  ThreadPool pool(2);
  struct Counter {
    mutable std::atomic<int> calls = 0;
    void operator()(int64_t, int) const { calls.fetch_add(1); }
  };
  const Counter counter;
  pool.run(10, counter);
  EXPECT_EQ(counter.calls.load(), 10);
}

TEST(ThreadPool, RunRethrowsAnExceptionOfAnyTask) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      const int64_t culprit = round % 40;
      std::atomic<int> running = 0;
      EXPECT_THROW(pool.run(40,
                            [&](int64_t task, int) {
                              running.fetch_add(1);
                              if (task == culprit) {
                                running.fetch_sub(1);
                                throw std::bad_alloc();
                              }
                              running.fetch_sub(1);
                            }),
                   std::bad_alloc);
      EXPECT_EQ(running.load(), 0) << "run() returned before a task had ended";
      // The pool remains usable.
      if (round % 20 == 0) expect_each_task_once(pool, 50);
    }
    EXPECT_THROW(pool.run(40, [](int64_t, int) { throw std::runtime_error("every task"); }), std::runtime_error);
    expect_each_task_once(pool, 50);
  }
}

// Short loops of varying lengths, in quick succession, with more threads than cores: some worker is always too late for
// its loop.
TEST(ThreadPool, LateWorkersDisturbNoLoop) {
  ThreadPool pool(7);
  std::vector<std::atomic<int>> counts(64);
  for (int round = 0; round < 30000; ++round) {
    const int64_t tasks = 2 + round % 5 * (round % 7) * 2;
    pool.run(tasks, [&](int64_t task, int) { counts[static_cast<size_t>(task)].fetch_add(1); });
    for (int64_t task = 0; task < tasks; ++task) {
      ASSERT_EQ(counts[static_cast<size_t>(task)].exchange(0), 1) << "round " << round << ", task " << task;
    }
  }
}

}  // namespace thread_pool_test
}  // namespace tandem
