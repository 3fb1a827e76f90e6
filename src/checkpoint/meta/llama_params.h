// The conventions of Meta's Llama code and its derivatives (llama2.c): params.json, tensor names, and how a model is
// split across devices.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "checkpoint/container.h"
#include "checkpoint/torch/torch_file.h"
#include "tandem/status.h"

namespace tandem {

inline constexpr int64_t kLlama3Bos = 128000;  // bos_token_id; the ids below are those of pieces of text.

using TorchTensors = std::map<std::string, TorchTensor>;

// Fills container.config, container.tensors and the tokens in container.generation. `params` is params.json, or
// llama2.c's model_args; `shards` has the tensors of each part. `params_what` and `what` name the files in errors.
Status add_llama(const Json& params, std::string_view params_what, const std::vector<TorchTensors>& shards,
                 std::string_view what, Container& container);

}  // namespace tandem
