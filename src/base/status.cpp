#include "tandem/status.h"

#include "base/error.h"

namespace tandem {

const char* error_code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return "invalid_argument";
    case ErrorCode::kNotFound: return "not_found";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kIo: return "io";
    case ErrorCode::kResourceExhausted: return "resource_exhausted";
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kInternal: return "internal";
  }
  return "unknown";
}

const Error& no_error() {
  static const Error error{ErrorCode::kInternal, "no error"};
  return error;
}

Error prefixed(Error error, const std::string& context) {
  std::string& message = error.message;
  const auto begins_with = [&](const std::string& name) {
    if (name.empty() || !message.starts_with(name) || message.size() == name.size()) return false;
    const char next = message[name.size()];
    return next == ':' || next == ' ';
  };
  if (begins_with(context)) return error;
  const size_t slash = context.rfind('/');
  const std::string name = slash == std::string::npos ? "" : context.substr(slash + 1);
  message = begins_with(name) ? context + message.substr(name.size()) : context + ": " + message;
  return error;
}

}  // namespace tandem
