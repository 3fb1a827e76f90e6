// What a model is calibrated with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

class WorkFolder;

struct CalibrationData {
  std::vector<std::vector<int32_t>> samples;
  std::string source;      // "sampled from the model", "a prompt", or the file's name without folders.
  std::string task = {};   // That the file belongs to.
  uint64_t file_hash = 0;  // hash_bytes() of the file; 0 if there is none.
  int64_t tokens = 0;      // In all samples.

  bool is_sampled() const;
  // "16384 tokens in 32 samples, sampled from the model"
  std::string describe() const;
};

struct CalibrationNeeds {
  // So many tokens, unless the user chose samples or their length; 0: affordable_tokens(), up to the options' amount.
  int64_t tokens = 0;
  // Where sampled text is kept for the next run, for a checkpoint whose bytes have this checksum; null: nowhere.
  WorkFolder* work = nullptr;
  uint64_t source = 0;
};
}  // namespace tandem
