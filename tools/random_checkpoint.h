// Writes a checkpoint of any shape with random weights, laid out as on a hub. Weights are made and written piece by
// piece: memory stays at a few MB, whatever the model's size.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "tandem/status.h"

namespace tandem::tools {

struct Shape {
  std::string family = "qwen3";  // "llama", "qwen2", "qwen3"
  int64_t hidden = 64;
  int64_t layers = 2;
  int64_t heads = 4;
  int64_t kv_heads = 2;
  int64_t head_dim = 16;
  int64_t ffn = 160;
  int64_t vocab = 320;
  int64_t context = 256;
  bool tied = true;
  double rope_theta = 10000.0;
  double norm_eps = 1e-6;
  bool llama3_rope = false;  // Llama 3.1's frequency scaling.
};

struct NamedShape {
  std::string_view name;
  Shape shape;
};

// The shapes known to --shape.
const std::vector<NamedShape>& known_shapes();

struct RandomCheckpointOptions {
  Shape shape;
  DType dtype = DType::kBF16;
  uint64_t shard_size = 5'000'000'000;  // Largest size of a file's weights in bytes (but a tensor is never split).
  uint64_t seed = 1;
  int threads = 0;                  // 0: one per core.
  std::filesystem::path tokenizer;  // Empty: a byte tokenizer is written.
  bool overwrite = false;           // Otherwise a folder with a checkpoint is refused.
};

struct RandomCheckpointResult {
  uint64_t parameters = 0;
  uint64_t bytes = 0;
  int files = 0;  // Of weights.
};

// Calls progress(bytes done, total bytes) from time to time. Stops with kCancelled, without half-written files, once
// `cancel` is true.
Result<RandomCheckpointResult> write_random_checkpoint(const std::filesystem::path& folder,
                                                       const RandomCheckpointOptions& options,
                                                       const std::function<void(uint64_t, uint64_t)>& progress,
                                                       const std::atomic<bool>& cancel);

}  // namespace tandem::tools
