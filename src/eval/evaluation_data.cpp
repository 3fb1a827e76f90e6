#include "eval/evaluation_data.h"

#include <charconv>

#include "base/hash.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

std::optional<uint64_t> parse_hash(std::string_view digits) {
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), hash, 16);
  if (digits.size() != 16 || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return hash;
}

}  // namespace

Result<EvaluationData> identify_data(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
  const EvaluationData data = {path.filename().string(), hash_bytes(file.bytes())};
  TANDEM_TRY(file.check());
  return data;
}

std::optional<CalibrationRecord> read_calibration_record(std::string_view calibration_json) {
  if (calibration_json.empty()) return std::nullopt;
  const auto json = parse_json(calibration_json, "calibration");
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const auto source = json_string(*json, "source");
  const auto hash = json_string(*json, "hash");
  const auto tokens = json_int(*json, "tokens");
  if (!source.ok() || !*source || !hash.ok() || !tokens.ok()) return std::nullopt;
  CalibrationRecord record;
  record.source = **source;
  if (*hash) record.hash = parse_hash(**hash);
  record.tokens = tokens->value_or(0);
  return record;
}

bool calibration_overlap(std::string_view calibration_json, uint64_t evaluation_hash) {
  const auto record = read_calibration_record(calibration_json);
  return record && record->hash == evaluation_hash;
}

}  // namespace tandem
