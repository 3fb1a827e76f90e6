// What a program or a library says about itself: for which processor and system it is, and what it needs. Reads 32- and
// 64-bit little-endian ELF files of any processor, from untrusted bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem {

inline constexpr uint16_t kElfMachineX86 = 62;
inline constexpr uint16_t kElfMachineArm64 = 183;
inline constexpr uint16_t kElfMachineHexagon = 164;

struct ElfInfo {
  uint16_t machine = 0;
  uint32_t flags = 0;  // Hexagon: its version in hexadecimal, 0x79.
  bool is_64_bit = false;
  bool is_program = false;  // Can be started; otherwise it is a library.
  std::string interpreter;  // "/system/bin/linker64"; "" for libraries and static programs.
  std::string soname;
  std::vector<std::string> needed;  // Libraries to be loaded with it.
  uint64_t page_size = 0;           // The largest that its segments allow; 0 without any.
};

bool looks_like_elf(std::span<const uint8_t> file);

// `what` names the file in errors.
Result<ElfInfo> read_elf(std::span<const uint8_t> file, std::string_view what);

// "64-bit ARM", "x86-64"
std::string machine_name(uint16_t machine);

enum class DeviceSystem : uint8_t { kUnknown, kAndroid, kLinux };
// By its interpreter or its C library.
DeviceSystem system_of(const ElfInfo& elf);

}  // namespace tandem
