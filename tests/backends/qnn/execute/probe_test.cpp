// What stands in the way of an NPU's file, and what to do about it, for phones that are simulated by fake libraries.
// The binaries are nothing that a library would take: probing never reads them.
#include "backends/qnn/execute/probe.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "backends/qnn/execute/fake/record.h"
#include "backends/qnn/execute/preflight.h"
#include "backends/qnn/execute/tiny_model.h"

namespace tandem::qnn {
namespace probe_test {

using ::tandem::test::TempFolder;

const std::string kFakes = TANDEM_QNN_EXECUTE_FAKES;

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

class ProbeNpu : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const handle = ::dlopen((kFakes + "/libQnnHtp.so").c_str(), RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(handle, nullptr);
    const auto get = reinterpret_cast<test::FakePhoneRecord* (*)()>(::dlsym(handle, "fake_phone_record"));
    ASSERT_NE(get, nullptr);
    record_ = get();
    *record_ = {};
    // Of this process's architecture, so that other tests may create devices.
    record_->soc_model = test::test_soc();
    record_->arch = static_cast<uint32_t>(known_arch(test::test_soc()));
    options_.libraries = kFakes;
    phone_.emulator = false;
    phone_.rpc_library = kFakes + "/libcdsprpc.so";
    phone_.available_memory = uint64_t{1} << 30;
    header_ = test::tiny_header();
    header_.device.core_version = "2.40.0";
    header_.device.backend_version = "5.51.0";
  }

  // Shards of any size, with nothing in them: the segments are sparse files.
  Result<BackendProbe> probe(const Platform& platform, uint64_t shard_bytes = 100) {
    std::vector<SegmentFile> files;
    for (Shard& shard : header_.shards) {
      shard.binary = {static_cast<uint32_t>(files.size()), 0, shard_bytes};
      const std::vector<uint8_t> bytes(shard_bytes, 0);
      ::tandem::test::write_file(folder_ / shard.name, bytes);
      files.push_back({shard.name, folder_ / shard.name, hash_bytes(bytes)});
    }
    TANDEM_TRY(write_artifact(folder_ / "probed.tdm", header_, files, {}));
    TANDEM_ASSIGN(const Artifact artifact, Artifact::open(folder_ / "probed.tdm"));
    return probe_npu(&artifact, options_, platform);
  }

  void expect_obstacle(const Result<BackendProbe>& probe, std::string_view reason, std::string_view remedy) {
    ASSERT_TRUE(probe.ok()) << probe.error().message;
    EXPECT_FALSE(probe->usable);
    EXPECT_TRUE(contains(probe->reason, reason)) << probe->reason;
    EXPECT_TRUE(contains(probe->remedy, remedy)) << probe->remedy;
    EXPECT_FALSE(probe->remedy.empty());
  }

