// Problems with a file, a library or a machine are detected before a binary is passed to the library, and reported.
#include <gtest/gtest.h>

#include "backends/interface/probe.h"
#include "backends/qnn/execute/preflight.h"
#include "backends/qnn/execute/program.h"
#include "backends/qnn/execute/tiny_model.h"

namespace tandem::qnn {
namespace refusal_test {

using ::tandem::test::TempFolder;

DeviceInfo compiled_for(uint32_t soc, int arch) {
  DeviceInfo device;
  device.soc_model = soc;
  device.arch = arch;
  device.vtcm_mb = 8;
  device.core_version = "2.40.0";
  device.backend_version = "5.51.0";
  return device;
}

TEST(CheckVersions, AnOlderLibraryIsRefusedAndANewerOneIsNot) {
  const DeviceInfo device = compiled_for(69, 79);
  EXPECT_TRUE(check_versions(device, {2, 40, 0}, {5, 51, 0}, "lib").ok());
  EXPECT_TRUE(check_versions(device, {2, 40, 1}, {5, 60, 0}, "lib").ok());
  EXPECT_TRUE(check_versions(device, {2, 41, 0}, {5, 51, 0}, "lib").ok());
  for (const abi::Version core : {abi::Version{2, 39, 9}, {3, 0, 0}, {1, 99, 0}}) {
    const Status status = check_versions(device, core, {5, 51, 0}, "/some/libQnnHtp.so");
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kUnsupported);
    EXPECT_TRUE(
        test::says(status.error(), {"compiled with version 2.40.0 of QNN's core interface",
                                    "/some/libQnnHtp.so has " + version_text(core), "compile the model again"}));
  }
  const Status status = check_versions(device, {2, 40, 0}, {5, 50, 0}, "lib");
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(test::says(status.error(), {"5.51.0 of QNN's HTP back end", "5.50.0"}));
}

TEST(CheckVersions, WhatIsNoVersionIsDamage) {
  for (const char* const version :
       {"", "2", "2.40", "2.40.", "2.40.0.", "2.40.0x", "a.b.c", "2..0", "-1.2.3", " 2.40.0", "99999999999.0.0"}) {
    DeviceInfo device = compiled_for(69, 79);
    device.core_version = version;
    const Status status = check_versions(device, {2, 40, 0}, {5, 51, 0}, "lib");
    ASSERT_FALSE(status.ok()) << version;
    EXPECT_EQ(status.error().code, ErrorCode::kCorrupt) << version;
  }
}

TEST(Defaults, OfTheFileAreUsedWhereTheAppSaysNothing) {
  DeviceInfo device = compiled_for(69, 79);
  auto options = parse_qnn_options({}, device);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->profile, PerformanceProfile::kBurst);
  EXPECT_FALSE(options->signed_pd);
  device.profile = "power_saver";
  device.signed_pd = true;
  options = parse_qnn_options({}, device);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->profile, PerformanceProfile::kPowerSaver);
  EXPECT_TRUE(options->signed_pd);
  options = parse_qnn_options({{"profile", "burst"}, {"signed-pd", "false"}}, device);
  ASSERT_TRUE(options.ok()) << options.error().message;
  EXPECT_EQ(options->profile, PerformanceProfile::kBurst);
  EXPECT_FALSE(options->signed_pd);
  device.profile = "warp";
  options = parse_qnn_options({}, device);
  ASSERT_FALSE(options.ok());
  EXPECT_EQ(options.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(test::says(options.error(), {"\"warp\"", "`profile`"}));
  EXPECT_TRUE(parse_qnn_options({{"profile", "burst"}}, device).ok());
}

TEST(CheckTarget, OnAPhoneTheChipMustBeTheOneCompiledFor) {
  Platform phone;
  phone.emulator = false;
  EXPECT_TRUE(check_target(compiled_for(69, 79), phone, {69, 79, 8}).ok());
  EXPECT_TRUE(check_target(compiled_for(69, 79), phone, {}).ok()) << "a chip that does not tell";
  EXPECT_TRUE(check_target(compiled_for(69, 79), phone, {70, 79, 8}).ok()) << "another SoC of the same architecture";
  DeviceInfo shared = compiled_for(69, 79);
  shared.weight_shared = true;
  EXPECT_TRUE(check_target(shared, phone, {69, 79, 8}).ok());
  Status status = check_target(compiled_for(69, 79), phone, {57, 75, 8});
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(test::says(status.error(), {"compiled for Hexagon V79", "this device has V75", "tandem targets"}));
  status = check_target(compiled_for(69, 79), phone, {69, 79, 4});
  ASSERT_FALSE(status.ok());
  EXPECT_TRUE(test::says(status.error(), {"8 MB of VTCM", "has 4"}));
  for (const DeviceInfo& nothing : {compiled_for(0, 79), compiled_for(69, 0), compiled_for(69, -5)}) {
    EXPECT_EQ(check_target(nothing, phone, {}).error().code, ErrorCode::kCorrupt);
  }
}

