// Meta's own folders: consolidated.NN.pth, params.json, tokenizer.model.
#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/file_status.h"
#include "base/list_folder.h"
#include "checkpoint/container.h"
#include "checkpoint/hub/safetensors.h"
#include "checkpoint/meta/llama_params.h"
#include "checkpoint/torch/torch_file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxParamsBytes = 1u << 20;
constexpr int kMaxParts = 1000;

// Llama 3's dialogs as Meta publishes the format: each message behind a header with its role, stripped, and ended.
// Meta's files have no template; nothing in them tells Instruct from base models either, but all have these tokens.
constexpr std::string_view kLlama3Template =
    "{{ bos_token }}"
    "{% for message in messages %}"
    "{{ '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' + message.content | trim + '<|eot_id|>' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

// NN of consolidated.NN.pth; -1 for any other name.
int part_number(const std::string& name) {
  constexpr std::string_view kBegin = "consolidated.", kEnd = ".pth";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd) || name.size() <= kBegin.size() + kEnd.size()) return -1;
  const char* begin = name.data() + kBegin.size();
  const char* end = name.data() + name.size() - kEnd.size();
  int number = -1;
  const auto [stop, error] = std::from_chars(begin, end, number);
  return error == std::errc() && stop == end && number < kMaxParts ? number : -1;
}

Result<std::vector<fs::path>> find_parts(const fs::path& folder) {
  std::map<int, fs::path> parts;
  TANDEM_ASSIGN(const std::vector<std::string> names, list_folder(folder));
  for (const std::string& name : names) {
    const int number = part_number(name);
    if (number < 0) continue;
    if (!parts.emplace(number, folder / name).second) {
      return corrupt("{}: two files are part {} of the weights", folder.string(), number);
    }
  }
  if (parts.empty()) {
    return not_found("{}: there is params.json, but no consolidated.00.pth; download it", folder.string());
  }
  std::vector<fs::path> paths;
  for (const auto& [number, path] : parts) {
    if (number != static_cast<int>(paths.size())) {
      return not_found("{}: consolidated.{:02}.pth is missing; download it", folder.string(), paths.size());
    }
    paths.push_back(path);
  }
  return paths;
}

}  // namespace

Result<Container> open_meta(const fs::path& folder) {
  const fs::path params_path = folder / "params.json";
  TANDEM_ASSIGN(const bool has_params, regular_file_exists(params_path));
  if (!has_params) {
    return not_found("{}: there are weights in Meta's form, but no params.json; download it", folder.string());
  }
  TANDEM_ASSIGN(const std::string text, read_text_file(params_path, kMaxParamsBytes));
  TANDEM_ASSIGN(const Json params, parse_json(text, params_path.string()));
  TANDEM_ASSIGN(const std::vector<fs::path> paths, find_parts(folder));

  Container container;
  std::vector<TorchTensors> shards;
  for (const fs::path& path : paths) {
    TANDEM_ASSIGN(TorchFile file, TorchFile::open(path));
    TANDEM_ASSIGN(TorchTensors tensors, file.archive().tensors(file.archive().tree.root(), path.string()));
    shards.push_back(std::move(tensors));
    container.files.push_back(std::move(file).take_file());
  }
  TANDEM_TRY(add_llama(params, params_path.string(), shards, folder.string(), container));
  container.other_files.push_back(params_path);
  // Llama 2's downloads have it next to the models' folders.
  for (const fs::path& path :
       {folder / "tokenizer.json", folder / "tokenizer.model", folder / ".." / "tokenizer.model"}) {
    if (container.tokenizer_path) break;
    TANDEM_ASSIGN(const bool is_there, regular_file_exists(path));
    if (is_there) container.tokenizer_path = path;
  }
  // What llama_params.cpp takes for Llama 3's vocabulary.
  if (container.config["bos_token_id"] == kLlama3Bos) {
    container.tokenizer_config.bos_token = "<|begin_of_text|>";
    container.tokenizer_config.eos_token = "<|eot_id|>";
    container.tokenizer_config.chat_template = kLlama3Template;
  }
  TANDEM_TRY(container.read_chat_template(folder));
  return container;
}

}  // namespace tandem
