// Short ways to make an Error with a formatted message.
#pragma once

#include "base/format.h"
#include "base/try.h"
#include "tandem/status.h"

namespace tandem {

#define TANDEM_DEFINE_ERROR(function, code)                           \
  template <typename... Args>                                         \
  Error function(FormatString<Args...> format, const Args&... args) { \
    return Error{ErrorCode::code, str_format(format, args...)};       \
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

// The same error, prefixed with what was being done: "reading model.safetensors: ...". A message that begins with it
// already is left alone; one that begins with the file name of a path ("tokenizer.json has no ...") gets the rest of
// the path. So no caller has to know whether a callee has named the file.
Error prefixed(Error error, const std::string& context);
template <typename... Args>
Error with_context(Error error, FormatString<Args...> format, const Args&... args) {
  return prefixed(std::move(error), str_format(format, args...));
}

}  // namespace tandem
