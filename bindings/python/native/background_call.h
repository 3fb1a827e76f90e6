// A call of the library on a thread of its own. The Python thread that made it waits without the interpreter's lock, a
// few milliseconds at a time, so that Ctrl-C and Python's other threads get their turn. Our thread never touches
// Python: it needs no lock of the interpreter's, and the interpreter may end at any time.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "process_state.h"

namespace tandem::python {

class BackgroundCall : public std::enable_shared_from_this<BackgroundCall> {
 public:
  BackgroundCall() = default;
  virtual ~BackgroundCall() = default;
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  // Starts the thread, which keeps the call alive until it is done.
  void start();

  // Makes the call end soon; from any thread, and any number of times. In a forked child all this does nothing: the
  // thread is not there, and may have held the lock.
  void request_stop();
  bool stop_requested();
  // Calls `action` while the call waits for its reader, or returns false.
  virtual bool while_paused(const std::function<void()>&) { return false; }
  // Lets a call go on that waits for its reader.
  virtual void release() {}

  bool done();
  // Waits for the end, at most so long. With the interpreter's lock, which is released meanwhile.
  bool wait_done(std::chrono::milliseconds most);
  void wait_done();

 protected:
  // On the thread. Keeps its result for those who ask once done() is true.
  virtual void run() = 0;
  // Tells the library to stop. Called with mutex_ held, and never after run() has returned.
  virtual void stop_library() {}
  // On the thread, after run() and before done() is true.
  virtual void ended() {}

  const pid_t pid_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;      // Under mutex_, like all below.
  bool returned_ = false;  // run() has.
  bool done_ = false;

 private:
  void run_to_the_end();
};

}  // namespace tandem::python
