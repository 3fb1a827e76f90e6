// Short ways to make an Error with an fmt message.
#pragma once

#include <fmt/format.h>

#include "tandem/status.h"

namespace tandem {

#define TANDEM_DEFINE_ERROR(function, code)                                          \
  template <typename... Args>                                                        \
  Error function(fmt::format_string<Args...> format, Args&&... args) {               \
    return Error{ErrorCode::code, fmt::format(format, std::forward<Args>(args)...)}; \
  }

TANDEM_DEFINE_ERROR(invalid_argument, kInvalidArgument)
TANDEM_DEFINE_ERROR(not_found, kNotFound)
TANDEM_DEFINE_ERROR(unsupported, kUnsupported)
TANDEM_DEFINE_ERROR(corrupt, kCorrupt)
TANDEM_DEFINE_ERROR(io_error, kIo)
TANDEM_DEFINE_ERROR(resource_exhausted, kResourceExhausted)
TANDEM_DEFINE_ERROR(cancelled, kCancelled)
TANDEM_DEFINE_ERROR(internal_error, kInternal)

#undef TANDEM_DEFINE_ERROR

// The same error, with what was being done put before it: "reading model.safetensors: ...".
template <typename... Args>
Error with_context(Error error, fmt::format_string<Args...> format, Args&&... args) {
  error.message = fmt::format(format, std::forward<Args>(args)...) + ": " + error.message;
  return error;
}

}  // namespace tandem
