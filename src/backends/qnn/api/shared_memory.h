// Shared memory (rpcmem.h) registered with a context, so that a graph accesses a tensor by a handle and copies nothing.
// The x86 library refuses to register memory (1000); callers then pass plain pointers.
#pragma once

#include <memory>

#include "backends/qnn/api/context.h"
#include "backends/qnn/api/rpcmem.h"
#include "backends/qnn/api/tensor_info.h"
#include "tandem/status.h"

namespace tandem::qnn {

// Registered for as long as the object lives. The memory must live longer.
class SharedTensor {
 public:
  static Result<std::shared_ptr<const SharedTensor>> create(std::shared_ptr<const Context> context,
                                                            const TensorInfo& info, const SharedRange& range);
  ~SharedTensor();
  SharedTensor(const SharedTensor&) = delete;
  SharedTensor& operator=(const SharedTensor&) = delete;

  abi::Handle handle() const { return handle_; }

 private:
  explicit SharedTensor(std::shared_ptr<const Context> context) : context_(std::move(context)) {}

  std::shared_ptr<const Context> context_;
  abi::Handle handle_ = nullptr;
};

}  // namespace tandem::qnn
