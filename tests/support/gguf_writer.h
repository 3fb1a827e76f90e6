// GGUF files built by hand: metadata, tensors in any type, and deliberate mistakes.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::test {

enum GgufTensorType : uint32_t {
  kGgufF32 = 0,
  kGgufF16 = 1,
  kGgufQ4_0 = 2,
  kGgufQ8_0 = 8,
  kGgufQ4_K = 12,
  kGgufBF16 = 30
};

class GgufWriter {
 public:
  template <typename T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_text(std::string& out, std::string_view text) {
    put<uint64_t>(out, text.size());
    out += text;
  }

  GgufWriter& u32(std::string_view key, uint32_t value) { return scalar(key, 4, value); }
  GgufWriter& u64(std::string_view key, uint64_t value) { return scalar(key, 10, value); }
  GgufWriter& f32(std::string_view key, float value) { return scalar(key, 6, value); }
  GgufWriter& boolean(std::string_view key, bool value) { return scalar(key, 7, static_cast<uint8_t>(value)); }
  GgufWriter& text(std::string_view key, std::string_view value) {
    begin_key(key, 8);
    put_text(keys_, value);
    return *this;
  }
  GgufWriter& texts(std::string_view key, const std::vector<std::string>& values) {
    begin_list(key, 8, values.size());
    for (const std::string& value : values) put_text(keys_, value);
    return *this;
  }
  GgufWriter& floats(std::string_view key, const std::vector<float>& values) {
    begin_list(key, 6, values.size());
    for (const float value : values) put(keys_, value);
    return *this;
  }
  GgufWriter& ints(std::string_view key, const std::vector<int32_t>& values) {
    begin_list(key, 5, values.size());
    for (const int32_t value : values) put(keys_, value);
    return *this;
  }
  // A value of any type, as bytes.
  GgufWriter& raw(std::string_view key, uint32_t type, std::string_view bytes) {
    begin_key(key, type);
    keys_ += bytes;
    return *this;
  }
  // `shape` with the slowest dimension first.
  GgufWriter& tensor(std::string_view name, const std::vector<int64_t>& shape, uint32_t type, std::string_view bytes) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    tensor_at(name, shape, type, data_.size());
    data_ += bytes;
    return *this;
  }
  // Only the description.
  GgufWriter& tensor_at(std::string_view name, const std::vector<int64_t>& shape, uint32_t type, uint64_t offset) {
    put_text(tensors_, name);
    put<uint32_t>(tensors_, static_cast<uint32_t>(shape.size()));
    for (size_t i = shape.size(); i-- > 0;) put<int64_t>(tensors_, shape[i]);
    put(tensors_, type);
    put(tensors_, offset);
    ++tensor_count_;
    return *this;
  }

  std::string finish(uint32_t version = 3) const {
    std::string file = "GGUF";
    put(file, version);
    put<uint64_t>(file, tensor_count_);
    put<uint64_t>(file, key_count_);
    file += keys_ + tensors_;
    file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_, '\0');
    return file + data_;
  }

 private:
  void begin_key(std::string_view key, uint32_t type) {
    put_text(keys_, key);
    put(keys_, type);
    ++key_count_;
  }
  void begin_list(std::string_view key, uint32_t type, size_t count) {
    begin_key(key, 9);
    put(keys_, type);
    put<uint64_t>(keys_, count);
  }
  template <typename T>
  GgufWriter& scalar(std::string_view key, uint32_t type, T value) {
    begin_key(key, type);
    put(keys_, value);
    return *this;
  }

  std::string keys_, tensors_, data_;
  uint64_t key_count_ = 0, tensor_count_ = 0;
  uint64_t alignment_ = 32;
};

}  // namespace tandem::test
