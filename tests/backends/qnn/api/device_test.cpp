// Devices. A process works for one architecture, so the others are tested by starting this program again.
#include <array>
#include <cstdio>

#include "backends/qnn/api/qnn_support.h"
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
