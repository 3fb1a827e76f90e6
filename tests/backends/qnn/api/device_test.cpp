// Devices. A process works for one architecture, so the others are tested by starting this program again.
#include <array>
#include <cstdio>

#include "backends/qnn/api/qnn_support.h"
#include "backends/qnn/api/version_rules.h"
#include "support/own_process.h"

namespace tandem::qnn {
namespace device_test {

using test::says;

struct Target {
  const char* name;
  const char* soc;
};

class QnnArchitectures : public ::testing::TestWithParam<Target> {};

TEST_P(QnnArchitectures, DeviceOpsAndBinariesInAProcessOfItsOwn) {
  TANDEM_NEEDS_QNN();
  const std::string text =
      tandem::test::run_in_own_process(test::kSocVariable, GetParam().soc, "QnnOps*:*QnnLinear*:QnnGraph*");
  EXPECT_NE(text.find("[ measured ] " + std::string(GetParam().name)), std::string::npos) << text;
  for (size_t at = 0; (at = text.find("[ measured ]", at)) != std::string::npos; ++at) {
    std::printf("%s\n", text.substr(at, text.find('\n', at) - at).c_str());
  }
}

// V79 is what the tests of this process work for.
INSTANTIATE_TEST_SUITE_P(All, QnnArchitectures,
                         ::testing::Values(Target{"V73", "43"}, Target{"V75", "57"}, Target{"V81", "87"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(QnnDevice, MistakesAreRefused) {
  TANDEM_NEEDS_QNN();
  ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  const auto& device = test::qnn_device().value();
  const auto create = [&](const DeviceOptions& options) { return Device::create(device->backend(), options); };
  EXPECT_TRUE(says(create({}).error(), {"told which SoC"}));
  EXPECT_TRUE(says(create({.soc_model = 69, .arch = 77}).error(), {"does not know", "V77"}));
  EXPECT_TRUE(says(create({.soc_model = 69, .arch = 73}).error(), {"has the architecture V79, not V73"}));
  EXPECT_TRUE(says(create({.soc_model = 69, .arch = 79, .vtcm_mb = 0}).error(), {"VTCM"}));
  const uint32_t other = device->arch() == 73 ? 57 : 43;
  EXPECT_TRUE(says(create({.soc_model = other, .arch = known_arch(other)}).error(), {"use another process"}));
  EXPECT_TRUE(says(create({.soc_model = 4000, .arch = device->arch()}).error(), {"does not know this SoC"}));
  EXPECT_TRUE(create({.soc_model = test::test_soc(), .arch = device->arch()}).ok());
}

TEST(VersionRules, ThePayloadOfDeviceOptionsMovedBackAndForth) {
  const auto offset = [](uint32_t minor) { return device_payload_offset({5, minor, 0}); };
  EXPECT_EQ(offset(36), 4u);
  for (const uint32_t minor : {37u, 46u}) EXPECT_FALSE(offset(minor).has_value()) << minor;
  for (const uint32_t minor : {47u, 48u, 50u, 51u, 60u}) EXPECT_EQ(offset(minor), 8u) << minor;
  EXPECT_EQ(offset(49), 4u);
}

// Where a library reads the SoC, it reads the other options too. The SoC alone is given, at one of the offsets.
TEST(VersionRules, ThisLibraryReadsDeviceOptionsWhereTheTableSays) {
  TANDEM_NEEDS_QNN();
  ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  const Backend& backend = *test::qnn_device().value()->backend();
  const auto expected = device_payload_offset(backend.library()->htp_version());
  ASSERT_TRUE(expected.has_value()) << "measure it, and add it to version_rules.cpp";
  for (const size_t offset : {4u, 8u}) {
    abi::HtpDeviceConfig soc = {};
    soc.words[offset / 4 - 1] = test::test_soc();
    abi::DeviceConfig config = {};
    config.option = abi::DeviceOption::kCustom;
    config.custom = &soc;
    const abi::DeviceConfig* list[] = {&config, nullptr};
    abi::Handle device = nullptr;
    const auto result = backend.core().device_create(backend.log(), list, &device);
    EXPECT_EQ(result == abi::kSuccess, offset == *expected) << offset << ": " << (result & abi::kErrorCodeMask);
    if (result == abi::kSuccess) backend.core().device_free(device);
  }
}

TEST(QnnDevice, ManyCyclesDoNotGrow) {
  TANDEM_NEEDS_QNN();
  ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  for (int i = 0; i < 50; ++i) {
    auto context = Context::create(test::qnn_device().value(), {});
    ASSERT_TRUE(context.ok()) << context.error().message;
  }
}

TEST(QnnDevice, ObjectsMayBeDroppedInAnyOrder) {
  TANDEM_NEEDS_QNN();
  std::shared_ptr<const Context> context;
  std::shared_ptr<Graph> graph;
  {
    auto backend = Backend::create(test::qnn_library().value());
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    auto device = Device::create(*backend, {.soc_model = test::test_soc(), .arch = known_arch(test::test_soc())});
    ASSERT_TRUE(device.ok()) << device.error().message;
    auto created = Context::create(*device, {});
    ASSERT_TRUE(created.ok()) << created.error().message;
    auto built = Graph::create(*created, "graph");
    ASSERT_TRUE(built.ok()) << built.error().message;
    context = *created;
    graph = *built;
  }
  context.reset();
  const auto x = graph->add_tensor(make_input("x", DataType::kFixedU8, {8}, ScaleOffset{1, 0}));
  EXPECT_TRUE(x.ok()) << x.error().message;
}

}  // namespace device_test
}  // namespace tandem::qnn
