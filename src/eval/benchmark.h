// How fast a file runs here, and how near to what the memory allows.
#pragma once

#include <filesystem>

#include "base/progress.h"
#include "base/thread_pool.h"
#include "tandem/engine.h"
#include "tandem/status.h"

namespace tandem {

struct BenchmarkOptions {
  int64_t prompt_tokens = 256;
  int64_t new_tokens = 64;
  int repeats = 3;  // The best of them counts.
  EngineOptions engine = {};
};

struct BenchmarkReport {
  std::string mode;
  std::string isa;
  int threads = 0;
  int64_t prompt_tokens = 0;
  int64_t new_tokens = 0;
  double load_seconds = 0.0;         // Mapping the file and planning the methods.
  double first_token_seconds = 0.0;  // For the prompt, warm.
  double prompt_tokens_per_second = 0.0;
  double decode_tokens_per_second = 0.0;
  // The same prompt one token at a time, as a file without prefill methods would have to: 0 for a kv file.
  double kv_first_token_seconds = 0.0;
  uint64_t bytes_per_token = 0;        // Weights and KV cache that decoding a token reads.
  double read_bytes_per_second = 0.0;  // Measured on this machine with the same threads.
  double bandwidth_share = 0.0;        // bytes_per_token * decode speed / read_bytes_per_second
  uint64_t peak_memory_bytes = 0;
  uint64_t file_bytes = 0;
};

Result<BenchmarkReport> run_benchmark(const std::filesystem::path& file, const BenchmarkOptions& options,
                                      const ProgressCallback& progress);

// How fast the threads of a pool can read memory that is in no cache: the limit of decoding.
double measure_read_bandwidth(ThreadPool& pool);

}  // namespace tandem
