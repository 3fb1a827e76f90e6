// What the handles of the C interface stand for. A handle is a number that is never given twice, and not an address:
// one that was destroyed, or that never was one, is found out instead of being followed.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "base/error.h"

namespace tandem::c_api {

// Odd, so that none is the address of anything that a caller may have.
inline uintptr_t next_handle() {
  static std::atomic<uintptr_t> next{1};
  return next.fetch_add(2, std::memory_order_relaxed);
}

// The objects of one kind. Objects live as long as their handle, and longer while a call uses them.
template <typename T>
class HandleTable {
 public:
  // `kind` is for messages: "engine".
  explicit HandleTable(const char* kind) : kind_(kind) {}

  uintptr_t add(std::shared_ptr<T> object) {
    const uintptr_t handle = next_handle();
    const std::lock_guard lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  Result<std::shared_ptr<T>> find(const void* handle) const {
    if (handle == nullptr) return invalid_argument("the {} is NULL; give one that was made", kind_);
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (it == objects_.end()) return no_such();
    return it->second;
  }

  // The object, for the caller to let go of outside of the lock.
  Result<std::shared_ptr<T>> remove(const void* handle) {
    const std::lock_guard lock(mutex_);
    const auto it = objects_.find(reinterpret_cast<uintptr_t>(handle));
    if (it == objects_.end()) return no_such();
    std::shared_ptr<T> object = std::move(it->second);
    objects_.erase(it);
    return object;
  }

 private:
  Error no_such() const { return invalid_argument("there is no such {}: it was destroyed, or never made", kind_); }

  const char* kind_;
  mutable std::mutex mutex_;
  std::unordered_map<uintptr_t, std::shared_ptr<T>> objects_;
};

}  // namespace tandem::c_api
