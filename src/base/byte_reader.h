// Reads little-endian numbers from untrusted bytes: reading past the end sets a flag and returns zeros, so that a
// parser checks once per record instead of once per field.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace tandem {

class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes, uint64_t at = 0) : bytes_(bytes), at_(at) {
    if (at_ > bytes_.size()) fail();
  }

  // False once a read went past the end.
  bool ok() const { return ok_; }
  uint64_t position() const { return at_; }
  uint64_t left() const { return bytes_.size() - at_; }

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int8_t i8() { return number<int8_t>(); }
  int16_t i16() { return number<int16_t>(); }
  int32_t i32() { return number<int32_t>(); }
  int64_t i64() { return number<int64_t>(); }
  float f32() { return number<float>(); }
  double f64() { return number<double>(); }

  // The next `size` bytes, or nothing.
  std::span<const uint8_t> read_bytes(uint64_t size) {
    if (size > left()) {
      fail();
      return {};
    }
    const auto part = bytes_.subspan(at_, size);
    at_ += size;
    return part;
  }
  std::string_view text(uint64_t size) {
    const auto part = read_bytes(size);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  void skip(uint64_t size) { read_bytes(size); }

 private:
  void fail() {
    ok_ = false;
    at_ = bytes_.size();
  }

  template <typename T>
  T number() {
    T value{};
    if (const auto part = read_bytes(sizeof(T)); !part.empty()) std::memcpy(&value, part.data(), sizeof(T));
    return value;
  }

  std::span<const uint8_t> bytes_;
  uint64_t at_ = 0;
  bool ok_ = true;
};

}  // namespace tandem
