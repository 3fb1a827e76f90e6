// Small ELF files, built by hand: enough of one for a reader of headers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::test {

struct ElfWriter {
  bool is_64_bit = true;
  uint16_t type = 3;
  uint16_t machine = 183;
  uint32_t flags = 0;
  std::string interpreter;
  std::string soname;
  std::vector<std::string> needed;
  bool pie = false;
  uint64_t alignment = 0x4000;
  std::string content;  // After all else.

  std::string finish() const {
    const size_t header = is_64_bit ? 64 : 52, entry = is_64_bit ? 56 : 32, count = interpreter.empty() ? 2 : 3;
    std::string strings(1, '\0'), dynamic;
    const auto tag = [&](uint64_t t, uint64_t value) { word(dynamic, t), word(dynamic, value); };
    const auto name = [&](const std::string& text) {
      const size_t at = strings.size();
      strings += text + '\0';
      return at;
    };
    for (const std::string& library : needed) tag(1, name(library));
    if (!soname.empty()) tag(14, name(soname));
    const size_t strings_at = header + entry * count, dynamic_at = strings_at + strings.size() + interpreter.size() + 1;
    tag(5, kAddress + strings_at);
    tag(10, strings.size());
    if (pie) tag(0x6ffffffb, 0x08000000);
    tag(0, 0);
    const size_t size = dynamic_at + dynamic.size() + content.size();

    std::string file =
        "\x7f"
        "ELF";
    file += is_64_bit ? '\2' : '\1';
    file += "\1\1";
    file.append(9, '\0');
    number(file, type, 2), number(file, machine, 2), number(file, 1, 4);
    word(file, 0), word(file, header), word(file, 0);
    number(file, flags, 4), number(file, header, 2), number(file, entry, 2), number(file, count, 2);
    file.append(header - file.size(), '\0');
    segment(file, 1, 0, size);
    segment(file, 2, dynamic_at, dynamic.size());
    if (!interpreter.empty()) segment(file, 3, strings_at + strings.size(), interpreter.size() + 1);
    return file + strings + interpreter + '\0' + dynamic + content;
  }

 private:
  static constexpr uint64_t kAddress = 0x10000;

  static void number(std::string& out, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
  }
  void word(std::string& out, uint64_t value) const { number(out, value, is_64_bit ? 8 : 4); }
  void segment(std::string& out, uint32_t kind, uint64_t offset, uint64_t size) const {
    number(out, kind, 4);
    if (is_64_bit) number(out, 4, 4);
    word(out, offset), word(out, kAddress + offset), word(out, 0), word(out, size), word(out, size);
    if (!is_64_bit) number(out, 4, 4);
    word(out, alignment);
  }
};

}  // namespace tandem::test
