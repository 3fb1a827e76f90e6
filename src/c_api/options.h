// Options, messages and results, from C to C++ and back.
#pragma once

#include <vector>

#include "tandem/engine.h"
#include "tandem/tandem.h"

namespace tandem::c_api {

// Null: defaults.
Result<EngineOptions> to_engine_options(const tandem_engine_options* given);

struct GenerateCall {
  GenerateOptions options;
  StreamCallback callback;
};
// Null: defaults.
Result<GenerateCall> to_generate_call(const tandem_generate_options* given);
// `options` has a size and is zero otherwise.
void from_generate_options(const GenerateOptions& from, tandem_generate_options* options);

Result<std::vector<Message>> to_messages(const tandem_message* messages, size_t count);
Result<std::vector<Message>> to_messages(const char* json);
// `result` was cleared.
Status write_result(const GenerateResult& from, tandem_generate_result* result);

}  // namespace tandem::c_api
