#include "weights/tuned_weights.h"

#include <cstring>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"

namespace tandem {
namespace {

constexpr std::string_view kTunedMark = "tandem tuned weights\n";
constexpr int64_t kMostSide = int64_t{1} << 31;

template <typename T>
std::span<const uint8_t> tuned_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

// A whole number of a JSON object; -1 if there is none.
int64_t whole(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_unsigned() ? it->get<int64_t>() : -1;
}

}  // namespace

Status write_tuned_file(const std::filesystem::path& path,
                        const std::vector<std::pair<std::string, WeightMatrix>>& matrices) {
  Json list = Json::array();
  for (const auto& [name, m] : matrices) {
    list.push_back({{"name", name},
                    {"format", weight_format_name(m.format)},
                    {"block", m.block},
                    {"rows", m.rows},
                    {"cols", m.cols}});
  }
  const std::string header = dump_json(list);
  const uint64_t length = header.size();
  TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TANDEM_TRY(file.write(kTunedMark));
  TANDEM_TRY(file.write({reinterpret_cast<const uint8_t*>(&length), sizeof(length)}));
  TANDEM_TRY(file.write(header));
  TANDEM_TRY(file.align(sizeof(float)));
  for (const auto& [name, m] : matrices) {
    TANDEM_TRY(file.write(tuned_bytes(m.scales)));
    TANDEM_TRY(file.write(tuned_bytes(m.multipliers)));
    TANDEM_TRY(file.write(tuned_bytes(m.quantized)));
    TANDEM_TRY(file.align(sizeof(float)));
  }
  return file.commit();
}

Status TunedWeights::add_file(const std::filesystem::path& path) {
  TANDEM_ASSIGN(MappedFile file, MappedFile::open(path));
  const std::span<const uint8_t> bytes = file.bytes();
  const Error damaged =
      corrupt("{}: the tuned weights are damaged; delete the folder and compile again", path.string());
  uint64_t length = 0, offset = kTunedMark.size() + sizeof(length);
  if (bytes.size() < offset || std::memcmp(bytes.data(), kTunedMark.data(), kTunedMark.size()) != 0) return damaged;
  std::memcpy(&length, bytes.data() + kTunedMark.size(), sizeof(length));
  if (length > bytes.size() - offset) return damaged;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data() + offset), length);
  TANDEM_ASSIGN(const Json list, parse_json(text, path.string()));
  const auto align = [&] { offset = (offset + sizeof(float) - 1) / sizeof(float) * sizeof(float); };
  offset += length;
  align();
  if (!list.is_array()) return damaged;
  for (const Json& item : list) {
    const bool is_named = item.is_object() && item.contains("name") && item["name"].is_string() &&
                          item.contains("format") && item["format"].is_string();
    if (!is_named) return damaged;
    const auto format = weight_format_from_name(item["format"].get<std::string>());
    const int64_t block = whole(item, "block"), rows = whole(item, "rows"), cols = whole(item, "cols");
    const bool fits = format && is_quantized(*format) && block >= 0 && block <= 64 && rows > 0 && rows < kMostSide &&
                      cols > 0 && cols < kMostSide && (block > 0) == (*format == WeightFormat::kLpbq4);
    if (!fits) return damaged;
    const Entry entry{files_.size(), *format, static_cast<int>(block), rows, cols, offset};
    if (offset > bytes.size() || entry.bytes() > bytes.size() - offset) return damaged;
    offset += entry.bytes();
    align();
    entries_[item["name"].get<std::string>()] = entry;
  }
  files_.push_back(std::move(file));
  return ok_status();
}

Result<WeightMatrix> TunedWeights::rows(std::string_view name, int64_t begin, int64_t count, WeightFormat format,
                                        int block) const {
  const auto it = entries_.find(name);
  if (it == entries_.end()) return internal_error("\"{}\" was not tuned", name);
  const Entry& entry = it->second;
  if (entry.format != format || entry.block != block || begin < 0 || count < 0 || begin > entry.rows - count) {
    return internal_error("\"{}\" was tuned for another format or shape", name);
  }
  const MappedFile& file = files_[entry.file];
  const uint8_t* scales = file.bytes().data() + entry.offset;
  const uint8_t* multipliers = scales + static_cast<uint64_t>(entry.rows) * sizeof(float);
  const uint8_t* quantized = multipliers + entry.rows * entry.blocks();
  WeightMatrix matrix;
  matrix.format = format;
  matrix.rows = count;
  matrix.cols = entry.cols;
  matrix.block = block;
  const auto copy = [](const uint8_t* from, int64_t first, int64_t numbers, auto& to) {
    using Number = typename std::remove_reference_t<decltype(to)>::value_type;
    to.resize(static_cast<size_t>(numbers));
    if (to.empty()) return;  // int8 has no multipliers.
    std::memcpy(to.data(), from + static_cast<uint64_t>(first) * sizeof(Number), to.size() * sizeof(Number));
  };
  copy(scales, begin, count, matrix.scales);
  copy(multipliers, begin * entry.blocks(), count * entry.blocks(), matrix.multipliers);
  copy(quantized, begin * entry.cols, count * entry.cols, matrix.quantized);
  TANDEM_TRY(file.check());
  return matrix;
}

}  // namespace tandem
