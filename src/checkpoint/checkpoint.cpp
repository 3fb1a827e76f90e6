#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/file_status.h"
#include "base/list_folder.h"
#include "checkpoint/hub/weight_index.h"
#include "checkpoint/locate.h"
#include "checkpoint/torch/torch_file.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxConfigBytes = 64u << 20;  // A tokenizer_config with thousands of added tokens has a few MB.
constexpr uint64_t kMaxIndexBytes = 100u << 20;

// The error for missing weights: perhaps they exist in another format.
Error no_weights(const fs::path& folder) {
  std::vector<std::string> others;
  std::vector<std::string> safetensors;
  const auto names = list_folder(folder);
  if (!names.ok()) return names.error();
  for (const std::string& entry : *names) {
    const std::string extension = fs::path(entry).extension().string();
    const std::string name = printable_name(entry);
    if (extension == ".safetensors") safetensors.push_back(name);
    if (extension == ".bin" || extension == ".pth" || extension == ".pt" || extension == ".gguf" ||
        extension == ".onnx" || extension == ".msgpack" || extension == ".h5") {
      others.push_back(name);
    }
  }
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
  TANDEM_ASSIGN(const bool is_there, regular_file_exists(path));
  if (!is_there) return std::optional<std::string>();
  TANDEM_ASSIGN(std::string text, read_text_file(path, kMaxConfigBytes));
  return std::optional(std::move(text));
}

}  // namespace

Status Checkpoint::read_texts(const CheckpointOptions& options) {
  const fs::path name(options.config_name);
  if (name.empty() || name != name.filename()) {
    return invalid_argument("\"{}\" is not the name of a file in the checkpoint's folder", options.config_name);
  }
  const fs::path config_path = folder_ / name;
  TANDEM_ASSIGN(const bool has_config, regular_file_exists(config_path));
  if (!has_config) {
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
  resolve_tokens();

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
    TANDEM_ASSIGN(const bool is_there, regular_file_exists(folder_ / file));
    if (!tokenizer_path_ && is_there) tokenizer_path_ = folder_ / file;
  }
  if (tokenizer_path_) TANDEM_TRY(add_file_to_fingerprint(*tokenizer_path_));
  // Older tokenizer formats, and their companion files.
  for (const char* file : {"tokenizer.model", "qwen.tiktoken", "vocab.json", "merges.txt", "tokenizer.bin",
                           "added_tokens.json", "special_tokens_map.json"}) {
    TANDEM_ASSIGN(const bool is_there, regular_file_exists(folder_ / file));
    if (is_there) TANDEM_TRY(add_file_to_fingerprint(folder_ / file));
  }
  return ok_status();
}

void Checkpoint::resolve_tokens() {
  if (generation_.eos_token_ids.empty()) generation_.eos_token_ids = config_.eos_token_ids;
  if (!generation_.bos_token_id) generation_.bos_token_id = config_.bos_token_id;
  if (!generation_.pad_token_id) generation_.pad_token_id = config_.pad_token_id;
}

Status Checkpoint::open_shards(const fs::path& index_path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(index_path, kMaxIndexBytes));
  TANDEM_ASSIGN(const auto weight_map, parse_weight_map(text, index_path.string()));
  add_to_fingerprint(text);
  std::map<std::string, size_t> shard_files;
  for (const auto& [name, shard] : weight_map) {
    auto [location, is_new] = shard_files.emplace(shard, files_.size());
    if (is_new) {
      const fs::path path = folder_ / shard;
      TANDEM_ASSIGN(const bool is_there, regular_file_exists(path));
      if (!is_there) {
        return not_found("{}: the shard {} is missing; download it", folder_.string(), printable_name(shard));
      }
      TANDEM_ASSIGN(SafetensorsFile file, SafetensorsFile::open(path));
      files_.push_back(std::move(file));
      TANDEM_TRY(add_file_to_fingerprint(path));
    }
    if (files_[location->second].find(name) == nullptr) {
      return corrupt("{}: tensor \"{}\" should be in {}, but is not; download the checkpoint again",
                     index_path.string(), printable_name(name), printable_name(shard));
    }
    tensors_.emplace(name, location->second);
  }
  return ok_status();
}

