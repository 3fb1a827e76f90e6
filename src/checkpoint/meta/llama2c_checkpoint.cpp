// llama2.c's training checkpoint (.pt).
#include "base/error.h"
#include "base/file_status.h"
#include "base/format.h"
#include "checkpoint/container.h"
#include "checkpoint/hub/safetensors.h"
#include "checkpoint/meta/llama_params.h"
#include "checkpoint/torch/torch_file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxTextBytes = 1000;

// model_args as JSON; values other than numbers, text, booleans and None are skipped, as no argument has them.
Json to_json(const PickleTree& tree, const PickleValue& dict) {
  using Kind = PickleValue::Kind;
  Json json = Json::object();
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& key = tree.at(dict.items[i]);
    const PickleValue& value = tree.at(dict.items[i + 1]);
    if (key.kind != Kind::kString) continue;
    switch (value.kind) {
      case Kind::kBool: json[key.text] = value.integer != 0; break;
      case Kind::kInteger: json[key.text] = value.integer; break;
      case Kind::kNumber: json[key.text] = value.number; break;
      case Kind::kString:
        if (value.text.size() <= kMaxTextBytes) json[key.text] = value.text;
        break;
      default: break;
    }
  }
  return json;
}

// llama2.c's own, or one of the usual kinds.
Status find_tokenizer(const fs::path& folder, Container& container) {
  for (const char* name : {"tokenizer.bin", "tokenizer.json", "tokenizer.json.gz", "tokenizer.model"}) {
    if (container.tokenizer_path) break;
    TANDEM_ASSIGN(const bool is_there, regular_file_exists(folder / name));
    if (is_there) container.tokenizer_path = folder / name;
  }
  return ok_status();
}

}  // namespace

Result<Container> open_llama2c(const fs::path& path) {
  TANDEM_ASSIGN(TorchFile file, TorchFile::open(path));
  const TorchArchive& archive = file.archive();
  const PickleValue* model = archive.tree.find(archive.tree.root(), "model");
  const PickleValue* arguments = archive.tree.find(archive.tree.root(), "model_args");
  if (model == nullptr || arguments == nullptr || arguments->kind != PickleValue::Kind::kDict) {
    return unsupported(
        "{}: this is not a checkpoint of llama2.c, which has \"model\" and \"model_args\"; give a folder with "
        "config.json "
        "or params.json for other models",
        path.string());
  }
  TANDEM_ASSIGN(TorchTensors found, archive.tensors(*model, path.string()));
  std::vector<TorchTensors> shards(1);
  for (auto& [name, tensor] : found) {
    // torch.compile() puts this before each name.
    constexpr std::string_view kCompiled = "_orig_mod.";
    std::string plain = name.starts_with(kCompiled) ? name.substr(kCompiled.size()) : name;
    if (!shards[0].emplace(std::move(plain), std::move(tensor)).second) {
      return corrupt("{}: tensor \"{}\" is there twice", path.string(), printable_name(name));
    }
  }
  Container container;
  TANDEM_TRY(add_llama(to_json(archive.tree, *arguments), str_format("{}: model_args", path.string()), shards,
                       path.string(), container));
  container.files.push_back(std::move(file).take_file());
  TANDEM_TRY(find_tokenizer(path.parent_path(), container));
  TANDEM_TRY(container.read_chat_template(path.parent_path()));
  return container;
}

}  // namespace tandem
