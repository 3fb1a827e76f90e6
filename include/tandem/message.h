// A turn of a conversation.
#pragma once

#include <string>

namespace tandem {

struct Message {
  std::string role;  // "system", "user", "assistant", …
  std::string content;
  // More of it, as a JSON object for the model's chat template: {"tool_calls": […]}, {"reasoning_content": "…"}.
  std::string fields = {};
};

}  // namespace tandem
