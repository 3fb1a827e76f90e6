// A folder as a hub has it: config.json, weights in safetensors files (one, or shards with an index; or the
// pytorch_model.bin of older checkpoints), generation and tokenizer configuration. Or another container, presented as
// if it were one: Meta's folders (params.json, consolidated.NN.pth), llama2.c's .pt, GGUF files.
//
//   TANDEM_ASSIGN(Checkpoint checkpoint, Checkpoint::open("Qwen3-0.6B"));
//   TANDEM_ASSIGN(TensorView weight, checkpoint.tensor("model.norm.weight"));
//
// Weights are mapped, not read: opening costs the headers only, and memory is what has been touched and not released. A
// Checkpoint is immutable after open(); any number of threads may use it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/container.h"
#include "checkpoint/convert.h"
#include "checkpoint/hub/generation_config.h"
#include "checkpoint/hub/model_config.h"
#include "checkpoint/hub/safetensors.h"
#include "checkpoint/hub/tokenizer_config.h"
#include "tandem/status.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {

struct CheckpointOptions {
  std::string config_name = "config.json";  // A file in the folder.
};

class Checkpoint {
 public:
  // A folder, or a file that is a container.
  static Result<Checkpoint> open(const std::filesystem::path& path, const CheckpointOptions& options = {});

  // What was opened: a folder or a file.
  const std::filesystem::path& folder() const { return folder_; }
  // The folder's name, or the file's without its extension: "llama-2-7b", "Qwen3-0.6B-Q8_0".
  const std::string& name() const { return name_; }
  const ModelConfig& config() const { return config_; }
  // With the ids of config.json where generation_config.json has none.
  const GenerationConfig& generation() const { return generation_; }
  const TokenizerConfig& tokenizer_config() const { return tokenizer_config_; }
  // tokenizer.json, or tokenizer.json.gz; tokenizer.model of Meta's folders, tokenizer.bin of llama2.c's. Nothing if
  // there is none of these; tokenizer/import knows older kinds of files in folder().
  const std::optional<std::filesystem::path>& tokenizer_path() const { return tokenizer_path_; }
  // The tokenizer that is inside the checkpoint (GGUF); nothing for other containers. Takes a second for a
  // large vocabulary. An unknown kind of vocabulary is refused (kUnsupported).
  Result<std::optional<TokenizerSpec>> embedded_tokenizer() const;

  bool has(std::string_view name) const;
  // A weight. Dtypes other than f32, f16 and bf16 are refused.
  Result<TensorView> tensor(std::string_view name) const;
  // All tensors, sorted.
  std::vector<std::string> names() const;
  // An error if the files that hold the tensor have changed since they were opened: what was read from it since then
  // may be anything.
  Status check(const TensorView& tensor) const;
  // Tells the system that a tensor (or a part of it) is not needed for now, so that its pages no longer count as ours.
  void release(const TensorView& tensor) const;
  // The same for some of its rows.
  void release_rows(const TensorView& tensor, int64_t row_begin, int64_t row_count) const;
  // Calls visit with the file bytes that these rows are made from; with more, if a file has rows in another order.
  using ByteVisitor = std::function<void(std::span<const uint8_t> bytes)>;
  void visit_bytes(const TensorView& tensor, int64_t row_begin, int64_t row_count, const ByteVisitor& visit) const;

  // Releases the pages of bytes that visit_bytes() passed on.
  void release_bytes(std::span<const uint8_t> bytes) const;

  // The files that it is, or could be, read from: all in a folder, and those elsewhere.
  Result<std::vector<std::filesystem::path>> input_files() const;

  // Changes when a file of the checkpoint does: names, sizes and times of all files that are read, and config.json's
  // bytes. Unchanged if the folder is moved. Does not read weights.
  uint64_t fingerprint() const { return fingerprint_; }
  // The same for a copy with other times, such as a second download: the configurations' bytes, names and sizes of all
  // files, and a sample of their bytes.
  uint64_t identity() const { return identity_; }

 private:
  Checkpoint() = default;
  Status open_hub(const CheckpointOptions& options);
  Status open_container(Container container);
  Status open_weights();
  Status open_shards(const std::filesystem::path& index_path);
  Status open_torch_weights();
  Status read_texts(const CheckpointOptions& options);
  Status find_name();
  void resolve_tokens();
  // The file that contains these bytes; null if none does.
  const MappedFile* file_of(std::span<const uint8_t> bytes) const;
  void add_to_fingerprint(std::string_view bytes);
  Status add_file_to_fingerprint(const std::filesystem::path& path);

  std::filesystem::path folder_;
  std::string name_;
  ModelConfig config_;
  GenerationConfig generation_;
  TokenizerConfig tokenizer_config_;
  std::optional<std::filesystem::path> tokenizer_path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> tensors_;  // Tensor names to file indices.
  std::unique_ptr<const Container> container_;          // Weights that are not safetensors; replaces the two above.
  uint64_t fingerprint_ = 0xcbf29ce484222325u;
  uint64_t identity_ = 0xcbf29ce484222325u;
};

}  // namespace tandem