  const TempFolder folder_;
  test::FakePhoneRecord* record_ = nullptr;
  QnnOptions options_;
  Platform phone_;
  ArtifactHeader header_;
};

TEST_F(ProbeNpu, APhoneOfTheRightKindRunsIt) {
  const auto probe = this->probe(phone_);
  ASSERT_TRUE(probe.ok()) << probe.error().message;
  EXPECT_TRUE(probe->usable) << probe->reason;
  EXPECT_EQ(probe->reason + probe->remedy, "");
  EXPECT_TRUE(probe->warnings.empty());
  EXPECT_TRUE(contains(probe->device, "Hexagon V79")) << probe->device;
  EXPECT_EQ(probe->library_version, "2.40.0");
  EXPECT_EQ(probe->library_version_needed, "2.40.0");
  EXPECT_EQ(probe->memory_needed_bytes, memory_needed(header_));
  EXPECT_EQ(probe->memory_free_bytes, phone_.available_memory);
  EXPECT_EQ(probe->context_bytes, 100 + header_.device.spill_fill_bytes);
  EXPECT_EQ(probe->context_limit_bytes, kContextLimit);
  EXPECT_EQ(record_->contexts, 0) << "nothing was loaded";
}

TEST_F(ProbeNpu, WithoutAFileItIsAboutTheChip) {
  const auto probe = probe_npu(nullptr, options_, phone_);
  ASSERT_TRUE(probe.ok());
  EXPECT_TRUE(probe->usable) << probe->reason;
  EXPECT_TRUE(contains(probe->device, "V79"));
  record_->refuse_unsigned = 14002;
  expect_obstacle(probe_npu(nullptr, options_, phone_), "NPU is not available", "check that this device has one");
}

TEST_F(ProbeNpu, NoWayToTheDsp) {
  phone_.rpc_library = "libcdsprpc_absent.so";
  expect_obstacle(probe(phone_), "libcdsprpc_absent.so, the system's way to the DSP", "<uses-native-library");
  expect_obstacle(probe_npu(nullptr, options_, phone_), "cannot use the NPU", "lacks its driver");
}

TEST_F(ProbeNpu, NoLibraryOrAnOlderOne) {
  header_.device.core_version = "2.99.0";
  expect_obstacle(probe(phone_), "compiled with version 2.99.0", "later ones");
  options_.libraries = "/nonexistent";
  expect_obstacle(probe(phone_), "no libQnnHtp.so in /nonexistent", "make qnn");
}

TEST_F(ProbeNpu, AnotherChip) {
  record_->soc_model = 57;
  record_->arch = 75;
  expect_obstacle(probe(phone_), "compiled for Hexagon V79 and this device has V75", "compile the model for this");
  record_->soc_model = 75;
  record_->arch = 79;
  const auto relative = probe(phone_);
  ASSERT_TRUE(relative.ok());
  EXPECT_TRUE(relative->usable) << relative->reason;
  ASSERT_EQ(relative->warnings.size(), 1u);
  EXPECT_TRUE(contains(relative->warnings[0], "may be slower"));
}

TEST_F(ProbeNpu, TooLittleMemoryAndTooLargeContexts) {
  phone_.available_memory = 1000;
  expect_obstacle(probe(phone_), "0 MB are free", "close other programs");
  phone_.available_memory = UINT64_MAX;
  header_.device.spill_fill_bytes = kContextLimit - 99;
  expect_obstacle(probe(phone_), "the NPU addresses 4096 MB in one context", "more `shards`");
  header_.device.spill_fill_bytes = kContextLimit - 100;
  const auto fits = probe(phone_);
  ASSERT_TRUE(fits.ok());
  EXPECT_TRUE(fits->usable) << fits->reason;
  EXPECT_EQ(fits->memory_free_bytes, 0u) << "nobody knows";
}

TEST_F(ProbeNpu, ARefusedSignedProcess) {
  record_->refuse_signed = 1000;
  options_.signed_pd = true;
  const auto probe = this->probe(phone_);
  ASSERT_TRUE(probe.ok());
  if (probe->usable) {
    // Loading goes on without one, and says so.
    ASSERT_EQ(probe->warnings.size(), 1u);
    EXPECT_TRUE(contains(probe->warnings[0], "sign")) << probe->warnings[0];
  } else {
    expect_obstacle(probe, "signed process", "without `signed-pd`");
  }
}

TEST_F(ProbeNpu, TheEmulatorTakesNoSharedWeights) {
  header_.device.weight_shared = true;
  expect_obstacle(probe(Platform()), "emulator on x86 cannot load", "compile it with `emulator`");
  EXPECT_TRUE(probe(phone_)->usable);
  header_.device.weight_shared = false;
  const auto emulated = probe(Platform());
  ASSERT_TRUE(emulated.ok());
  EXPECT_TRUE(emulated->usable) << emulated->reason;
  EXPECT_TRUE(contains(emulated->device, "emulator"));
}

TEST_F(ProbeNpu, DamageIsAnError) {
  header_.device.core_version = "soon";
  EXPECT_EQ(probe(phone_).error().code, ErrorCode::kCorrupt);
  header_.device = {};
  EXPECT_EQ(probe(Platform()).error().code, ErrorCode::kCorrupt);
}

}  // namespace probe_test
}  // namespace tandem::qnn