// pytorch_model.bin, or its shards and index. The index only tells which files there are.
Status Checkpoint::open_torch_weights() {
  std::set<std::string> names = {"pytorch_model.bin"};
  const fs::path index = folder_ / "pytorch_model.bin.index.json";
  TANDEM_ASSIGN(const bool has_single, regular_file_exists(folder_ / "pytorch_model.bin"));
  TANDEM_ASSIGN(const bool has_index, regular_file_exists(index));
  if (!has_single && has_index) {
    TANDEM_ASSIGN(const std::string text, read_text_file(index, kMaxIndexBytes));
    TANDEM_ASSIGN(const auto weight_map, parse_weight_map(text, index.string()));
    add_to_fingerprint(text);
    names.clear();
    for (const auto& [tensor, file] : weight_map) names.insert(file);
  }
  Container container;
  for (const std::string& name : names) {
    const fs::path path = folder_ / name;
    TANDEM_ASSIGN(const bool is_there, regular_file_exists(path));
    if (!is_there) {
      return not_found("{}: the weights {} are missing; download them", folder_.string(), printable_name(name));
    }
    TANDEM_ASSIGN(TorchFile file, TorchFile::open(path));
    TANDEM_ASSIGN(const auto tensors, file.archive().tensors(file.archive().tree.root(), path.string()));
    for (const auto& [tensor, view] : tensors) {
      TANDEM_TRY(container.add(tensor,
                               {.encoding = encoding_of(view.dtype), .shape = view.shape, .parts = {view.bytes}},
                               path.string(), tensor));
    }
    TANDEM_TRY(add_file_to_fingerprint(path));
    container.files.push_back(std::move(file).take_file());
  }
  container_ = std::make_unique<const Container>(std::move(container));
  return ok_status();
}

Status Checkpoint::open_weights() {
  const fs::path single = folder_ / "model.safetensors";
  const fs::path index = folder_ / "model.safetensors.index.json";
  TANDEM_ASSIGN(const bool has_single, regular_file_exists(single));
  TANDEM_ASSIGN(const bool has_index, regular_file_exists(index));
  TANDEM_ASSIGN(const bool has_torch, regular_file_exists(folder_ / "pytorch_model.bin"));
  TANDEM_ASSIGN(const bool has_torch_index, regular_file_exists(folder_ / "pytorch_model.bin.index.json"));
  if (has_single) {
    TANDEM_ASSIGN(SafetensorsFile file, SafetensorsFile::open(single));
    for (const SafetensorsEntry& entry : file.entries()) tensors_.emplace(entry.name, 0);
    files_.push_back(std::move(file));
    TANDEM_TRY(add_file_to_fingerprint(single));
  } else if (has_index) {
    TANDEM_TRY(open_shards(index));
  } else if (has_torch || has_torch_index) {
    TANDEM_TRY(open_torch_weights());
  } else {
    return no_weights(folder_);
  }
  if (names().empty()) return corrupt("{}: the weight files hold no tensors", folder_.string());
  return ok_status();
}

Status Checkpoint::open_hub(const CheckpointOptions& options) {
  TANDEM_TRY(read_texts(options));
  return open_weights();
}

Status Checkpoint::open_container(Container container) {
  TANDEM_ASSIGN(config_, ModelConfig::from_json(container.config, container.config_what));
  generation_ = container.generation;
  tokenizer_config_ = container.tokenizer_config;
  tokenizer_path_ = container.tokenizer_path;
  resolve_tokens();
  // The file names are part of it, as they are for a hub folder.
  for (const MappedFile& file : container.files) TANDEM_TRY(add_file_to_fingerprint(file.path()));
  for (const fs::path& path : container.other_files) TANDEM_TRY(add_file_to_fingerprint(path));
  if (tokenizer_path_) TANDEM_TRY(add_file_to_fingerprint(*tokenizer_path_));
  if (container.tensors.empty()) return corrupt("{}: the file holds no tensors", folder_.string());
  container_ = std::make_unique<const Container>(std::move(container));
  return ok_status();
}

Result<Checkpoint> Checkpoint::open(const fs::path& path, const CheckpointOptions& options) {
  TANDEM_ASSIGN(const CheckpointLocation location, locate_checkpoint(path, options.config_name));
  Checkpoint checkpoint;
  checkpoint.folder_ = path;
  TANDEM_TRY(checkpoint.find_name());
  if (location.kind == CheckpointKind::kHub) {
    TANDEM_TRY(checkpoint.open_hub(options));
    return checkpoint;
  }
  if (options.config_name != CheckpointOptions().config_name) {
    return invalid_argument("{}: this checkpoint has its configuration in it, so \"{}\" cannot be chosen",
                            path.string(), options.config_name);
  }
  Result<Container> container = location.kind == CheckpointKind::kMeta   ? open_meta(location.path)
                                : location.kind == CheckpointKind::kGguf ? open_gguf(location.path)
                                                                         : open_llama2c(location.path);
  if (!container.ok()) return std::move(container).error();
  TANDEM_TRY(checkpoint.open_container(std::move(container).value()));
  return checkpoint;
}

Status Checkpoint::find_name() {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(folder_, error);
  if (error) return io_error("{}: cannot be accessed ({})", folder_.string(), error.message());
  TANDEM_ASSIGN(const bool is_file, regular_file_exists(whole));
  name_ = is_file ? whole.stem().string() : whole.filename().string();
  return ok_status();
}

