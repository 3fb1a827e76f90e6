// A folder as a hub has it: config.json, weights in safetensors files (one, or shards with an index), generation and
// tokenizer configuration.
//
//   TANDEM_ASSIGN(Checkpoint checkpoint, Checkpoint::open("Qwen3-0.6B"));
//   TANDEM_ASSIGN(TensorView weight, checkpoint.tensor("model.norm.weight"));
//
// Weights are mapped, not read: opening costs the headers only, and memory is what has been touched and not released.
// A Checkpoint does not change after open(); any number of threads may use it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/convert.h"
#include "checkpoint/generation_config.h"
#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tokenizer_config.h"
#include "tandem/status.h"

namespace tandem {

struct CheckpointOptions {
  std::string config_name = "config.json";  // A file in the folder.
};

class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::filesystem::path& folder, const CheckpointOptions& options = {});

  const std::filesystem::path& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  // With the ids of config.json where generation_config.json says nothing.
  const GenerationConfig& generation() const { return generation_; }
  const TokenizerConfig& tokenizer_config() const { return tokenizer_config_; }
  // tokenizer.json, or tokenizer.json.gz.
  const std::optional<std::filesystem::path>& tokenizer_path() const { return tokenizer_path_; }

  bool has(std::string_view name) const { return tensors_.contains(name); }
  // A weight. One that is neither f32, f16 nor bf16 is refused.
  Result<TensorView> tensor(std::string_view name) const;
  // All tensors, sorted.
  std::vector<std::string> names() const;
  // Says that a tensor (or a part of it) is not needed for now, so that its pages no longer count as ours.
  void release(const TensorView& tensor) const;

  // Changes when a file of the checkpoint does: names, sizes and times of all files that are read, and config.json's
  // bytes. The same for a folder that was moved. Weights are not read for it.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  Checkpoint() = default;
  Status open_weights();
  Status open_shards(const std::filesystem::path& index_path);
  Status read_texts(const CheckpointOptions& options);
  void add_to_fingerprint(std::string_view bytes);
  void add_file_to_fingerprint(const std::filesystem::path& path);

  std::filesystem::path folder_;
  ModelConfig config_;
  GenerationConfig generation_;
  TokenizerConfig tokenizer_config_;
  std::optional<std::filesystem::path> tokenizer_path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> tensors_;  // To the index of its file.
  uint64_t fingerprint_ = 0xcbf29ce484222325u;
};

}  // namespace tandem
