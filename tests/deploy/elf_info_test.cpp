#include "deploy/elf_info.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "deploy/elf_writer.h"

namespace tandem {
namespace elf_info_test {

using test::ElfWriter;

std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(ElfInfo, ReadsBothSizes) {
  for (const bool is_64_bit : {false, true}) {
    ElfWriter writer;
    writer.is_64_bit = is_64_bit;
    writer.machine = is_64_bit ? kElfMachineArm64 : kElfMachineHexagon;
    writer.flags = 0x79;
    writer.soname = "libQnnHtpV79Skel.so";
    writer.needed = {"libc.so", "libcdsprpc.so"};
    const auto elf = read_elf(as_bytes(writer.finish()), "x");
    ASSERT_TRUE(elf.ok()) << elf.error().message;
    EXPECT_EQ(elf->is_64_bit, is_64_bit);
    EXPECT_EQ(elf->machine, writer.machine);
    EXPECT_EQ(elf->flags, 0x79u);
    EXPECT_EQ(elf->soname, writer.soname);
    EXPECT_EQ(elf->needed, writer.needed);
    EXPECT_EQ(elf->page_size, 0x4000u);
    EXPECT_FALSE(elf->is_program);
    EXPECT_EQ(system_of(*elf), DeviceSystem::kAndroid);
  }
}

TEST(ElfInfo, TellsProgramsFromLibraries) {
  ElfWriter writer;
  EXPECT_FALSE(read_elf(as_bytes(writer.finish()), "x")->is_program);
  writer.pie = true;  // Static, and movable.
  EXPECT_TRUE(read_elf(as_bytes(writer.finish()), "x")->is_program);
  writer = {};
  writer.type = 2;
  EXPECT_TRUE(read_elf(as_bytes(writer.finish()), "x")->is_program);
  writer = {};
  writer.interpreter = "/system/bin/linker64";
  auto elf = read_elf(as_bytes(writer.finish()), "x");
  EXPECT_TRUE(elf->is_program);
  EXPECT_EQ(elf->interpreter, "/system/bin/linker64");
  EXPECT_EQ(system_of(*elf), DeviceSystem::kAndroid);
  writer.interpreter = "/lib/ld-linux-aarch64.so.1";
  EXPECT_EQ(system_of(*read_elf(as_bytes(writer.finish()), "x")), DeviceSystem::kLinux);
}

// The linker's own work is the oracle: this test program.
TEST(ElfInfo, ReadsARealProgram) {
  const auto file = MappedFile::open("/proc/self/exe");
  ASSERT_TRUE(file.ok());
  const auto elf = read_elf(file->bytes(), "/proc/self/exe");
  ASSERT_TRUE(elf.ok()) << elf.error().message;
#if defined(__x86_64__)
  EXPECT_EQ(elf->machine, kElfMachineX86);
#elif defined(__aarch64__)
  EXPECT_EQ(elf->machine, kElfMachineArm64);
#endif
  EXPECT_TRUE(elf->is_program);
  EXPECT_NE(std::ranges::find(elf->needed, "libc.so.6"), elf->needed.end());
  EXPECT_NE(elf->interpreter.find("ld-linux"), std::string::npos);
  EXPECT_GE(elf->page_size, 4096u);
}

TEST(ElfInfo, EveryTruncationIsAnErrorOrTheSame) {
  ElfWriter writer;
  writer.needed = {"libc.so"};
  writer.interpreter = "/system/bin/linker64";
  const std::string file = writer.finish();
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    const auto elf = read_elf(as_bytes(cut), "lib.so");
    ASSERT_FALSE(elf.ok()) << size;
    EXPECT_TRUE(elf.error().message.starts_with("lib.so")) << elf.error().message;
  }
}

TEST(ElfInfo, SurvivesAnyWrongByte) {
  for (const bool is_64_bit : {false, true}) {
    ElfWriter writer;
    writer.is_64_bit = is_64_bit;
    writer.needed = {"libc.so", "libm.so"};
    writer.soname = "liba.so";
    const std::string file = writer.finish();
    for (size_t i = 0; i < file.size(); ++i) {
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        std::string broken = file;
        broken[i] = static_cast<char>(value);
        const auto elf = read_elf(as_bytes(broken), "x");
        EXPECT_TRUE(elf.ok() || !elf.error().message.empty());
      }
    }
  }
}

TEST(ElfInfo, OtherFilesAreRefusedByName) {
  const auto says = [](const std::string& file, std::string_view part) {
    const auto elf = read_elf(as_bytes(file), "a.so");
    ASSERT_FALSE(elf.ok());
    EXPECT_NE(elf.error().message.find(part), std::string::npos) << elf.error().message;
  };
  says("MZ\x90", "a.so is not a program or library");
  says("", "a.so is not a program or library");
  ElfWriter object;
  object.type = 1;
  says(object.finish(), "neither a program nor a shared library");
  std::string big_endian = ElfWriter().finish();
  big_endian[5] = 2;
  says(big_endian, "byte order 2");
  EXPECT_EQ(machine_name(kElfMachineX86), "x86-64");
  EXPECT_EQ(machine_name(9999), "processor number 9999");
}

}  // namespace elf_info_test
}  // namespace tandem
