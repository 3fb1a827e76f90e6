#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "checkpoint/weight_index.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = 64u << 20;  // A tokenizer_config with thousands of added tokens has a few MB.
constexpr uint64_t kMaxIndexBytes = 100u << 20;

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

Status check_folder(const fs::path& folder) {
  std::error_code error;
  const fs::file_status status = fs::status(folder, error);
  if (status.type() == fs::file_type::not_found) return not_found("{}: no such folder", folder.string());
  if (status.type() == fs::file_type::none) {
    return io_error("{}: cannot be looked at ({})", folder.string(), error.message());
  }
  if (!fs::is_directory(status)) {
    return invalid_argument("{}: this is a file; give the checkpoint's folder, the one with config.json",
                            folder.string());
  }
  const fs::directory_iterator it(folder, error);
  if (error) return io_error("{}: cannot be listed ({})", folder.string(), error.message());
  if (it == fs::directory_iterator()) {
    return not_found("{}: the folder is empty; download the checkpoint into it", folder.string());
  }
  return ok_status();
}

// What to say if the weights are not there: perhaps they are, in another format.
Error no_weights(const fs::path& folder) {
  std::vector<std::string> others;
  std::vector<std::string> safetensors;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    const std::string name = printable_name(it->path().filename().string());
    if (extension == ".safetensors") safetensors.push_back(name);
    if (extension == ".bin" || extension == ".pth" || extension == ".pt" || extension == ".gguf" ||
        extension == ".onnx" || extension == ".msgpack" || extension == ".h5") {
      others.push_back(name);
    }
  }
  std::sort(others.begin(), others.end());
  std::sort(safetensors.begin(), safetensors.end());
  if (!safetensors.empty()) {
    return not_found("{}: found {}, but neither model.safetensors nor model.safetensors.index.json; download them",
                     folder.string(), safetensors[0]);
  }
  if (!others.empty()) {
    return unsupported("{}: the weights are in {}, which cannot be read; use a checkpoint with safetensors files",
                       folder.string(), others[0]);
  }
  return not_found("{}: no weights; download model.safetensors (or its shards and model.safetensors.index.json)",
                   folder.string());
}

// A file that may be missing.
Result<std::optional<std::string>> read_optional(const fs::path& path) {
  if (!is_file(path)) return std::optional<std::string>();
  TANDEM_ASSIGN(std::string text, read_text_file(path, kMaxConfigBytes));
  return std::optional(std::move(text));
}

}  // namespace

void Checkpoint::add_to_fingerprint(std::string_view bytes) {
  // FNV-1a, with the length at the end so that ("ab", "c") differs from ("a", "bc").
  const auto add = [this](uint8_t byte) { fingerprint_ = (fingerprint_ ^ byte) * 0x100000001b3u; };
  for (const char c : bytes) add(static_cast<uint8_t>(c));
  for (uint64_t length = bytes.size(), i = 0; i < 8; ++i) add(static_cast<uint8_t>(length >> (8 * i)));
}

void Checkpoint::add_file_to_fingerprint(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  if (error) return;
  const auto time = fs::last_write_time(path, error).time_since_epoch().count();
  add_to_fingerprint(fmt::format("{} {} {}", path.filename().string(), size, time));
}

Status Checkpoint::read_texts(const CheckpointOptions& options) {
  const fs::path name(options.config_name);
  if (name.empty() || name != name.filename()) {
    return invalid_argument("\"{}\" is not the name of a file in the checkpoint's folder", options.config_name);
  }
  const fs::path config_path = folder_ / name;
  if (!is_file(config_path)) {
    return not_found("{}: there is no {}; give the folder of a Hugging Face checkpoint", folder_.string(),
                     options.config_name);
  }
  TANDEM_ASSIGN(const std::string config_text, read_text_file(config_path, kMaxConfigBytes));
  TANDEM_ASSIGN(config_, ModelConfig::parse(config_text, config_path.string()));
  add_to_fingerprint(options.config_name);
  add_to_fingerprint(config_text);

  const fs::path generation_path = folder_ / "generation_config.json";
  TANDEM_ASSIGN(const auto generation_text, read_optional(generation_path));
  if (generation_text) {
    TANDEM_ASSIGN(generation_, GenerationConfig::parse(*generation_text, generation_path.string()));
    add_to_fingerprint(*generation_text);
  }
  if (generation_.eos_token_ids.empty()) generation_.eos_token_ids = config_.eos_token_ids;
  if (!generation_.bos_token_id) generation_.bos_token_id = config_.bos_token_id;
  if (!generation_.pad_token_id) generation_.pad_token_id = config_.pad_token_id;

  const fs::path tokenizer_config_path = folder_ / "tokenizer_config.json";
  TANDEM_ASSIGN(const auto tokenizer_text, read_optional(tokenizer_config_path));
  if (tokenizer_text) {
    TANDEM_ASSIGN(tokenizer_config_, TokenizerConfig::parse(*tokenizer_text, tokenizer_config_path.string()));
    add_to_fingerprint(*tokenizer_text);
  }
  TANDEM_ASSIGN(auto jinja, read_optional(folder_ / "chat_template.jinja"));
  if (jinja) {
    add_to_fingerprint(*jinja);
    tokenizer_config_.chat_template = std::move(jinja);
  }
  for (const char* file : {"tokenizer.json", "tokenizer.json.gz"}) {
    if (!tokenizer_path_ && is_file(folder_ / file)) tokenizer_path_ = folder_ / file;
  }
  if (tokenizer_path_) add_file_to_fingerprint(*tokenizer_path_);
  return ok_status();
}

