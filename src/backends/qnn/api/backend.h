// Backend and Device: the initialized library, and the chip that it works for.
//
// Objects hold what they depend on (a context its device, a device its back end), so they are freed in the right order
// whatever order the caller drops them in. All are made by create() and used through shared pointers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backends/qnn/api/library.h"
#include "backends/qnn/api/log.h"
#include "tandem/status.h"

namespace tandem::qnn {

class Backend {
 public:
  struct Options {
    // The finest level that the library logs (log.h). Errors are always logged: they explain failures.
    LogLevel log_level = LogLevel::kError;
  };
  static Result<std::shared_ptr<const Backend>> create(std::shared_ptr<const Library> library, const Options& options);
  static Result<std::shared_ptr<const Backend>> create(std::shared_ptr<const Library> library) {
    return create(std::move(library), Options());
  }
  ~Backend();
  Backend(const Backend&) = delete;
  Backend& operator=(const Backend&) = delete;

  const std::shared_ptr<const Library>& library() const { return library_; }
  const abi::CoreTable& core() const { return library_->core(); }
  abi::Handle handle() const { return handle_; }
  abi::Handle log() const { return log_; }
  // From now on the library logs that level as well.
  void log_more(LogLevel level) const;

 private:
  explicit Backend(std::shared_ptr<const Library> library) : library_(std::move(library)) {}

  std::shared_ptr<const Library> library_;
  abi::Handle log_ = nullptr;
  mutable std::atomic<LogLevel> log_level_ = LogLevel::kError;
  abi::Handle handle_ = nullptr;
};

struct DeviceOptions {
  uint32_t soc_model = 0;  // Qualcomm's number, such as 69 for SM8750. 0: the chip that this runs on; not on x86.
  int arch = 0;            // Hexagon architecture, such as 79.
  int vtcm_mb = 8;
  // Run in a signed process on the DSP; devices only. Where it is refused, an unsigned one is used, and the log says
  // so.
  bool signed_pd = false;
  bool is_on_chip = !is_emulator();  // Whether there is a chip that this runs on. Tests have fake ones.
};

// The library validates ops for the device created last, whichever device is asked for. So a process has devices of one
// architecture only: create() refuses a second one.
class Device {
 public:
  static Result<std::shared_ptr<const Device>> create(std::shared_ptr<const Backend> backend,
                                                      const DeviceOptions& options);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const std::shared_ptr<const Backend>& backend() const { return backend_; }
  const abi::CoreTable& core() const { return backend_->core(); }
  abi::Handle handle() const { return handle_; }
  const DeviceOptions& options() const { return options_; }  // With what was granted.
  int arch() const { return options_.arch; }

 private:
  Device(std::shared_ptr<const Backend> backend, const DeviceOptions& options)
      : backend_(std::move(backend)), options_(options) {}
  abi::ErrorHandle open();

  std::shared_ptr<const Backend> backend_;
  DeviceOptions options_;
  abi::Handle handle_ = nullptr;
};

// For a caller that requested a signed process and has a device without one.
void warn_about_unsigned_pd();

// The chip that this runs on, as reported by the library: fields that it does not report are 0. On x86, where there is
// no chip, it still reports one; do not call it there.
struct ChipInfo {
  uint32_t soc_model = 0;
  int arch = 0;
  int vtcm_mb = 0;
};
ChipInfo query_chip(const Backend& backend);

// The architecture of a SoC that we know, or 0. The library itself takes any pair of the two without complaint.
int known_arch(uint32_t soc_model);
// The architectures that tandem knows, in order.
std::span<const int> known_archs();

}  // namespace tandem::qnn
