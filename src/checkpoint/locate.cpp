#include "checkpoint/locate.h"

#include <algorithm>
#include <system_error>
#include <vector>

#include "archive/zip_reader.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/file_status.h"
#include "base/list_folder.h"
#include "base/mapped_file.h"
#include "checkpoint/file_kind.h"
#include "checkpoint/hub/safetensors.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

bool is_meta_part(const std::string& name) { return name.starts_with("consolidated.") && name.ends_with(".pth"); }

bool is_hub_weights(const std::string& name) {
  return name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") ||
         name.starts_with("pytorch_model.");
}

Result<CheckpointLocation> locate_file(const fs::path& path) {
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
  const std::string extension = path.extension().string(), name = path.filename().string();
  if (looks_like_gguf(file.bytes()) || extension == ".gguf") return CheckpointLocation{CheckpointKind::kGguf, path};
  if (is_meta_part(name)) {
    return CheckpointLocation{CheckpointKind::kMeta, parent_folder(path)};
  }
  if (extension == ".pt" || extension == ".pth" || looks_like_zip(file.bytes())) {
    return CheckpointLocation{CheckpointKind::kLlama2c, path};
  }
  return invalid_argument(
      "{}: this is a file, but neither GGUF nor llama2.c's .pt; give the checkpoint's folder, the one with config.json",
      path.string());
}

// The files of a folder that could be checkpoints, sorted.
struct Contents {
  bool is_empty = true;
  bool has_config = false;
  bool has_params = false;
  bool has_hub_weights = false;
  bool has_meta_weights = false;
  std::vector<fs::path> gguf;
  std::vector<fs::path> llama2c;
};

Result<Contents> list(const fs::path& folder, const std::string& config_name) {
  Contents contents;
  TANDEM_ASSIGN(const std::vector<std::string> names, list_folder(folder));
  contents.is_empty = names.empty();
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    const std::string extension = path.extension().string();
    const bool is_config = name == config_name || name == "params.json";
    // A dangling link matters only if something would be read from it.
    if (!is_config && !is_hub_weights(name) && !is_meta_part(name) && extension != ".gguf" && extension != ".pt") {
      continue;
    }
    TANDEM_ASSIGN(const bool is_file, regular_file_exists(path));
    if (!is_file) continue;
    if (name == config_name) contents.has_config = true;
    if (name == "params.json") contents.has_params = true;
    if (is_hub_weights(name)) contents.has_hub_weights = true;
    if (is_meta_part(name)) {
      contents.has_meta_weights = true;
    } else if (extension == ".gguf") {
      contents.gguf.push_back(path);
    } else if (extension == ".pt") {
      contents.llama2c.push_back(path);
    }
  }
  std::sort(contents.gguf.begin(), contents.gguf.end());
  std::sort(contents.llama2c.begin(), contents.llama2c.end());
  return contents;
}

Result<CheckpointLocation> only_one(const fs::path& folder, CheckpointKind kind, const std::vector<fs::path>& files) {
  if (files.size() == 1) return CheckpointLocation{kind, files[0]};
  return invalid_argument("{}: the folder has {} checkpoints; give one of them, such as {}", folder.string(),
                          files.size(), printable_name(files[0].filename().string()));
}

}  // namespace

bool is_checkpoint_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  const auto file = MappedFile::open(path);
  return file.ok() && (looks_like_gguf(file->bytes()) || looks_like_zip(file->bytes()));
}

Result<CheckpointLocation> locate_checkpoint(const fs::path& path, const std::string& config_name) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return not_found("{}: no such folder or file", path.string());
  if (status.type() == fs::file_type::none) {
    return io_error("{}: cannot be accessed ({})", path.string(), error.message());
  }
  if (!fs::is_directory(status)) return locate_file(path);
  TANDEM_ASSIGN(const Contents contents, list(path, config_name));
  if (contents.is_empty) {
    return not_found("{}: the folder is empty; download the checkpoint into it", path.string());
  }
  const CheckpointLocation hub{CheckpointKind::kHub, path};
  if (contents.has_config && (contents.has_hub_weights || contents.gguf.empty())) return hub;
  if (contents.has_hub_weights) return hub;  // Reports what is missing.
  // A .pt of llama2.c may have a params.json next to it, and needs nothing of it.
  if (contents.has_meta_weights || (contents.has_params && contents.llama2c.empty())) {
    return CheckpointLocation{CheckpointKind::kMeta, path};
  }
  if (!contents.gguf.empty()) return only_one(path, CheckpointKind::kGguf, contents.gguf);
  if (!contents.llama2c.empty() && !contents.has_config) {
    return only_one(path, CheckpointKind::kLlama2c, contents.llama2c);
  }
  return hub;
}

}  // namespace tandem
