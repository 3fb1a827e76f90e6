// Shared by the tests of checkpoint/: temporary folders, and safetensors files built by hand.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::test {

namespace fs = std::filesystem;

inline const fs::path kGolden = fs::path(TANDEM_SOURCE_DIR) / "tests/data/golden";
inline const fs::path kShared = fs::path(TANDEM_SOURCE_DIR) / "../shared";

class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "tandem_test_XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TempFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const fs::path& path() const { return path_; }
  void write(std::string_view name, std::string_view content) const {
    std::ofstream file(path_ / name, std::ios::binary);
    file.write(content.data(), static_cast<std::streamsize>(content.size()));
  }
  void copy_from(const fs::path& folder) const { fs::copy(folder, path_, fs::copy_options::recursive); }

 private:
  fs::path path_;
};

inline std::string read_all(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

inline std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string safetensors(std::string_view header, size_t data_bytes) {
  std::string file;
  for (size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  file += header;
  for (size_t i = 0; i < data_bytes; ++i) file += static_cast<char>(i);
  return file;
}

}  // namespace tandem::test
