// SHA-256 (FIPS 180-4): the checksum that every device can compute (`sha256sum`).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tandem {

class Sha256 {
 public:
  void update(std::span<const uint8_t> bytes);
  // 64 hexadecimal digits; nothing may be added afterwards.
  std::string finish();

 private:
  void add_block(const uint8_t* block);

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_ = {};
  size_t pending_size_ = 0;
  uint64_t size_ = 0;
};

}  // namespace tandem