TEST(CheckMemory, CountsBinariesAndASessionOnce) {
  ArtifactHeader header = test::tiny_header();
  header.shards[0].binary.size = 1000000;
  header.shards[1].binary.size = 2000000;
  const uint64_t cache = test::kContext * test::kWidth;
  uint64_t io_bytes = 0;
  for (const int64_t n : {int64_t{1}, test::kPrefill}) {
    io_bytes +=
        static_cast<uint64_t>(4 * n + 4 * n + 2 * n * (test::kContext + n) + n * test::kWidth + 2 * n * test::kVocab);
  }
  EXPECT_EQ(memory_needed(header), 3000000 + cache + io_bytes);
  Platform platform;
  platform.available_memory = 3000000 + cache + io_bytes;
  EXPECT_TRUE(check_memory(header, platform).ok());
  platform.available_memory -= 1;
  const Status status = check_memory(header, platform);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kResourceExhausted);
  EXPECT_TRUE(test::says(status.error(), {"needs 3 MB", "2 MB are free", "`context`"}));
  header.shards[2].binary.size = UINT64_MAX;
  EXPECT_FALSE(check_memory(header, platform).ok()) << "a sum that does not fit";
}

TEST(CheckMemory, ReadsWhatTheSystemSays) {
  EXPECT_EQ(parse_available_memory("MemTotal:  100 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n"), 2048u * 1024);
  for (const char* const text :
       {"", "MemTotal: 5 kB\n", "MemAvailable:", "MemAvailable: x kB", "MemAvailable: 99999999999999999999999 kB"}) {
    EXPECT_EQ(parse_available_memory(text), UINT64_MAX) << text;
  }
  EXPECT_GT(Platform::here().available_memory, 0u);
  EXPECT_LT(Platform::here().available_memory, uint64_t{1} << 50);
}

TEST(LoadProgram, NeedsNoLibraryToRefuse) {
  // The header alone is enough for these; the libraries do not even exist.
  TANDEM_NEEDS_QNN();
  TempFolder folder;
  ThreadPool pool(1);
  QnnOptions options;
  options.libraries = "/nonexistent/qnn";
  const auto refuse = [&](const std::function<void(ArtifactHeader&)>& change, const Platform& platform) {
    auto artifact = test::tiny_artifact(folder, {change, {}});
    if (!artifact.ok()) return artifact.error();
    auto program = load_program(*artifact, pool, options, platform);
    return program.ok() ? Error{} : program.error();
  };
  const Platform here = Platform::here();
  EXPECT_TRUE(test::says(refuse([](ArtifactHeader& header) { header.device.weight_shared = true; }, here),
                         {"share their weights", "emulator on x86", "`emulator`"}));
  EXPECT_TRUE(
      test::says(refuse([](ArtifactHeader& header) { header.device = {}; }, here), {"does not say which chip"}));
  EXPECT_TRUE(test::says(refuse([](ArtifactHeader& header) { header.shards.clear(); }, here), {""}));
  Platform small = here;
  small.available_memory = 1000;
  EXPECT_TRUE(test::says(refuse({}, small), {"0 MB are free"}));
  EXPECT_TRUE(test::says(refuse({}, here), {"there is no libQnnHtp.so in /nonexistent/qnn", "make qnn"}));
  options.rpc_polling_us = 10000;
  EXPECT_TRUE(test::says(refuse({}, here), {"10000 us is too long"}));
}

struct Refusal {
  const char* name;
  std::function<void(ArtifactHeader&)> header;
  std::function<void(std::vector<OwnedBinary>&)> binaries;
  std::vector<std::string_view> says;
};

ir::Tensor& tensor(ArtifactHeader& header, size_t method, const char* name) {
  return header.methods[method].at(*header.methods[method].find(name));
}

class RefusedFile : public ::testing::TestWithParam<Refusal> {};

TEST_P(RefusedFile, InOneSentence) {
  TANDEM_NEEDS_QNN();
  TempFolder folder;
  ThreadPool pool(1);
  const auto artifact = test::tiny_artifact(folder, {GetParam().header, GetParam().binaries});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const auto program = load_program(*artifact, pool, test::tiny_options());
  ASSERT_FALSE(program.ok());
  std::printf("[ says     ] %s\n", program.error().message.c_str());
  for (const std::string_view part : GetParam().says) EXPECT_TRUE(test::says(program.error(), {part}));
}

