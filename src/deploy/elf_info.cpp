#include "deploy/elf_info.h"

#include <algorithm>
#include <optional>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr std::string_view kElfMagic =
    "\x7f"
    "ELF";
constexpr uint8_t kClass32 = 1;
constexpr uint8_t kClass64 = 2;
constexpr uint8_t kLittleEndian = 1;
constexpr uint16_t kTypeProgram = 2;
constexpr uint16_t kTypeShared = 3;
constexpr uint32_t kSegmentLoad = 1;
constexpr uint32_t kSegmentDynamic = 2;
constexpr uint32_t kSegmentInterpreter = 3;
constexpr uint64_t kTagNeeded = 1;
constexpr uint64_t kTagStrings = 5;
constexpr uint64_t kTagStringsSize = 10;
constexpr uint64_t kTagSoname = 14;
constexpr uint64_t kTagFlags1 = 0x6ffffffb;
constexpr uint64_t kFlagPie = 0x08000000;
constexpr uint64_t kMaxTags = 100'000;
constexpr uint64_t kLongestName = 4096;

struct ElfSegment {
  uint32_t type = 0;
  uint64_t offset = 0;
  uint64_t address = 0;
  uint64_t file_size = 0;
  uint64_t alignment = 0;
};

struct ElfFile {
  std::span<const uint8_t> bytes;
  std::string_view what;
  bool is_64_bit = false;
  std::vector<ElfSegment> segments;
};

Error damaged(std::string_view what, std::string_view part) {
  return corrupt("{}: its {} extends past the end of the file; it is damaged or cut off, so get it again", what, part);
}

uint64_t read_word(ByteReader& reader, bool is_64_bit) { return is_64_bit ? reader.u64() : reader.u32(); }

Status read_segments(ElfFile& file, uint64_t offset, uint16_t entry_size, uint16_t count) {
  const uint16_t least = file.is_64_bit ? 56 : 32;
  if (count != 0 && entry_size < least)
    return corrupt("{}: its segments have entries of {} bytes", file.what, entry_size);
  if (!range_inside(offset, uint64_t{entry_size} * count, file.bytes.size()))
    return damaged(file.what, "list of segments");
  for (uint64_t i = 0; i < count; ++i) {
    ByteReader reader(file.bytes, offset + i * entry_size);
    ElfSegment segment;
    segment.type = reader.u32();
    if (file.is_64_bit) reader.skip(4);
    segment.offset = read_word(reader, file.is_64_bit);
    segment.address = read_word(reader, file.is_64_bit);
    read_word(reader, file.is_64_bit);
    segment.file_size = read_word(reader, file.is_64_bit);
    read_word(reader, file.is_64_bit);
    if (!file.is_64_bit) reader.skip(4);
    segment.alignment = read_word(reader, file.is_64_bit);
    if (!range_inside(segment.offset, segment.file_size, file.bytes.size())) return damaged(file.what, "content");
    file.segments.push_back(segment);
  }
  return ok_status();
}

const ElfSegment* find_segment(const ElfFile& file, uint32_t type) {
  const auto found = std::ranges::find(file.segments, type, &ElfSegment::type);
  return found == file.segments.end() ? nullptr : &*found;
}

// Where the bytes at an address are in the file.
std::optional<uint64_t> offset_of(const ElfFile& file, uint64_t address) {
  for (const ElfSegment& segment : file.segments) {
    if (segment.type != kSegmentLoad || address < segment.address) continue;
    const uint64_t inside = address - segment.address;
    if (inside < segment.file_size) return segment.offset + inside;
  }
  return std::nullopt;
}

// The text up to a NUL at `at`.
Result<std::string> text_at(std::span<const uint8_t> strings, uint64_t at, std::string_view what) {
  if (at >= strings.size()) return damaged(what, "list of names");
  const auto rest = strings.subspan(at, std::min<uint64_t>(strings.size() - at, kLongestName));
  const auto end = std::ranges::find(rest, uint8_t{0});
  if (end == rest.end()) return damaged(what, "list of names");
  return std::string(rest.begin(), end);
}

