#include "process_state.h"

#include <pthread.h>

#include <chrono>
#include <thread>

#include "background_call.h"

namespace tandem::python {
namespace {

constexpr size_t kMostMessages = 1000;
// How long the end of the interpreter waits for threads that do not stop: loading a file cannot be interrupted.
constexpr auto kPatience = std::chrono::seconds(30);

ProcessState* g_state = nullptr;

}  // namespace

ProcessState& process_state() { return *g_state; }

void watch_forks() {
  if (g_state != nullptr) return;
  g_state = new ProcessState;
  ::pthread_atfork(nullptr, nullptr, [] { g_state = new ProcessState; });
}

void push_log(LogLevel level, std::string_view message) {
  ProcessState& state = process_state();
  const std::scoped_lock lock(state.mutex);
  if (state.log.size() >= kMostMessages) {
    state.log.pop_front();
    ++state.dropped_messages;
  }
  state.log.emplace_back(level, message);
}

std::vector<std::pair<LogLevel, std::string>> take_log() {
  ProcessState& state = process_state();
  const std::scoped_lock lock(state.mutex);
  std::vector<std::pair<LogLevel, std::string>> messages;
  if (state.dropped_messages > 0) {
    messages.emplace_back(LogLevel::kWarning, std::to_string(state.dropped_messages) + " older messages were dropped");
    state.dropped_messages = 0;
  }
  for (auto& message : state.log) messages.push_back(std::move(message));
  state.log.clear();
  return messages;
}

void shut_down() {
  ProcessState& state = process_state();
  if (state.exiting.exchange(true)) return;
  PyThreadState* const thread = PyEval_SaveThread();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  {
    std::unique_lock lock(state.mutex);
    for (BackgroundCall* call : state.calls) call->request_stop();
    state.changed.wait_until(lock, deadline, [&] { return state.threads == 0; });
  }
  while (state.outside.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  PyEval_RestoreThread(thread);
}

}  // namespace tandem::python
