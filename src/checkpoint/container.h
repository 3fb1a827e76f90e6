// The common form of checkpoints that are not hub folders: weights under the hub's names, and the content of a hub's
// configuration files. Each reader below makes one; Checkpoint presents it to everyone else.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "checkpoint/hub/generation_config.h"
#include "checkpoint/hub/tokenizer_config.h"
#include "checkpoint/stored_tensor.h"
#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

struct Container {
  std::vector<MappedFile> files;
  std::map<std::string, StoredTensor, std::less<>> tensors;
  Json config;              // config.json
  std::string config_what;  // Its source, for errors: "params.json".
  GenerationConfig generation;
  TokenizerConfig tokenizer_config;
  std::optional<std::filesystem::path> tokenizer_path;  // A file of its own, in its own format.
  // Makes a tokenizer of what is inside; empty if nothing is. Reads from `files`.
  std::function<Result<TokenizerSpec>()> tokenizer;
  std::vector<std::filesystem::path> other_files;  // Small ones that were read too.

  // Checks and adds a weight. Errors name the file (`what`) and the file's own name for the weight.
  Status add(std::string name, StoredTensor tensor, std::string_view what, std::string_view own_name);
  // Takes the folder's chat_template.jinja, if there is one, before any template that the container has already.
  Status read_chat_template(const std::filesystem::path& folder);
};

// Meta's own format: a folder with params.json, consolidated.00.pth and perhaps further parts, and tokenizer.model.
Result<Container> open_meta(const std::filesystem::path& folder);

// llama2.c's training checkpoint (a dictionary with "model" and "model_args"), perhaps with tokenizer.bin next to it.
Result<Container> open_llama2c(const std::filesystem::path& file);

// A GGUF file.
Result<Container> open_gguf(const std::filesystem::path& file);
// The same from its bytes, which must outlive the result. `what` names them in errors.
Result<Container> parse_gguf(std::span<const uint8_t> bytes, std::string_view what);

}  // namespace tandem
