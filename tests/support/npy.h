// Reads the float32 .npy files of the goldens.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::test {

struct Npy {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

inline Npy read_npy(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  if (bytes.size() < 10 || bytes.compare(0, 6, "\x93NUMPY") != 0) throw std::runtime_error("not npy: " + path.string());
  const size_t header_size = static_cast<uint8_t>(bytes[8]) + 256u * static_cast<uint8_t>(bytes[9]);
  const std::string header = bytes.substr(10, header_size);
  if (header.find("'<f4'") == std::string::npos) throw std::runtime_error("not float32: " + path.string());
  Npy npy;
  size_t at = header.find("'shape': (") + 10;
  int64_t count = 1;
  while (header[at] != ')') {
    size_t used = 0;
    npy.shape.push_back(std::stoll(header.substr(at), &used));
    count *= npy.shape.back();
    at += used;
    while (header[at] == ',' || header[at] == ' ') ++at;
  }
  npy.values.resize(static_cast<size_t>(count));
  std::memcpy(npy.values.data(), bytes.data() + 10 + header_size, npy.values.size() * sizeof(float));
  return npy;
}

}  // namespace tandem::test
