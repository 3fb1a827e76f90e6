#include "base/guarded.h"

#include "base/error.h"

namespace tandem {

Error out_of_memory() noexcept {
  try {
    return resource_exhausted("out of memory; use a smaller model or context, or free memory and try again");
  } catch (...) {
    // Short enough for the small-string buffer.
    return Error{ErrorCode::kResourceExhausted, "out of memory"};
  }
}

Error out_of_system_resources(const std::system_error& error) {
  return guarded([&]() -> Status {
           return resource_exhausted("the system gave no more threads or handles ({}); close some and try again",
                                     error.what());
         })
      .error();
}

Error callback_threw(const char* what) {
  return invalid_argument("a callback threw an exception ({}); let it return an error or false instead",
                          what != nullptr ? what : "without a message");
}

Error unexpected_exception(const char* what) {
  return guarded(
             [&]() -> Status { return internal_error("an unexpected exception: {}", what != nullptr ? what : "?"); })
      .error();
}

}  // namespace tandem
