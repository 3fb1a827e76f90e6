// Copies of checkpoints with something changed in them.
#pragma once

#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "support/temp_folder.h"

namespace tandem::test {

inline void copy_checkpoint(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::filesystem::create_directories(to);
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (entry.is_regular_file()) std::filesystem::copy_file(entry.path(), to / entry.path().filename());
  }
}

// Writes `values` over the first numbers of a float32 tensor in folder/model.safetensors. False if there is none.
inline bool overwrite_tensor(const std::filesystem::path& folder, const std::string& name,
                             std::span<const float> values) {
  const std::filesystem::path path = folder / "model.safetensors";
  std::vector<uint8_t> bytes = read_file(path);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const Json header = Json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<std::ptrdiff_t>(header_size));
  const auto it = header.find(name);
  if (it == header.end() || (*it)["dtype"] != "F32") return false;
  const auto offsets = (*it)["data_offsets"].get<std::vector<uint64_t>>();
  if (values.size_bytes() > offsets[1] - offsets[0]) return false;
  std::memcpy(bytes.data() + 8 + header_size + offsets[0], values.data(), values.size_bytes());
  write_file(path, bytes);
  return true;
}

}  // namespace tandem::test
