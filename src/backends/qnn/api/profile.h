// Profile: a handle that collects events of the library's calls, and what we read from it.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "backends/interface/estimate.h"
#include "backends/qnn/api/backend.h"
#include "tandem/status.h"

namespace tandem::qnn {

class Profile {
 public:
  static Result<Profile> create(std::shared_ptr<const Backend> backend);
  ~Profile();
  Profile(Profile&& other) noexcept
      : backend_(std::move(other.backend_)), handle_(std::exchange(other.handle_, nullptr)) {}
  Profile& operator=(Profile&&) = delete;

  abi::Handle handle() const { return handle_; }

  // Of the graph that was finalized with this; nothing where the library has no simulation of the chip.
  Result<std::optional<Estimate>> read_estimate() const;

 private:
  explicit Profile(std::shared_ptr<const Backend> backend) : backend_(std::move(backend)) {}

  std::shared_ptr<const Backend> backend_;
  abi::Handle handle_ = nullptr;
};

}  // namespace tandem::qnn