// A phone's library would compute these and report success.
INSTANTIATE_TEST_SUITE_P(
    Files, RefusedFile,
    ::testing::Values(
        Refusal{"other_arch",
                [](ArtifactHeader& header) {
                  header.device.soc_model = 43;
                  header.device.arch = 73;
                },
                {},
                {"has worked for V79 and cannot work for V73"}},
        Refusal{"arch_of_another_soc", [](ArtifactHeader& header) { header.device.arch = 75; }, {}, {"V79, not V75"}},
        Refusal{"unknown_arch",
                [](ArtifactHeader& header) {
                  header.device.soc_model = 500;
                  header.device.arch = 99;
                },
                {},
                {"does not know the Hexagon architecture V99"}},
        Refusal{"newer_library",
                [](ArtifactHeader& header) { header.device.core_version = "2.99.0"; },
                {},
                {"compiled with version 2.99.0", "compile the model again"}},
        Refusal{"flipped_byte",
                {},
                [](std::vector<OwnedBinary>& binaries) { binaries[1].bytes[binaries[1].bytes.size() / 2] ^= 1; },
                {"shard \"second\" is damaged", "copy the file again"}},
        Refusal{"truncated",
                {},
                [](std::vector<OwnedBinary>& binaries) {
                  binaries[0].bytes.resize(binaries[0].bytes.size() / 2);
                  binaries[0].checksum = binary_checksum(binaries[0].bytes);
                },
                {"shard \"first\"", "no context binary, or a truncated one"}},
        Refusal{"not_a_binary",
                {},
                [](std::vector<OwnedBinary>& binaries) {
                  binaries[2].bytes.assign(5000, 0);
                  binaries[2].checksum = binary_checksum(binaries[2].bytes);
                },
                {"shard \"head\""}},
        Refusal{"swapped_shards",
                {},
                [](std::vector<OwnedBinary>& binaries) { std::swap(binaries[0], binaries[1]); },
                {"the binary of shard \"first\" has no graph \"decode.first\""}},
        Refusal{"other_scale",
                [](ArtifactHeader& header) { tensor(header, 1, "hidden").encoding.scale *= 1.001f; },
                {},
                {"\"hidden\" has scale", "compile the file again"}},
        Refusal{"other_zero_point",
                [](ArtifactHeader& header) { tensor(header, 0, "logits").encoding.zero_point = 32767; },
                {},
                {"\"logits\" has scale", "zero point 32767", "zero point 32768"}},
        Refusal{"other_dtype",
                [](ArtifactHeader& header) {
                  tensor(header, 0, "shifted").dtype = DType::kF16;
                  tensor(header, 0, "shifted").encoding = {};
                },
                {},
                {"\"shifted\" is f16 in method \"decode\" and u16 fixed point in graph \"decode.first\""}},
        Refusal{"head_for_decode_alone",
                [](ArtifactHeader& header) { header.shards[2].graphs.pop_back(); },
                {},
                {"no shard of the file computes \"logits\" of method \"prefill_4\""}},
        Refusal{"other_graph_of_the_method",
                [](ArtifactHeader& header) { header.shards[0].graphs[0].name = "prefill_4.first"; },
                {},
                {"\"embedding.out\" has 64 bytes in method \"decode\" and 256 in graph \"prefill_4.first\""}},
        Refusal{
            "absent_table", [](ArtifactHeader& header) { header.weights.clear(); }, {}, {"no weight \"embedding\""}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(LoadProgram, AFailureLeavesRoomForALaterSuccess) {
  TANDEM_NEEDS_QNN();
  TempFolder folder;
  ThreadPool pool(1);
  for (int i = 0; i < 3; ++i) {
    const auto damaged =
        test::tiny_artifact(folder, {{}, [](std::vector<OwnedBinary>& binaries) { binaries[2].bytes.back() ^= 0x40; }});
    ASSERT_TRUE(damaged.ok());
    EXPECT_FALSE(load_program(*damaged, pool, test::tiny_options()).ok());
    const auto whole = test::tiny_artifact(folder);
    ASSERT_TRUE(whole.ok());
    const auto program = load_program(*whole, pool, test::tiny_options());
    EXPECT_TRUE(program.ok()) << program.error().message;
  }
}

}  // namespace refusal_test
}  // namespace tandem::qnn
