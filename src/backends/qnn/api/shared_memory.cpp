#include "backends/qnn/api/shared_memory.h"

#include "backends/qnn/api/errors.h"
#include "backends/qnn/api/log.h"
#include "base/checked.h"
#include "base/error.h"

namespace tandem::qnn {

Result<std::shared_ptr<const SharedTensor>> SharedTensor::create(std::shared_ptr<const Context> context,
                                                                 const TensorInfo& info, const SharedRange& range) {
  if (context == nullptr) return internal_error("shared memory needs a context");
  if (!range_inside(range.offset, info.bytes, range.buffer_bytes) || range.fd < 0) {
    return invalid_argument("tensor {} of {} bytes is not inside of its shared buffer", info.name, info.bytes);
  }
  const abi::CoreTable& core = context->core();
  if (core.memory_register == nullptr || core.memory_deregister == nullptr) {
    return unsupported("the QNN library takes no shared memory");
  }
  abi::HtpMemoryDescriptor custom = {};
  custom.type = abi::HtpMemoryType::kSharedBuffer;
  custom.size = range.buffer_bytes;
  custom.fd = range.fd;
  custom.offset = range.offset;
  abi::MemoryDescriptor descriptor = {};
  descriptor.shape.rank = static_cast<uint32_t>(info.shape.size());
  descriptor.shape.dimensions = info.shape.data();
  descriptor.dtype = info.dtype;
  descriptor.type = abi::MemoryType::kCustom;
  descriptor.custom = &custom;
  auto tensor = std::shared_ptr<SharedTensor>(new SharedTensor(std::move(context)));
  const ErrorListener listener;
  const StdoutCapture capture;
  if (const auto result = core.memory_register(tensor->context_->handle(), &descriptor, 1, &tensor->handle_);
      result != abi::kSuccess) {
    tensor->handle_ = nullptr;
    return describe_error(result, "sharing the memory of tensor " + info.name, listener.said());
  }
  return std::shared_ptr<const SharedTensor>(std::move(tensor));
}

SharedTensor::~SharedTensor() {
  if (handle_ != nullptr) context_->core().memory_deregister(&handle_, 1);
}

}  // namespace tandem::qnn