Status Checkpoint::open_shards(const fs::path& index_path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(index_path, kMaxIndexBytes));
  TANDEM_ASSIGN(const auto weight_map, parse_weight_map(text, index_path.string()));
  add_to_fingerprint(text);
  std::map<std::string, size_t> shard_files;
  for (const auto& [name, shard] : weight_map) {
    auto [place, is_new] = shard_files.emplace(shard, files_.size());
    if (is_new) {
      const fs::path path = folder_ / shard;
      if (!is_file(path)) {
        return not_found("{}: the shard {} is missing; download it", folder_.string(), printable_name(shard));
      }
      TANDEM_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
      files_.push_back(std::move(file));
      add_file_to_fingerprint(path);
    }
    if (files_[place->second].find(name) == nullptr) {
      return corrupt("{}: tensor \"{}\" should be in {}, but is not; download the checkpoint again",
                     index_path.string(), printable_name(name), printable_name(shard));
    }
    tensors_.emplace(name, place->second);
  }
  return ok_status();
}

Status Checkpoint::open_weights() {
  const fs::path single = folder_ / "model.safetensors";
  const fs::path index = folder_ / "model.safetensors.index.json";
  if (is_file(single)) {
    TANDEM_ASSIGN(SafetensorsFile file, SafetensorsFile::open(single));
    for (const SafetensorsEntry& entry : file.entries()) tensors_.emplace(entry.name, 0);
    files_.push_back(std::move(file));
    add_file_to_fingerprint(single);
  } else if (is_file(index)) {
    TANDEM_TRY(open_shards(index));
  } else {
    return no_weights(folder_);
  }
  if (tensors_.empty()) return corrupt("{}: the weight files hold no tensors", folder_.string());
  return ok_status();
}

Result<Checkpoint> Checkpoint::open(const fs::path& folder, const CheckpointOptions& options) {
  TANDEM_TRY(check_folder(folder));
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  TANDEM_TRY(checkpoint.read_texts(options));
  TANDEM_TRY(checkpoint.open_weights());
  return checkpoint;
}

Result<TensorView> Checkpoint::tensor(std::string_view name) const {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return not_found("{}: there is no tensor \"{}\"", folder_.string(), printable_name(name));
  const SafetensorsFile& file = files_[it->second];
  const SafetensorsEntry& entry = *file.find(name);
  if (!entry.dtype || !dtype_is_float(*entry.dtype)) {
    return unsupported("{}: tensor \"{}\" is {}; only F32, F16 and BF16 weights can be used",
                       file.file().path().string(), printable_name(name), entry.dtype_name);
  }
  return TensorView{*entry.dtype, entry.shape, file.bytes(entry)};
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  names.reserve(tensors_.size());
  for (const auto& [name, file] : tensors_) names.push_back(name);
  return names;
}

void Checkpoint::release(const TensorView& tensor) const {
  for (const SafetensorsFile& file : files_) {
    const auto bytes = file.file().bytes();
    // Compared as addresses: pointers into different mappings have no order.
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    const auto at = reinterpret_cast<uintptr_t>(tensor.bytes.data());
    if (at >= begin && at - begin <= bytes.size() && tensor.bytes.size() <= bytes.size() - (at - begin)) {
      file.file().release(tensor.bytes);
      return;
    }
  }
}

}  // namespace tandem
