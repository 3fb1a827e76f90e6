#include "deploy/vendor_package.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "artifact/header.h"
#include "compiler/backend_compiler.h"
#include "deploy/elf_writer.h"
#include "support/temp_folder.h"
#include "support/torch_writer.h"

namespace tandem {
namespace vendor_package_test {

using test::ElfWriter;
using test::TempFolder;
using test::ZipWriter;

const BackendCompiler& npu_compiler() {
  for (const BackendCompiler* compiler : backend_compilers()) {
    if (!compiler->deploy_options().empty()) return *compiler;
  }
  return *backend_compilers().front();
}

ArtifactHeader header_for(int arch, std::string build_id = "v2.51.0.260929181845") {
  ArtifactHeader header;
  header.device.arch = arch;
  header.device.build_id = std::move(build_id);
  return header;
}

std::string host_library(std::string_view build = "v2.51.0.260929181845") {
  ElfWriter writer;
  writer.needed = {"libc.so"};
  writer.content = std::string("text v1.2 v9 ") + std::string(build) + '\0';
  return writer.finish();
}

std::string skel(uint32_t flags, std::string_view build = "v2.51.0.260929181845") {
  ElfWriter writer;
  writer.is_64_bit = false;
  writer.machine = kElfMachineHexagon;
  writer.flags = flags;
  writer.content = std::string("hexnn_ver_") + std::string(build) + ".";
  return writer.finish();
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

ZipWriter::Member deflated(std::string name, const std::string& data) {
  std::string packed(data.size() + 1000, '\0');
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(data.data()), static_cast<uInt>(data.size()));
  return {std::move(name), packed, 0, 8, data.size(), static_cast<uint32_t>(crc)};
}

std::vector<DeviceFile> needed(int arch) { return npu_compiler().device_needs(header_for(arch))->files; }

void expect_says(const Status& status, std::string_view part) {
  ASSERT_FALSE(status.ok()) << part;
  EXPECT_NE(status.error().message.find(part), std::string::npos) << status.error().message;
}

// The names as Qualcomm's packages have them.
TEST(DeviceNeeds, ExactlyTheFilesOfTheHexagonVersion) {
  for (const int arch : {68, 69, 73, 75, 79, 81}) {
    std::vector<std::string> names;
    for (const DeviceFile& file : needed(arch)) names.push_back(file.name);
    const std::string v = "libQnnHtpV" + std::to_string(arch);
    EXPECT_EQ(names, (std::vector<std::string>{"libQnnHtp.so", "libQnnSystem.so", v + "Stub.so", v + "Skel.so"}));
  }
  EXPECT_FALSE(npu_compiler().device_needs(header_for(0)).ok());
  for (const BackendCompiler* compiler : backend_compilers()) {
    if (compiler == &npu_compiler()) continue;
    EXPECT_TRUE(compiler->device_needs(header_for(79))->files.empty()) << compiler->name();
  }
}

TEST(VendorPackage, FindsFilesInEveryLayout) {
  const std::string library = host_library(), dsp = skel(0x79);
  TempFolder folder;
  write(folder / "flat/libQnnHtp.so", library);
  write(folder / "flat/libQnnHtpV79Skel.so", dsp);
  write(folder / "sdk/lib/x86_64-linux-clang/libQnnHtp.so", "not this one");
  write(folder / "sdk/lib/aarch64-android/libQnnHtp.so", library);
  write(folder / "sdk/lib/hexagon-v79/unsigned/libQnnHtpV79Skel.so", dsp);
  write(folder / "site-packages/onnxruntime_qnn/libQnnHtp.so", library);
  write(folder / "site-packages/onnxruntime_qnn/libQnnHtpV79Skel.so", dsp);
  ZipWriter aar, wheel;
  aar.members = {deflated("jni/arm64-v8a/libQnnHtp.so", library), deflated("jni/arm64-v8a/libQnnHtpV79Skel.so", dsp),
                 deflated("../../libQnnHtp.so", "elsewhere"), deflated("AndroidManifest.xml", "<x/>")};
  wheel.members = {deflated("onnxruntime_qnn/libQnnHtp.so", library),
                   deflated("onnxruntime_qnn/libQnnHtpV79Skel.so", dsp)};
  write(folder / "a.aar", aar.finish());
  write(folder / "a.whl", wheel.finish());
  for (const char* place : {"flat", "sdk", "site-packages", "a.aar", "a.whl"}) {
    const auto package = VendorPackage::open(folder / place);
    ASSERT_TRUE(package.ok()) << package.error().message;
    const auto files = needed(79);
    const auto host = package->read(files[0]), device = package->read(files[3]);
    ASSERT_TRUE(host.ok()) << place << host.error().message;
    ASSERT_TRUE(device.ok()) << place << device.error().message;
    EXPECT_EQ(std::string(host->content.bytes().begin(), host->content.bytes().end()), library);
    EXPECT_EQ(std::string(device->content.bytes().begin(), device->content.bytes().end()), dsp);
    EXPECT_TRUE(*package->has(files[0]));
    EXPECT_FALSE(*package->has(files[1]));
    expect_says(package->read(files[1]).status(), "has no libQnnSystem.so");
  }
}

TEST(VendorPackage, WrongProcessorsAreRefusedByName) {
  TempFolder folder;
  ElfWriter x86;
  x86.machine = kElfMachineX86;
  write(folder / "libQnnHtp.so", x86.finish());
  write(folder / "libQnnHtpV79Skel.so", skel(0x75));
  write(folder / "libQnnHtpV79Stub.so", "not a library");
  const auto package = VendorPackage::open(folder.path());
  const auto files = needed(79);
  expect_says(package->read(files[0]).status(), "libQnnHtp.so is for x86-64, and the device needs it for 64-bit ARM");
  expect_says(package->read(files[2]).status(), "no ELF file");
  expect_says(package->read(files[3]).status(), "is for Hexagon V75, and the file was compiled for V79");
  write(folder / "libQnnHtpV79Skel.so", host_library());
  expect_says(package->read(files[3]).status(), "is for 64-bit ARM, and the device needs it for Hexagon");
  // A place further down the list has the right one.
  write(folder / "lib/aarch64-android/libQnnHtp.so", host_library());
  EXPECT_TRUE(package->read(files[0]).ok());
}

TEST(VendorPackage, HostileArchivesAreRefused) {
  TempFolder folder;
  const auto read = [&](const ZipWriter& zip) -> Status {
    write(folder / "a.aar", zip.finish());
    TANDEM_ASSIGN(const VendorPackage package, VendorPackage::open(folder / "a.aar"));
    return package.read(needed(79)[0]).status();
  };
  const auto library = deflated("jni/arm64-v8a/libQnnHtp.so", host_library());
  ZipWriter zip;
  zip.members = {library};
  EXPECT_TRUE(read(zip).ok());
  zip.members[0].size = 0x7fffffff;
  expect_says(read(zip), "1073741824 are the limit");
  zip.members[0].size = 1 << 29;  // More than deflate can make of so few bytes.
  expect_says(read(zip), "damaged");
  zip.members[0].size = library.size - 1;
  expect_says(read(zip), "damaged");
  zip.members[0] = library;
  zip.members[0].crc ^= 1;
  expect_says(read(zip), "damaged");
  zip.members[0] = library;
  zip.members[0].data.resize(library.data.size() / 2);
  expect_says(read(zip), "damaged");
  zip.members[0] = library;
  zip.members[0].method = 12;
  expect_says(read(zip), "method 12");
  zip.members = {library, library};
  expect_says(read(zip), "is there twice");
  write(folder / "a.aar", "PK\3\4 cut off");
  expect_says(VendorPackage::open(folder / "a.aar").status(), "cut off");
  write(folder / "a.aar", "text");
  expect_says(VendorPackage::open(folder / "a.aar").status(), "neither a folder nor an .aar or .whl file");
  EXPECT_FALSE(VendorPackage::open(folder / "none").ok());
}

std::span<const uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(DeviceFiles, ReleasesMustFit) {
  const auto check = [](const std::string& needs, const std::string& htp, const std::string& dsp) {
    const std::string host = host_library(htp), device = skel(0x79, dsp);
    const DeviceFileContent files[] = {{"libQnnHtp.so", as_bytes(host)}, {"libQnnHtpV79Skel.so", as_bytes(device)}};
    return npu_compiler().check_device_files(header_for(79, needs), files);
  };
  const std::string v49 = "v2.49.40.260801", v50 = "v2.50.0.260901", v51 = "v2.51.0.260929181845";
  const auto same = check(v51, v51, v51);
  ASSERT_TRUE(same.ok()) << same.error().message;
  EXPECT_EQ(same->found, v51);
  EXPECT_EQ(same->needed, v51);
  EXPECT_TRUE(same->warnings.empty());
  EXPECT_TRUE(check(v49, v51, v51).ok());
  expect_says(check(v51, v50, v50).status(), "compiled by release v2.51.0.260929181845");
  expect_says(check(v50, v49, v49).status(), "these are of v2.49.40.260801");
  expect_says(check(v51, "v3.0.0.260929181845", "v3.0.0.260929181845").status(), "v3.0.0");
  expect_says(check(v51, v51, v50).status(), "do not work together");
  EXPECT_EQ(check(v51, "", "")->warnings.size(), 1u);
  EXPECT_EQ(check("", v51, v51)->warnings.size(), 1u);
  EXPECT_EQ(check("v2.x", v51, v51)->warnings.size(), 1u);
}

}  // namespace vendor_package_test
}  // namespace tandem
