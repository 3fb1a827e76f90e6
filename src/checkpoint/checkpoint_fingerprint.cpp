// Identifies a checkpoint.
#include <algorithm>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/format.h"
#include "checkpoint/checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

// FNV-1a, with the length at the end so that ("ab", "c") differs from ("a", "bc").
uint64_t hash_more(uint64_t hash, std::string_view bytes) {
  const auto add = [&hash](uint8_t byte) { hash = (hash ^ byte) * 0x100000001b3u; };
  for (const char c : bytes) add(static_cast<uint8_t>(c));
  for (uint64_t length = bytes.size(), i = 0; i < 8; ++i) add(static_cast<uint8_t>(length >> (8 * i)));
  return hash;
}

// A few blocks of a file, evenly spread, including its first and last bytes: tells two trainings of one model apart
// without reading gigabytes.
Result<std::string> sample_of(const fs::path& path, uint64_t size) {
  constexpr uint64_t kBlock = 4096, kBlocks = 16;
  std::ifstream file(path, std::ios::binary);
  std::string sample, block(kBlock, '\0');
  const uint64_t last = size > kBlock ? size - kBlock : 0;
  for (uint64_t i = 0; i < kBlocks; ++i) {
    file.clear();
    file.seekg(static_cast<std::streamoff>(last / (kBlocks - 1) * i + (i + 1 == kBlocks ? last % (kBlocks - 1) : 0)));
    file.read(block.data(), static_cast<std::streamsize>(kBlock));
    // A shorter sample would identify another checkpoint.
    if (file.gcount() != static_cast<std::streamsize>(std::min(size, kBlock))) {
      return io_error("{}: cannot be read; check the disk that it is on", path.string());
    }
    sample.append(block, 0, static_cast<size_t>(file.gcount()));
  }
  return sample;
}

}  // namespace

void Checkpoint::add_to_fingerprint(std::string_view bytes) {
  fingerprint_ = hash_more(fingerprint_, bytes);
  identity_ = hash_more(identity_, bytes);
}

Status Checkpoint::add_file_to_fingerprint(const fs::path& path) {
  std::error_code error;
  const auto size = fs::file_size(path, error);
  const auto time = error ? 0 : fs::last_write_time(path, error).time_since_epoch().count();
  if (error) return io_error("{}: cannot be accessed ({})", path.string(), error.message());
  TANDEM_ASSIGN(const std::string sample, sample_of(path, size));
  const std::string name_and_size = str_format("{} {}", path.filename().string(), size);
  fingerprint_ = hash_more(fingerprint_, str_format("{} {}", name_and_size, time));
  identity_ = hash_more(hash_more(identity_, name_and_size), sample);
  return ok_status();
}

}  // namespace tandem
