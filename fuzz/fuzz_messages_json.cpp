// Any bytes as a conversation in JSON: refused, or messages whose fields are JSON objects that say the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "chat/chat_template.h"
#include "chat/messages_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto messages = tandem::parse_messages({reinterpret_cast<const char*>(data), size});
  if (!messages.ok()) {
    if (messages.error().code != tandem::ErrorCode::kInvalidArgument || messages.error().message.empty()) std::abort();
    return 0;
  }
  for (const tandem::Message& message : *messages) {
    const auto value = tandem::message_value(message);
    if (!value.ok()) std::abort();
    const tandem::jinja::Value* const role = value->dict().find("role");
    if (role == nullptr || role->text() != message.role) std::abort();
  }
  return 0;
}
