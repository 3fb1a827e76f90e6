// The same tests for other architectures, each in a separate process; and V69's MatMul, which is wrong.
#include "backends/qnn/api/known_traps.h"
#include "backends/qnn/lower/lower_support.h"
#include "support/own_process.h"

namespace tandem::qnn {
namespace arch_test {

struct Target {
  const char* name;
  const char* soc;
};

class QnnLoweringArchitectures : public ::testing::TestWithParam<Target> {};

TEST_P(QnnLoweringArchitectures, OpsAndDecodersInAProcessOfItsOwn) {
  TANDEM_NEEDS_QNN();
  // Sharing is for V73 and up.
  const std::string text =
      tandem::test::run_in_own_process(test::kSocVariable, GetParam().soc, "QnnLowering.*-QnnLowering.Sharing*");
  EXPECT_NE(text.find("[ measured ] " + std::string(GetParam().name)), std::string::npos) << text;
}

// V79 is what the tests of this process work for.
INSTANTIATE_TEST_SUITE_P(All, QnnLoweringArchitectures,
                         ::testing::Values(Target{"V68", "30"}, Target{"V69", "36"}, Target{"V73", "43"},
                                           Target{"V75", "57"}, Target{"V81", "87"}),
                         [](const auto& test) { return std::string(test.param.name); });

// The decoders above show that the lowering avoids it; this test shows that nothing else triggers it.
TEST(QnnLoweringTraps, MatMulWithRaggedRowsIsRefusedOnV69) {
  const auto check = [](uint32_t matrices, uint32_t rows, DataType dtype, int arch) {
    uint32_t left_shape[] = {1, matrices, rows, 64}, right_shape[] = {1, matrices, 64, 128};
    abi::Tensor tensors[2] = {};
    tensors[0].body.dtype = dtype;
    tensors[0].body.rank = tensors[1].body.rank = 4;
    tensors[0].body.dimensions = left_shape;
    tensors[1].body.dimensions = right_shape;
    tensors[1].body.dtype = dtype == DataType::kFixedU16 ? DataType::kFixedU8 : dtype;
    tensors[1].body.quantize.scale_offset = {1.0f, -128};
    const NodeSpec node = {.name = "scores", .type = "MatMul", .inputs = {}, .outputs = {}};
    return check_known_traps(node, tensors, {tensors, 1}, arch, kNewestTestedHtp);
  };
  for (const uint32_t rows : {1u, 2u, 4u, 7u, 9u, 14u, 15u, 17u}) {
    const Status status = check(2, rows, DataType::kFixedU16, 69);
    ASSERT_FALSE(status.ok()) << rows;
    EXPECT_TRUE(test::says(status.error(), {"scores", "V69"}));
    EXPECT_TRUE(check(1, rows, DataType::kFixedU16, 69).ok());
    EXPECT_TRUE(check(2, rows, DataType::kFloat16, 69).ok());
    EXPECT_TRUE(check(2, rows, DataType::kFixedU16, 73).ok());
  }
  for (const uint32_t rows : {8u, 12u, 16u, 28u, 64u}) EXPECT_TRUE(check(2, rows, DataType::kFixedU16, 69).ok());
}

}  // namespace arch_test
}  // namespace tandem::qnn
