// Files as torch.save() writes them, built by hand: a zip archive of stored members, and pickles of protocol 2.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::test {

class ZipWriter {
 public:
  struct Member {
    std::string name;
    std::string data;
    uint16_t flags = 0;
    uint16_t method = 0;
    size_t size = 0;  // Unpacked, where the data are compressed.
    uint32_t crc = 0;
  };
  std::vector<Member> members;
  bool zip64 = false;
  std::string comment;

  std::string finish() const {
    std::string file, directory;
    for (const Member& m : members) {
      const auto offset = static_cast<uint32_t>(file.size());
      const auto size = static_cast<uint32_t>(m.data.size());
      const auto unpacked = m.method == 0 ? size : static_cast<uint32_t>(m.size);
      // torch pads the data to 64 bytes with an extra field.
      std::string extra = "FB";
      const size_t begin = file.size() + 30 + m.name.size() + 4;
      const size_t padding = (64 - begin % 64) % 64;
      u16(extra, padding);
      extra.append(padding, 'Z');
      u32(file, 0x04034b50);
      for (const size_t v : {size_t{20}, size_t{m.flags}, size_t{m.method}, size_t{0}, size_t{0}}) u16(file, v);
      u32(file, m.crc);
      u32(file, size);
      u32(file, unpacked);
      u16(file, m.name.size());
      u16(file, extra.size());
      file += m.name + extra + m.data;

      std::string wide;
      if (zip64) {
        u16(wide, 1);
        u16(wide, 24);
        for (const uint64_t v : {uint64_t{unpacked}, uint64_t{size}, uint64_t{offset}}) u64(wide, v);
      }
      u32(directory, 0x02014b50);
      for (const size_t v : {size_t{20}, size_t{20}, size_t{m.flags}, size_t{m.method}, size_t{0}, size_t{0}}) {
        u16(directory, v);
      }
      u32(directory, m.crc);
      u32(directory, zip64 ? 0xffffffffu : size);
      u32(directory, zip64 ? 0xffffffffu : unpacked);
      u16(directory, m.name.size());
      u16(directory, wide.size());
      for (int i = 0; i < 3; ++i) u16(directory, 0);
      u32(directory, 0);
      u32(directory, zip64 ? 0xffffffffu : offset);
      directory += m.name + wide;
    }
    const size_t at = file.size();
    file += directory;
    if (zip64) {
      const size_t end = file.size();
      u32(file, 0x06064b50);
      u64(file, 44);
      u16(file, 45);
      u16(file, 45);
      u32(file, 0);
      u32(file, 0);
      for (const uint64_t v : {members.size(), members.size(), directory.size(), at}) u64(file, v);
      u32(file, 0x07064b50);
      u32(file, 0);
      u64(file, end);
      u32(file, 1);
    }
    u32(file, 0x06054b50);
    u16(file, 0);
    u16(file, 0);
    u16(file, zip64 ? 0xffff : members.size());
    u16(file, zip64 ? 0xffff : members.size());
    u32(file, zip64 ? 0xffffffffu : directory.size());
    u32(file, zip64 ? 0xffffffffu : at);
    u16(file, comment.size());
    return file + comment;
  }

 private:
  static void number(std::string& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  }
  static void u16(std::string& out, uint64_t value) { number(out, value, 2); }
  static void u32(std::string& out, uint64_t value) { number(out, value, 4); }
  static void u64(std::string& out, uint64_t value) { number(out, value, 8); }
};

// Fragments of pickles.
inline std::string pickle_text(std::string_view text) {
  std::string out = "X";
  for (int i = 0; i < 4; ++i) out += static_cast<char>(text.size() >> (8 * i));
  return out.append(text);
}
inline std::string pickle_int(int64_t value) {
  std::string out = "\x8a\x08";
  for (int i = 0; i < 8; ++i) out += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i));
  return out;
}
inline std::string pickle_global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string pickle_tuple(const std::vector<int64_t>& values) {
  std::string out = "(";
  for (const int64_t value : values) out += pickle_int(value);
  return out + "t";
}

struct TorchTensorSpec {
  std::vector<int64_t> shape;
  std::string data;  // The storage's bytes.
  std::string storage = "FloatStorage";
  std::vector<int64_t> strides = {};  // Empty: contiguous.
  int64_t offset = 0;
  int64_t elements = -1;  // Of the storage; -1: as many as there are bytes for.
  std::string key = {};   // Of the storage; empty: a new one.
  bool parameter = false;
};

class TorchWriter {
 public:
  std::string prefix = "archive/";

  // The pickle of a tensor; its data become a member.
  std::string tensor(const TorchTensorSpec& t) {
    const std::string key = t.key.empty() ? std::to_string(next_++) : t.key;
    data_[key] = t.data;
    const int64_t size = t.storage == "FloatStorage" ? 4 : 2;
    const int64_t elements = t.elements >= 0 ? t.elements : static_cast<int64_t>(t.data.size()) / size;
    std::vector<int64_t> strides = t.strides;
    if (strides.empty()) {
      strides.assign(t.shape.size(), 1);
      for (size_t i = t.shape.size(); i-- > 1;) strides[i - 1] = strides[i] * t.shape[i];
    }
    const std::string hooks = pickle_global("collections", "OrderedDict") + ")R";
    const std::string made = pickle_global("torch._utils", "_rebuild_tensor_v2") + "((" + pickle_text("storage") +
                             pickle_global("torch", t.storage) + pickle_text(key) + pickle_text("cpu") +
                             pickle_int(elements) + "tQ" + pickle_int(t.offset) + pickle_tuple(t.shape) +
                             pickle_tuple(strides) + "\x89" + hooks + "tR";
    if (!t.parameter) return made;
    return pickle_global("torch._utils", "_rebuild_parameter") + "(" + made + "\x88" + hooks + "tR";
  }

  static std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
    std::string out = "}(";
    for (const auto& [key, value] : items) out += pickle_text(key) + value;
    return out + "u";
  }

  // `root` is the pickle of the root object.
  std::string finish(const std::string& root) const { return finish_with(std::string("\x80\x02", 2) + root + "."); }
  std::string finish_with(const std::string& pickle) const {
    ZipWriter zip;
    zip.members.push_back({prefix + "data.pkl", pickle});
    zip.members.push_back({prefix + "byteorder", "little"});
    for (const auto& [key, data] : data_) zip.members.push_back({prefix + "data/" + key, data});
    zip.members.push_back({prefix + "version", "3\n"});
    return zip.finish();
  }

 private:
  std::map<std::string, std::string> data_;
  int next_ = 0;
};

}  // namespace tandem::test
