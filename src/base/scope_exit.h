// Runs an action when a scope is left, however that happens.
#pragma once

#include <utility>

namespace tandem {

template <typename Action>
class [[nodiscard]] ScopeExit {
 public:
  // The action must not throw.
  explicit ScopeExit(Action action) : action_(std::move(action)) {}
  ~ScopeExit() {
    if (armed_) action_();
  }
  ScopeExit(const ScopeExit&) = delete;
  ScopeExit& operator=(const ScopeExit&) = delete;

  void cancel() { armed_ = false; }

 private:
  Action action_;
  bool armed_ = true;
};

}  // namespace tandem
