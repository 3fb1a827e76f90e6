// What the module keeps per process: log messages that Python has not read yet, and how many threads are inside tandem
// without the interpreter's lock, so that the interpreter can wait for them before it ends.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tandem/log.h"

namespace tandem::python {

class BackgroundCall;

struct ProcessState {
  const pid_t pid = ::getpid();
  std::atomic<bool> exiting{false};
  std::atomic<int> outside{0};  // Python's threads that wait or work without the interpreter's lock.

  std::mutex mutex;
  std::condition_variable changed;
  int threads = 0;  // Ours that are running.
  std::set<BackgroundCall*> calls;
  std::deque<std::pair<LogLevel, std::string>> log;
  size_t dropped_messages = 0;
};

// Never destroyed: threads of a vendor's library may log while the process ends. A forked child gets a new one, because
// threads of its parent, which it does not have, may have held the lock.
ProcessState& process_state();
// Once, when the module is imported.
void watch_forks();

// Stops all calls and waits for their threads and for Python's threads inside tandem. Called with the interpreter's
// lock, before Python ends: afterwards a thread that asks for the lock would be killed in the middle of our code.
void shut_down();

// The log is a queue that Python reads: the library's threads never need the interpreter's lock.
void push_log(LogLevel level, std::string_view message);
std::vector<std::pair<LogLevel, std::string>> take_log();

// Without the interpreter's lock as long as it lives, unless the interpreter is about to end: then the lock is kept,
// because a thread that asked for it later would be killed. No lock of ours may be held when it ends.
class Unlocked {
 public:
  Unlocked() {
    if (process_state().exiting.load()) return;
    process_state().outside.fetch_add(1);
    thread_ = PyEval_SaveThread();
  }
  ~Unlocked() {
    if (thread_ == nullptr) return;
    PyEval_RestoreThread(thread_);
    process_state().outside.fetch_sub(1);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* thread_ = nullptr;
};

}  // namespace tandem::python
