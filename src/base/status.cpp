#include "base/error.h"

namespace tandem {

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
