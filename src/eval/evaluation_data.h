// Which data a model was evaluated on, and whether it was calibrated on the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "tandem/status.h"

namespace tandem {

// A file of evaluation data.
struct EvaluationData {
  std::string source;  // The file's name, without folders.
  uint64_t hash = 0;   // hash_bytes() of its bytes.
};
Result<EvaluationData> identify_data(const std::filesystem::path& path);

// What a compiled file says about its calibration data, in JSON: {"source": "book.txt", "hash": "00c0ffee00c0ffee",
// "tokens": 16384}. Data without a file, such as samples of the model itself, has no hash.
struct CalibrationRecord {
  std::string source;
  std::optional<uint64_t> hash;
  int64_t tokens = 0;
};
// Nothing if the text is empty (the file was not calibrated, or by a version that kept no record) or not such a record.
std::optional<CalibrationRecord> read_calibration_record(std::string_view calibration_json);

// Whether the record names the very file whose bytes have this hash. Its figures are then too good.
bool calibration_overlap(std::string_view calibration_json, uint64_t evaluation_hash);

}  // namespace tandem
