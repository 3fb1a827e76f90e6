// What Python's Engine and Session objects hold.
#pragma once

#include <unistd.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "background_call.h"
#include "tandem/engine.h"

namespace tandem::python {

// Throws if this process is a fork of the one that made the object: the engine's threads are only in that one.
void check_process(pid_t made_by);

struct EngineHandle {
  std::shared_ptr<Engine> engine;
  pid_t pid = ::getpid();

  explicit EngineHandle(std::shared_ptr<Engine> loaded) : engine(std::move(loaded)) {}
  // In a forked child nothing is freed: the threads that would have to be joined do not exist there.
  ~EngineHandle();
  EngineHandle(const EngineHandle&) = delete;
  EngineHandle& operator=(const EngineHandle&) = delete;
};

class SessionHandle : public std::enable_shared_from_this<SessionHandle> {
 public:
  SessionHandle(std::shared_ptr<EngineHandle> engine, std::unique_ptr<Session> session)
      : engine_(std::move(engine)), session_(std::move(session)) {}
  ~SessionHandle();
  SessionHandle(const SessionHandle&) = delete;
  SessionHandle& operator=(const SessionHandle&) = delete;

  // Makes `call` the one that runs and starts it. It waits for one that was told to stop; any other is an error.
  void begin(const std::shared_ptr<BackgroundCall>& call);
  // From the call's thread, when the library has returned.
  void end(const BackgroundCall* call);

  void cancel();
  void clear_cancel();
  // Stops what runs and frees the session.
  void close();
  bool closed();

  std::vector<int32_t> tokens();
  void rewind(int64_t length);

  // For the call that runs, on its thread.
  Session& session() { return *session_; }
  int64_t context() const { return engine_->engine->context(); }
  int64_t vocab_size() const { return engine_->engine->vocab_size(); }
  int64_t hidden_size() const { return engine_->engine->hidden_size(); }

 private:
  void check_open() const;  // Under mutex_.
  // The lock on an open session, once a call that was told to stop has ended.
  std::unique_lock<std::mutex> lock_when_settled();

  const pid_t pid_ = ::getpid();
  std::shared_ptr<EngineHandle> engine_;
  std::unique_ptr<Session> session_;
  std::mutex mutex_;
  std::shared_ptr<BackgroundCall> current_;
  bool closed_ = false;
};

}  // namespace tandem::python
