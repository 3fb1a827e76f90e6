#include "background_call.h"

#include <system_error>
#include <thread>
#include <utility>

#include "failure.h"

namespace tandem::python {

void BackgroundCall::start() {
  ProcessState& state = process_state();
  {
    const std::scoped_lock lock(state.mutex);
    if (state.exiting.load()) throw Failure({ErrorCode::kInvalidArgument, "the interpreter is about to exit"});
    ++state.threads;
    state.calls.insert(this);
  }
  const auto unlist = [&state](BackgroundCall* call) {
    const std::scoped_lock lock(state.mutex);
    state.calls.erase(call);
  };
  const auto leave = [&state] {
    const std::scoped_lock lock(state.mutex);
    --state.threads;
    state.changed.notify_all();
  };
  try {
    std::thread([unlist, leave, self = shared_from_this()]() mutable {
      self->run_to_the_end();
      unlist(self.get());
      self.reset();  // May free the session and its engine; until that is done, the process should not end.
      leave();
    }).detach();
  } catch (const std::system_error& error) {
    unlist(this);
    leave();
    const std::scoped_lock lock(mutex_);
    returned_ = done_ = true;
    changed_.notify_all();
    throw Failure({ErrorCode::kResourceExhausted, std::string("no thread can be started: ") + error.what()});
  }
}

void BackgroundCall::run_to_the_end() {
  run();
  {
    const std::scoped_lock lock(mutex_);
    returned_ = true;
  }
  ended();
  const std::scoped_lock lock(mutex_);
  done_ = true;
  changed_.notify_all();
}

void BackgroundCall::request_stop() {
  if (pid_ != ::getpid()) return;
  const std::scoped_lock lock(mutex_);
  stop_ = true;
  if (!returned_) stop_library();
  changed_.notify_all();
}

bool BackgroundCall::stop_requested() {
  const std::scoped_lock lock(mutex_);
  return stop_;
}

bool BackgroundCall::done() {
  const std::scoped_lock lock(mutex_);
  return done_;
}

bool BackgroundCall::wait_done(std::chrono::milliseconds most) {
  if (pid_ != ::getpid()) return true;
  const Unlocked unlocked;
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, most, [&] { return done_; });
}

void BackgroundCall::wait_done() {
  if (pid_ != ::getpid()) return;
  const Unlocked unlocked;
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_; });
}

}  // namespace tandem::python