Status read_dynamic(const ElfFile& file, ElfInfo& info) {
  const ElfSegment* const segment = find_segment(file, kSegmentDynamic);
  if (segment == nullptr) return ok_status();
  std::vector<uint64_t> needed;
  std::optional<uint64_t> soname, strings;
  uint64_t strings_size = 0;
  ByteReader reader(file.bytes.subspan(segment->offset, segment->file_size));
  for (uint64_t i = 0; i < kMaxTags; ++i) {
    const uint64_t tag = read_word(reader, file.is_64_bit), value = read_word(reader, file.is_64_bit);
    if (!reader.ok() || tag == 0) break;
    if (tag == kTagNeeded) needed.push_back(value);
    if (tag == kTagSoname) soname = value;
    if (tag == kTagStrings) strings = value;
    if (tag == kTagStringsSize) strings_size = value;
    if (tag == kTagFlags1 && (value & kFlagPie) != 0) info.is_program = true;
  }
  if (needed.empty() && !soname) return ok_status();
  const auto offset = strings ? offset_of(file, *strings) : std::nullopt;
  if (!offset || !range_inside(*offset, strings_size, file.bytes.size())) return damaged(file.what, "list of names");
  const auto table = file.bytes.subspan(*offset, strings_size);
  for (const uint64_t at : needed) {
    TANDEM_ASSIGN(std::string name, text_at(table, at, file.what));
    info.needed.push_back(std::move(name));
  }
  if (soname) {
    TANDEM_ASSIGN(info.soname, text_at(table, *soname, file.what));
  }
  return ok_status();
}

}  // namespace

bool looks_like_elf(std::span<const uint8_t> file) {
  return file.size() >= kElfMagic.size() && std::equal(kElfMagic.begin(), kElfMagic.end(), file.begin());
}

Result<ElfInfo> read_elf(std::span<const uint8_t> bytes, std::string_view what) {
  if (!looks_like_elf(bytes)) return corrupt("{} is not a program or library for Linux or Android (no ELF file)", what);
  ByteReader reader(bytes, 4);
  const uint8_t bits = reader.u8(), order = reader.u8();
  if ((bits != kClass32 && bits != kClass64) || order != kLittleEndian) {
    return unsupported("{} is an ELF file of a kind that no device here has (class {}, byte order {})", what, bits,
                       order);
  }
  ElfFile file{.bytes = bytes, .what = what, .is_64_bit = bits == kClass64, .segments = {}};
  reader.skip(10);
  ElfInfo info;
  info.is_64_bit = file.is_64_bit;
  const uint16_t type = reader.u16();
  info.machine = reader.u16();
  reader.skip(4);
  read_word(reader, file.is_64_bit);
  const uint64_t segments = read_word(reader, file.is_64_bit);
  read_word(reader, file.is_64_bit);
  info.flags = reader.u32();
  reader.skip(2);
  const uint16_t entry_size = reader.u16(), count = reader.u16();
  if (!reader.ok()) return damaged(what, "header");
  if (type != kTypeProgram && type != kTypeShared) {
    return unsupported("{} is neither a program nor a shared library (ELF type {})", what, type);
  }
  info.is_program = type == kTypeProgram;
  TANDEM_TRY(read_segments(file, segments, entry_size, count));
  for (const ElfSegment& segment : file.segments) {
    if (segment.type != kSegmentLoad) continue;
    info.page_size = info.page_size == 0 ? segment.alignment : std::min(info.page_size, segment.alignment);
  }
  if (const ElfSegment* const segment = find_segment(file, kSegmentInterpreter)) {
    TANDEM_ASSIGN(info.interpreter, text_at(bytes.subspan(segment->offset, segment->file_size), 0, what));
    info.is_program = true;
  }
  TANDEM_TRY(read_dynamic(file, info));
  return info;
}

std::string machine_name(uint16_t machine) {
  switch (machine) {
    case 3: return "32-bit x86";
    case 40: return "32-bit ARM";
    case kElfMachineX86: return "x86-64";
    case kElfMachineHexagon: return "Hexagon";
    case kElfMachineArm64: return "64-bit ARM";
    case 243: return "RISC-V";
    default: return str_format("processor number {}", machine);
  }
}

DeviceSystem system_of(const ElfInfo& elf) {
  if (elf.interpreter.starts_with("/system/") || elf.interpreter.starts_with("/apex/")) return DeviceSystem::kAndroid;
  if (elf.interpreter.find("ld-linux") != std::string::npos) return DeviceSystem::kLinux;
  const auto needs = [&](std::string_view name) { return std::ranges::find(elf.needed, name) != elf.needed.end(); };
  // Names of C libraries: glibc's have a number, bionic's none.
  if (needs("libc.so.6") || needs("libstdc++.so.6")) return DeviceSystem::kLinux;
  if (needs("libc.so") || needs("liblog.so")) return DeviceSystem::kAndroid;
  return DeviceSystem::kUnknown;
}

}  // namespace tandem
