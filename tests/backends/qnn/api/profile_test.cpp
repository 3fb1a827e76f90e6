// The real library's estimates of how fast graphs would be. Each SoC needs a separate process: this program starts
// itself again for those that are simulated.
#include "backends/qnn/api/profile.h"

#include <array>
#include <cstdio>

#include "backends/qnn/api/qnn_support.h"
#include "backends/qnn/api/version_rules.h"
#include "support/own_process.h"

namespace tandem::qnn {
namespace profile_test {

using test::SmallGraph;

constexpr uint32_t kInputs = 1024, kOutputs = 2048;
constexpr uint64_t kWeightBytes = uint64_t{kInputs} * kOutputs;

bool is_simulated(uint32_t soc_model) {
  return soc_model == 52 || soc_model == 62 || soc_model == 72 || soc_model == 77;
}

// One row times an int8 matrix of 2 MB.
void add_linear(SmallGraph& graph) {
  const WeightMatrix weights = test::random_weights(WeightFormat::kI8, kOutputs, kInputs, 0, 7);
  const auto x = graph.input("x", test::random_fixed(DataType::kFixedU16, kInputs, -1, 1, 8), {1, 1, 1, kInputs});
  const auto w = graph.add(make_conv2d_weights("w", weights));
  const auto y = graph.output("y", DataType::kFixedU16, {1, 1, 1, kOutputs}, ScaleOffset{0.0005f, -32768});
  graph.node("Conv2d", {x, w}, {y}, test::one_by_one());
}

TEST(QnnProfile, EstimatesAreThereForSimulatedSocsOnly) {
  TANDEM_NEEDS_QNN();
  SmallGraph graph;
  add_linear(graph);
  ASSERT_TRUE(graph.status().ok()) << graph.status().error().message;
  const auto estimate = graph.graph()->finalize_with_estimate();
  ASSERT_TRUE(estimate.ok()) << estimate.error().message;
  ASSERT_EQ(estimate->has_value(), is_simulated(test::test_soc())) << "SoC " << test::test_soc();
  EXPECT_TRUE(graph.graph()->finalized());
  if (!estimate->has_value()) return;
  const Estimate& e = **estimate;
  std::printf("[ measured ] SoC %u: %llu us, %llu bytes read\n", test::test_soc(),
              static_cast<unsigned long long>(e.us), static_cast<unsigned long long>(e.ddr_read_bytes));
  EXPECT_GT(e.us_lower, 0u);
  EXPECT_LE(e.us_lower, e.us);
  EXPECT_LE(e.us, e.us_upper);
  EXPECT_LT(e.us, 10'000u) << "2 MB take no 10 ms";
  EXPECT_GE(e.ddr_read_bytes, kWeightBytes);
  EXPECT_LT(e.ddr_read_bytes, 2 * kWeightBytes);
  EXPECT_GT(e.ddr_write_bytes, 0u);
  EXPECT_EQ(e.spill_bytes, 0u);
  EXPECT_EQ(e.fill_bytes, 0u);
}

// The library counts them at any level, and names them at the detailed one.
TEST(QnnProfile, OpsWithoutACostAreNamed) {
  TANDEM_NEEDS_QNN();
  if (!is_simulated(test::test_soc())) return;
  SmallGraph graph;
  const auto x = graph.input("x", DataType::kFloat16, {1, 1, 64, 1024}, std::vector<uint8_t>(64 * 1024 * 2));
  const auto gamma = graph.add(make_static_f16("gamma", {1024}, std::vector<float>(1024, 1.0f)));
  const auto y = graph.output("y", DataType::kFloat16, {1, 1, 64, 1024});
  graph.node("RmsNorm", {x, gamma}, {y}, {{"epsilon", 1e-6f}, {"axes", U32Values{{1}, {3}}}});
  ASSERT_TRUE(graph.status().ok()) << graph.status().error().message;
  const auto estimate = graph.graph()->finalize_with_estimate();
  ASSERT_TRUE(estimate.ok()) << estimate.error().message;
  ASSERT_TRUE(estimate->has_value());
  ASSERT_FALSE((*estimate)->uncosted_ops.empty()) << "RmsNorm in fp16 has a cost now: look for another op";
  // V68 adds its own ops around it.
  for (const std::string& op : (*estimate)->uncosted_ops) EXPECT_TRUE(op == "node0" || op == "unnamed") << op;
  EXPECT_GT(std::ranges::count((*estimate)->uncosted_ops, "node0"), 0);
}

class QnnSimulated : public ::testing::TestWithParam<const char*> {};

TEST_P(QnnSimulated, InAProcessOfItsOwn) {
  TANDEM_NEEDS_QNN();
  if (!has_estimates(test::qnn_library().value()->htp_version())) GTEST_SKIP() << "this version has no estimates";
  const std::string text = tandem::test::run_in_own_process(test::kSocVariable, GetParam(), "QnnProfile.*");
  EXPECT_NE(text.find("[ measured ] SoC " + std::string(GetParam())), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(All, QnnSimulated, ::testing::Values("62", "52", "77", "72"),
                         [](const auto& test) { return "Soc" + std::string(test.param); });

}  // namespace profile_test
}  // namespace tandem::qnn
