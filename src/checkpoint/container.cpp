#include "checkpoint/container.h"

#include "base/error.h"
#include "base/file_status.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxTemplateBytes = 16u << 20;

}  // namespace

Status Container::read_chat_template(const std::filesystem::path& folder) {
  std::filesystem::path path = folder / "chat_template.jinja";
  TANDEM_ASSIGN(const bool is_there, regular_file_exists(path));
  if (!is_there) return ok_status();
  TANDEM_ASSIGN(tokenizer_config.chat_template, read_text_file(path, kMaxTemplateBytes));
  other_files.push_back(std::move(path));
  return ok_status();
}

Status Container::add(std::string name, StoredTensor tensor, std::string_view what, std::string_view own_name) {
  if (Status checked = tensor.check(); !checked.ok()) {
    return with_context(std::move(checked).error(), "{}: tensor \"{}\"", what, printable_name(own_name));
  }
  if (!tensors.emplace(std::move(name), std::move(tensor)).second) {
    return corrupt("{}: tensor \"{}\" is there twice", what, printable_name(own_name));
  }
  return ok_status();
}

}  // namespace tandem
