// The engines and sessions that exist, by handle.
#pragma once

#include <atomic>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>

#include "base/scope_exit.h"
#include "c_api/handles.h"
#include "tandem/engine.h"
#include "tandem/tandem.h"

namespace tandem::c_api {

class SessionObject {
 public:
  explicit SessionObject(std::unique_ptr<Session> session) : session_(std::move(session)) {}

  Session& session() { return *session_; }

  // One call at a time. The session itself refuses a second one, but not reading its tokens meanwhile.
  template <typename Call>
  Status alone(Call&& call) {
    if (in_call_.test_and_set(std::memory_order_acquire)) {
      return invalid_argument("the session is in another call; wait until that has returned");
    }
    owner_.store(std::this_thread::get_id());
    const ScopeExit leave([&] {
      owner_.store({});
      in_call_.clear(std::memory_order_release);
    });
    return call();
  }
  // Whether this thread is in a call of the session: a callback asks.
  bool is_in_callback() const { return owner_.load() == std::this_thread::get_id(); }

  // Without memory for the message, the code must do.
  void remember(const Error& error) noexcept {
    const std::lock_guard lock(error_mutex_);
    try {
      last_ = error;
    } catch (const std::bad_alloc&) {
      last_ = Error{error.code, {}};
    }
  }
  // The last error; nullopt: none.
  std::optional<Error> last_error() const {
    const std::lock_guard lock(error_mutex_);
    return last_;
  }

 private:
  std::unique_ptr<Session> session_;
  std::atomic_flag in_call_;
  std::atomic<std::thread::id> owner_{};
  mutable std::mutex error_mutex_;
  std::optional<Error> last_;
};

// Never destroyed: a program may call from a thread that is still running when it exits.
HandleTable<Engine>& engines();
HandleTable<SessionObject>& sessions();

}  // namespace tandem::c_api