Result<std::optional<TokenizerSpec>> Checkpoint::embedded_tokenizer() const {
  if (!container_ || !container_->tokenizer) return std::optional<TokenizerSpec>();
  Result<TokenizerSpec> made = container_->tokenizer();
  for (const MappedFile& file : container_->files) TANDEM_TRY(file.check());
  TANDEM_ASSIGN(TokenizerSpec spec, std::move(made));
  return std::optional(std::move(spec));
}

bool Checkpoint::has(std::string_view name) const {
  return container_ ? container_->tensors.contains(name) : tensors_.contains(name);
}

Result<TensorView> Checkpoint::tensor(std::string_view name) const {
  if (container_) {
    const auto it = container_->tensors.find(name);
    if (it == container_->tensors.end()) {
      return not_found("{}: there is no tensor \"{}\"", folder_.string(), printable_name(name));
    }
    const StoredTensor& stored = it->second;
    if (stored.is_plain()) return TensorView{*dtype_of(stored.encoding), stored.shape, stored.parts[0]};
    return TensorView{DType::kF32, stored.shape, {}, &stored};
  }
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
  if (container_) {
    for (const auto& [name, tensor] : container_->tensors) names.push_back(name);
    return names;
  }
  names.reserve(tensors_.size());
  for (const auto& [name, file] : tensors_) names.push_back(name);
  return names;
}

const MappedFile* Checkpoint::file_of(std::span<const uint8_t> part) const {
  const auto is_in = [&](const MappedFile& file) {
    const auto bytes = file.bytes();
    // Compared as integers: pointers into different mappings have no order.
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    const auto at = reinterpret_cast<uintptr_t>(part.data());
    return at >= begin && at - begin <= bytes.size() && part.size() <= bytes.size() - (at - begin);
  };
  for (const SafetensorsFile& file : files_) {
    if (is_in(file.file())) return &file.file();
  }
  if (!container_) return nullptr;
  for (const MappedFile& file : container_->files) {
    if (is_in(file)) return &file;
  }
  return nullptr;
}

Status Checkpoint::check(const TensorView& tensor) const {
  const auto check_part = [&](std::span<const uint8_t> part) {
    const MappedFile* file = part.empty() ? nullptr : file_of(part);
    return file == nullptr ? ok_status() : file->check();
  };
  if (tensor.stored == nullptr) return check_part(tensor.bytes);
  for (const auto& part : tensor.stored->parts) TANDEM_TRY(check_part(part));
  return ok_status();
}

void Checkpoint::release_bytes(std::span<const uint8_t> part) const {
  if (const MappedFile* file = file_of(part)) file->release(part);
}

void Checkpoint::release(const TensorView& tensor) const {
  if (tensor.stored == nullptr) return release_bytes(tensor.bytes);
  for (const auto& part : tensor.stored->parts) release_bytes(part);
}

void Checkpoint::visit_bytes(const TensorView& tensor, int64_t row_begin, int64_t row_count,
                             const ByteVisitor& visit) const {
  const int64_t rows = tensor_rows(tensor);
  if (row_begin < 0 || row_count <= 0 || row_begin > rows || row_count > rows - row_begin) return;
  if (tensor.stored != nullptr) return visit_stored_bytes(*tensor.stored, row_begin, row_count, visit);
  const uint64_t row_bytes = tensor.bytes.size() / static_cast<uint64_t>(rows);
  visit(
      tensor.bytes.subspan(static_cast<uint64_t>(row_begin) * row_bytes, static_cast<uint64_t>(row_count) * row_bytes));
}

void Checkpoint::release_rows(const TensorView& tensor, int64_t row_begin, int64_t row_count) const {
  visit_bytes(tensor, row_begin, row_count, [&](std::span<const uint8_t> part) { release_bytes(part); });
}

Result<std::vector<fs::path>> Checkpoint::input_files() const {
  std::vector<fs::path> files = {folder_};
  std::error_code error;
  const bool is_folder = fs::is_directory(folder_, error);
  if (error) return io_error("{}: cannot be accessed ({})", folder_.string(), error.message());
  if (is_folder) {
    TANDEM_ASSIGN(const std::vector<std::string> names, list_folder(folder_));
    for (const std::string& name : names) files.push_back(folder_ / name);
  }
  if (tokenizer_path_) files.push_back(*tokenizer_path_);
  for (const SafetensorsFile& file : files_) files.push_back(file.file().path());
  if (!container_) return files;
  for (const MappedFile& file : container_->files) files.push_back(file.path());
  files.insert(files.end(), container_->other_files.begin(), container_->other_files.end());
  return files;
}

}  // namespace tandem
