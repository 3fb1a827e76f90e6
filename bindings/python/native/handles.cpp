#include "handles.h"

#include "calls.h"
#include "failure.h"

namespace tandem::python {
namespace {

Failure misuse(const char* message) { return Failure({ErrorCode::kInvalidArgument, message}); }

}  // namespace

void check_process(pid_t made_by) {
  if (made_by == ::getpid()) return;
  throw misuse("this object was made before a fork, in another process; load the model in this process");
}

EngineHandle::~EngineHandle() {
  if (pid != ::getpid()) new std::shared_ptr<Engine>(std::move(engine));
}

SessionHandle::~SessionHandle() {
  if (pid_ != ::getpid()) static_cast<void>(session_.release());
}

void SessionHandle::check_open() const {
  if (closed_) throw misuse("the session is closed; make another one with Engine.session()");
}

std::unique_lock<std::mutex> SessionHandle::lock_when_settled() {
  check_process(pid_);
  for (;;) {
    std::shared_ptr<BackgroundCall> stopping;
    {
      std::unique_lock lock(mutex_);
      check_open();
      if (!current_ || !current_->stop_requested()) return lock;
      stopping = current_;
    }
    stopping->wait_done();
  }
}

void SessionHandle::begin(const std::shared_ptr<BackgroundCall>& call) {
  {
    const auto lock = lock_when_settled();
    if (current_) {
      throw misuse("the session is still generating; read the stream to its end, close it, or use another session");
    }
    current_ = call;
  }
  try {
    call->start();
  } catch (...) {
    end(call.get());
    throw;
  }
}

void SessionHandle::end(const BackgroundCall* call) {
  const std::scoped_lock lock(mutex_);
  if (current_.get() == call) current_.reset();
}

void SessionHandle::cancel() {
  check_process(pid_);
  std::shared_ptr<BackgroundCall> running;
  {
    const std::scoped_lock lock(mutex_);
    check_open();
    session_->cancel();
    running = current_;
  }
  if (running) running->release();
}

void SessionHandle::clear_cancel() {
  check_process(pid_);
  const std::scoped_lock lock(mutex_);
  check_open();
  session_->clear_cancel();
}

void SessionHandle::close() {
  if (pid_ != ::getpid()) return;
  std::shared_ptr<BackgroundCall> running;
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    running = current_;
  }
  if (running) {
    running->request_stop();
    running->wait_done();
  }
  const Unlocked unlocked;
  std::unique_ptr<Session> session;
  const std::scoped_lock lock(mutex_);
  session = std::move(session_);
}

bool SessionHandle::closed() {
  if (pid_ != ::getpid()) return false;
  const std::scoped_lock lock(mutex_);
  return closed_;
}

std::vector<int32_t> SessionHandle::tokens() {
  const auto lock = lock_when_settled();
  std::vector<int32_t> copy;
  const auto read = [&] { copy.assign(session_->tokens().begin(), session_->tokens().end()); };
  if (!current_) {
    read();
  } else if (!current_->while_paused(read)) {
    throw misuse("the session is generating; its tokens can be read between the pieces of the stream");
  }
  return copy;
}

void SessionHandle::rewind(int64_t length) {
  const auto lock = lock_when_settled();
  if (current_) throw misuse("the session is still generating; read the stream to its end, or close it");
  check(session_->rewind(length));
}

}  // namespace tandem::python
