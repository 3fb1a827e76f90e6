// Context: where graphs live together, and what becomes one binary.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/qnn/api/backend.h"
#include "tandem/status.h"

namespace tandem::qnn {

// A context binary, with facts that the library neither reports nor checks.
struct ContextBinary {
  std::span<const uint8_t> bytes;
  bool weight_shared = false;  // The x86 library crashes on such binaries; they are never passed to it.
  int arch = 0;                // The architecture that it was compiled for.
  uint64_t checksum = 0;  // binary_checksum() when it was made. The library may take damaged bytes without complaint.
};

uint64_t binary_checksum(std::span<const uint8_t> bytes);  // XXH3-64, as the artifact's segments.

// A finished binary and its description.
struct OwnedBinary {
  std::vector<uint8_t> bytes;
  bool weight_shared = false;
  int arch = 0;
  uint64_t checksum = 0;

  ContextBinary view() const { return {bytes, weight_shared, arch, checksum}; }
};

class Context {
 public:
  struct Options {
    bool weight_sharing = false;  // Graphs with the same constants share them, in memory and in the binary. From V73.
  };
  static Result<std::shared_ptr<const Context>> create(std::shared_ptr<const Device> device, const Options& options);

  // Contexts that take turns can share their scratch memory. The first of a group has no `first`.
  struct Group {
    std::shared_ptr<const Context> first;
    uint64_t spill_fill_bytes = 0;  // The largest of all graphs in all contexts of the group; BinaryInfo has each.
  };
  struct LoadOptions {
    bool use_group = false;  // Where the platform refuses groups, as x86 does, the context is loaded without one.
    Group group;
    bool checksum_compared = false;  // The caller has compared it a moment ago; reading gigabytes again takes a while.
  };
  // `binary` may go away afterwards.
  static Result<std::shared_ptr<const Context>> load(std::shared_ptr<const Device> device, const ContextBinary& binary,
                                                     const LoadOptions& options);
  static Result<std::shared_ptr<const Context>> load(std::shared_ptr<const Device> device,
                                                     const ContextBinary& binary) {
    return load(std::move(device), binary, LoadOptions());
  }
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Once all graphs are finalized. read_binary() fills a buffer of binary_size() bytes, a mapped file for instance, and
  // returns how many it used.
  Result<uint64_t> binary_size() const;
  Result<uint64_t> read_binary(std::span<uint8_t> buffer) const;
  Result<OwnedBinary> binary() const;

  const std::shared_ptr<const Device>& device() const { return device_; }
  const abi::CoreTable& core() const { return device_->core(); }
  abi::Handle handle() const { return handle_; }
  bool weight_shared() const { return weight_shared_; }
  bool loaded() const { return loaded_; }
  bool in_group() const { return in_group_; }

 private:
  explicit Context(std::shared_ptr<const Device> device) : device_(std::move(device)) {}

  std::shared_ptr<const Device> device_;
  std::shared_ptr<const Context> group_first_;  // Has to live for as long as anyone is in its group.
  abi::Handle handle_ = nullptr;
  bool weight_shared_ = false;
  bool loaded_ = false;
  bool in_group_ = false;
};

}  // namespace tandem::qnn
