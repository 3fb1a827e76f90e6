// Safetensors files: the header, fully checked before anything is used, and the mapped data after it.
//
// The format: eight bytes that hold the header's length (little endian), the header (a JSON object of tensor names to
// dtype, shape and byte range, perhaps with a "__metadata__" object of strings), then the data. The ranges must cover
// the data exactly: no overlap, no hole, nothing left over. A tensor may start at any byte, so readers must not assume
// that its elements are aligned.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/mapped_file.h"
#include "tandem/status.h"

namespace tandem {

// The format's own limit; the largest headers in use are a few MB.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  std::string dtype_name;      // As the file spells it: "BF16", "F8_E4M3".
  std::optional<DType> dtype;  // Nothing for a type that tandem has no name for.
  std::vector<int64_t> shape;  // Empty for a scalar; dimensions may be 0.
  uint64_t begin = 0;          // Relative to the start of the data.
  uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // In the order of their data.
  std::map<std::string, std::string> metadata;
  uint64_t data_begin = 0;  // Where the data starts in the file.
};

// Reads and checks a whole file's header. `what` names the file in errors.
Result<SafetensorsHeader> parse_safetensors(std::span<const uint8_t> file, std::string_view what);

class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::filesystem::path& path);

  const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  // Null if there is no such tensor.
  const SafetensorsEntry* find(std::string_view name) const;
  // The tensor's bytes; without any alignment.
  std::span<const uint8_t> bytes(const SafetensorsEntry& entry) const;
  const MappedFile& file() const { return file_; }

 private:
  SafetensorsFile(MappedFile file, SafetensorsHeader header);

  MappedFile file_;
  SafetensorsHeader header_;
  std::vector<uint32_t> by_name_;  // Indices of entries, sorted by name.
};

// A name from a file, safe for an error message: control characters escaped, and cut if it is absurdly long.
std::string printable_name(std::string_view name);

}  // namespace tandem
