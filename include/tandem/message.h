// A turn of a conversation.
#pragma once

#include <string>

namespace tandem {

struct Message {
  std::string role;  // "system", "user", "assistant", …
  std::string content;
};

}  // namespace tandem
