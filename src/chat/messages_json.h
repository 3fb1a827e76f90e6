// A conversation as JSON, as chat APIs write it: [{"role": "user", "content": "Hello"}, …].
#pragma once

#include <string_view>
#include <vector>

#include "tandem/message.h"
#include "tandem/status.h"

namespace tandem {

// Each message's whole object goes into its fields as it is written, so that the chat template sees what the caller
// wrote, the order of keys too. A message needs a role; one without content has an empty one.
Result<std::vector<Message>> parse_messages(std::string_view json);

}  // namespace tandem
