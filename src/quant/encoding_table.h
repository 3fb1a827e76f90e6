// Encodings of activations by tensor name: what calibration produces, and every method of a model uses.
//
//   EncodingTable table;
//   TANDEM_TRY(table.set("layers.0.mlp.gated", {DType::kU16, encoding, low, high, quality.clipped, quality.sqnr_db,
//   "mse"})); TANDEM_TRY(table.save("encodings.json")); const TensorEncoding* found = table.find("layers.0.mlp.gated");
//
// docs/quantization.md ("Encodings as a file") is the reference of the JSON form.
#pragma once

#include <filesystem>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/json.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem {

struct TensorEncoding {
  DType dtype = DType::kU16;  // kU8 or kU16
  ir::Encoding encoding;      // kPerTensor
  float observed_min = 0.0f;
  float observed_max = 0.0f;
  // Share of the observed values outside the encoding's range, and signal to quantization noise ratio
  // (Observer::quality()). NaN: not known.
  double clipped = std::numeric_limits<double>::quiet_NaN();
  double sqnr_db = std::numeric_limits<double>::quiet_NaN();
  std::string method = "given";  // How the range was chosen: "minmax", "percentile", "mse", or another word.
};
// Bitwise: two unknown shares are equal.
bool operator==(const TensorEncoding& a, const TensorEncoding& b);

// Runs of digits count as numbers: "layers.2.x" comes before "layers.10.x".
struct NaturalOrder {
  using is_transparent = void;
  bool operator()(std::string_view a, std::string_view b) const;
};

class EncodingTable {
 public:
  using Map = std::map<std::string, TensorEncoding, NaturalOrder>;

  // Refuses, naming the entry: names that are empty, longer than 256 bytes, not UTF-8 or with control characters;
  // dtypes other than u8 and u16; scales that are not positive normal numbers; zero points outside the dtype's range;
  // minima above maxima; impossible shares and ratios. So every table survives to_json().
  Status set(std::string_view name, TensorEncoding encoding);
  // Null if it is not there.
  const TensorEncoding* find(std::string_view name) const;
  const Map& entries() const { return entries_; }
  size_t size() const { return entries_.size(); }

  // How the encodings were computed: an object of any content up to 64 KiB.
  Status set_calibration(const Json& info);
  const Json& calibration() const { return calibration_; }

  // from_json() gives an equal table.
  std::string to_json() const;
  // Strict: anything unknown, missing, repeated or impossible is an error that names the entry.
  static Result<EncodingTable> from_json(std::string_view text);

  static Result<EncodingTable> load(const std::filesystem::path& path);
  Status save(const std::filesystem::path& path) const;

  bool operator==(const EncodingTable& other) const = default;

 private:
  Map entries_;
  Json calibration_ = Json::object();
};

}  // namespace tandem
