// Modified copies of checkpoints.
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

// A checkpoint's one file of safetensors, and where in it the numbers of a float32 tensor are.
struct StoredFloats {
  std::vector<uint8_t> file;
  size_t begin = 0, count = 0;  // Bytes from the file's start; numbers. 0 if there is no such tensor.
};
inline StoredFloats find_floats(const std::filesystem::path& folder, const std::string& name) {
  StoredFloats found{read_file(folder / "model.safetensors")};
  uint64_t header_size = 0;
  std::memcpy(&header_size, found.file.data(), sizeof(header_size));
  const Json header =
      Json::parse(found.file.begin() + 8, found.file.begin() + 8 + static_cast<std::ptrdiff_t>(header_size));
  const auto it = header.find(name);
  if (it == header.end() || (*it)["dtype"] != "F32") return found;
  const auto offsets = (*it)["data_offsets"].get<std::vector<uint64_t>>();
  found.begin = 8 + header_size + offsets[0];
  found.count = (offsets[1] - offsets[0]) / sizeof(float);
  return found;
}

inline std::vector<float> read_tensor(const std::filesystem::path& folder, const std::string& name) {
  const StoredFloats found = find_floats(folder, name);
  std::vector<float> values(found.count);
  std::memcpy(values.data(), found.file.data() + found.begin, found.count * sizeof(float));
  return values;
}

// Writes `values` over the first numbers of a float32 tensor in folder/model.safetensors. False if there is none.
inline bool overwrite_tensor(const std::filesystem::path& folder, const std::string& name,
                             std::span<const float> values) {
  StoredFloats found = find_floats(folder, name);
  if (values.size() > found.count) return false;
  std::memcpy(found.file.data() + found.begin, values.data(), values.size_bytes());
  write_file(folder / "model.safetensors", found.file);
  return true;
}

// Replaces a tensor in folder/model.safetensors with a float32 tensor of another shape.
inline void replace_tensor(const std::filesystem::path& folder, const std::string& name,
                           const std::vector<int64_t>& shape, std::span<const float> values) {
  const std::vector<uint8_t> old = read_file(folder / "model.safetensors");
  uint64_t header_size = 0;
  std::memcpy(&header_size, old.data(), sizeof(header_size));
  const auto header_end = old.begin() + 8 + static_cast<std::ptrdiff_t>(header_size);
  Json header = Json::parse(old.begin() + 8, header_end);
  std::vector<uint8_t> data;
  for (auto& [key, entry] : header.items()) {
    if (key == "__metadata__") continue;
    const auto offsets = entry["data_offsets"].get<std::vector<std::ptrdiff_t>>();
    const size_t begin = data.size();
    if (key == name) {
      const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
      data.insert(data.end(), bytes, bytes + values.size_bytes());
      entry["shape"] = shape;
      entry["dtype"] = "F32";
    } else {
      data.insert(data.end(), header_end + offsets[0], header_end + offsets[1]);
    }
    entry["data_offsets"] = {begin, data.size()};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  header_size = text.size();
  std::vector<uint8_t> file(8);
  std::memcpy(file.data(), &header_size, sizeof(header_size));
  file.insert(file.end(), text.begin(), text.end());
  file.insert(file.end(), data.begin(), data.end());
  write_file(folder / "model.safetensors", file);
}

}  // namespace tandem::test
