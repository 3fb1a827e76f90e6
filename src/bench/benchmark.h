// How fast a file runs on this machine, and how close to the memory's limit.
#pragma once

#include <filesystem>

#include "backends/interface/backend.h"
#include "base/progress.h"
#include "base/thread_pool.h"
#include "tandem/engine.h"
#include "tandem/status.h"

namespace tandem {

struct BenchmarkOptions {
  int64_t prompt_tokens = 256;
  int64_t new_tokens = 64;
  int repeats = 3;         // The best of them counts.
  bool one_by_one = true;  // Also measure the prompt without prefill; slow for long prompts.
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
  // The same prompt one token at a time, as in a file without prefill methods: 0 for a kv file.
  double kv_first_token_seconds = 0.0;
  uint64_t bytes_per_token = 0;             // Weights and KV cache that decoding a token reads.
  double read_bytes_per_second = 0.0;       // Measured on this machine with the same threads.
  double bandwidth_share = 0.0;             // bytes_per_token * decode speed / read_bytes_per_second
  double prompt_operations = 0.0;           // Multiplications and additions of the prompt.
  uint64_t prompt_bytes = 0;                // Weights and KV cache read by its calls.
  double decode_operations = 0.0;           // Of one token.
  double int8_operations_per_second = 0.0;  // What the threads reach with operands in registers.
  double int8_share = 0.0;                  // prompt_operations / first_token_seconds / int8_operations_per_second
  uint64_t peak_memory_bytes = 0;
  uint64_t file_bytes = 0;
};

Result<BenchmarkReport> run_benchmark(const std::filesystem::path& file, const BenchmarkOptions& options,
                                      const ProgressCallback& progress);

// How fast a pool's threads can read memory that is in no cache: the limit of decoding.
double measure_read_bandwidth(ThreadPool& pool);

// How many int8 multiplications and additions a pool's threads can do per second, with operands in registers: the limit
// of prompts. 0 if the back end knows no such limit.
double measure_int8_peak(ThreadPool& pool, const Processor& processor);

}  // namespace tandem
