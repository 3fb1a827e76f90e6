#include "backends/qnn/api/context.h"

#include <array>
#include <new>
#include <utility>

#include "backends/qnn/api/errors.h"
#include "base/error.h"
#include "base/hash.h"

namespace tandem::qnn {
namespace {

// One HTP option as a config list.
struct HtpContextConfigs {
  explicit HtpContextConfigs(const abi::HtpContextConfig& option) : custom(option) {
    config.option = abi::ContextOption::kCustom;
    config.custom = &custom;
  }
  HtpContextConfigs(const HtpContextConfigs&) = delete;
  HtpContextConfigs& operator=(const HtpContextConfigs&) = delete;

  abi::HtpContextConfig custom;
  abi::ContextConfig config = {};
  std::array<const abi::ContextConfig*, 2> list = {&config, nullptr};
};

Status check(const Device& device, const ContextBinary& binary, bool checksum_compared) {
  if (binary.bytes.empty()) return corrupt("the context binary is empty; compile the model again");
  if (binary.weight_shared && is_emulator()) {
    return unsupported(
        "this context binary shares weights between methods, and the QNN emulator on x86 cannot load such binaries; "
        "run it on a device, or compile for the emulator (unshared)");
  }
  if (device.arch() != 0 && binary.arch != device.arch()) {
    return unsupported("the context binary was compiled for V{} and this is V{}; compile the model for this target",
                       binary.arch, device.arch());
  }
  if (!checksum_compared && binary_checksum(binary.bytes) != binary.checksum) {
    return corrupt(
        "the context binary is damaged (its checksum does not fit); copy the file again or compile it again");
  }
  return {};
}

}  // namespace

uint64_t binary_checksum(std::span<const uint8_t> bytes) { return hash_bytes(bytes); }

Result<std::shared_ptr<const Context>> Context::create(std::shared_ptr<const Device> device, const Options& options) {
  if (device == nullptr) return internal_error("a QNN context needs a device");
  if (options.weight_sharing && device->arch() != 0 && device->arch() < 73) {
    return unsupported("weight sharing needs V73 or later, and this is V{}; compile unshared", device->arch());
  }
  const auto context = std::shared_ptr<Context>(new Context(std::move(device)));
  abi::HtpContextConfig sharing = {};
  sharing.option = abi::HtpContextOption::kWeightSharing;
  sharing.weight_sharing = true;
  HtpContextConfigs configs(sharing);
  const ErrorListener listener;
  const auto result =
      context->core().context_create(context->device_->backend()->handle(), context->device_->handle(),
                                     options.weight_sharing ? configs.list.data() : nullptr, &context->handle_);
  if (result != abi::kSuccess) return describe_error(result, "creating a context", listener.said());
  context->weight_shared_ = options.weight_sharing;
  return std::shared_ptr<const Context>(context);
}

Result<std::shared_ptr<const Context>> Context::load(std::shared_ptr<const Device> device, const ContextBinary& binary,
                                                     const LoadOptions& options) {
  if (device == nullptr) return internal_error("a QNN context needs a device");
  TANDEM_TRY(check(*device, binary, options.checksum_compared));
  const auto context = std::shared_ptr<Context>(new Context(std::move(device)));
  const auto create = [&](const abi::ContextConfig** configs) {
    return context->core().context_create_from_binary(context->device_->backend()->handle(), context->device_->handle(),
                                                      configs, binary.bytes.data(), binary.bytes.size(),
                                                      &context->handle_, nullptr);
  };
  const ErrorListener listener;
  const StdoutCapture capture;
  abi::ErrorHandle result = abi::kSuccess;
  // A second context of a group whose first was refused its group has nothing to join.
  const bool joins = options.use_group && (options.group.first == nullptr || options.group.first->in_group_);
  if (joins) {
    abi::HtpContextConfig group = {};
    group.option = abi::HtpContextOption::kRegisterMultiContexts;
    group.group.first = options.group.first != nullptr ? options.group.first->handle_ : nullptr;
    group.group.spill_fill_bytes = options.group.spill_fill_bytes;
    HtpContextConfigs configs(group);
    result = create(configs.list.data());
    if (result == abi::kSuccess) {
      context->in_group_ = true;
      context->group_first_ = options.group.first;
    }
  }
  const auto code = static_cast<uint32_t>(result & abi::kErrorCodeMask);
  if (!joins || code == kCodeInvalidContextConfig || code == kCodeNotSupported) {
    if (joins) log_message(LogLevel::kWarning, "this platform refuses context groups; loading without one");
    if (context->handle_ != nullptr) context->core().context_free(std::exchange(context->handle_, nullptr), nullptr);
    result = create(nullptr);
  }
  if (result != abi::kSuccess) return describe_error(result, "loading a context binary", listener.said());
  context->weight_shared_ = binary.weight_shared;
  context->loaded_ = true;
  return std::shared_ptr<const Context>(context);
}

// Also after a failed create: for some configs the library answers with an error and a handle.
Context::~Context() {
  if (handle_ != nullptr) core().context_free(handle_, nullptr);
}

Result<uint64_t> Context::binary_size() const {
  uint64_t bytes = 0;
  const ErrorListener listener;
  if (const auto result = core().context_get_binary_size(handle_, &bytes); result != abi::kSuccess) {
    return describe_error(result, "asking for the size of a context binary", listener.said());
  }
  if (bytes == 0) return internal_error("QNN says that the context binary is empty");
  return bytes;
}

Result<uint64_t> Context::read_binary(std::span<uint8_t> buffer) const {
  TANDEM_ASSIGN(const uint64_t needed, binary_size());
  if (buffer.size() < needed) {
    return invalid_argument("the context binary has {} bytes, and the buffer for it has {}", needed, buffer.size());
  }
  uint64_t written = 0;
  const ErrorListener listener;
  if (const auto result = core().context_get_binary(handle_, buffer.data(), buffer.size(), &written);
      result != abi::kSuccess) {
    return describe_error(result, "writing a context binary", listener.said());
  }
  if (written == 0 || written > buffer.size()) return internal_error("QNN wrote {} of {} bytes", written, needed);
  return written;
}

Result<OwnedBinary> Context::binary() const {
  OwnedBinary owned;
  TANDEM_ASSIGN(const uint64_t bytes, binary_size());
  try {
    owned.bytes.resize(bytes);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("there is no memory for a context binary of {} bytes; use more shards", bytes);
  }
  TANDEM_ASSIGN(const uint64_t written, read_binary(owned.bytes));
  owned.bytes.resize(written);
  owned.weight_shared = weight_shared_;
  owned.arch = device_->arch();
  owned.checksum = binary_checksum(owned.bytes);
  return owned;
}

}  // namespace tandem::qnn
