// Compiled files on the CPU back end against Hugging Face's logits and tokens.
#include <gtest/gtest.h>

#include "backends/cpu/kernels/kernels.h"
#include "support/compiled_model.h"
#include "support/npy.h"

namespace tandem {
namespace golden_test {

// |difference| <= 1e-4 * std of the file's logits. Measured over all families and kernel sets: 9e-6 at worst.
constexpr double kTolerance = 1e-4;

class GoldenOnCpu : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file(std::vector<int64_t> prefill) const {
    return test::compiled({.checkpoint = test::golden_dir(GetParam()), .recipe = "fp32", .prefill = prefill});
  }
};

TEST_P(GoldenOnCpu, LogitsEqualHuggingFace) {
  for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
    SCOPED_TRACE(kernels->isa);
    const test::ScopedIsa isa(kernels->isa);
    double worst = 0.0;
    for (const char* length : {"1", "7", "40"}) {
      const auto expected = test::read_npy(test::golden_dir(GetParam()) / ("logits_" + std::string(length) + ".npy"));
      const auto got = test::score_file(file({8, 32}), test::golden_prompt(GetParam(), length));
      ASSERT_EQ(got.size(), expected.values.size());
      const double relative = test::worst_difference(got, expected.values) / test::standard_deviation(expected.values);
      EXPECT_LE(relative, kTolerance) << "prompt of " << length;
      worst = std::max(worst, relative);
    }
    RecordProperty("worst_" + std::string(kernels->isa), std::to_string(worst));
  }
}

TEST_P(GoldenOnCpu, GreedyTokensEqualHuggingFaceInBothModes) {
  const Json golden = test::golden_json(GetParam());
  const auto prompt = golden["greedy"]["prompt"].get<std::vector<int32_t>>();
  const auto expected = golden["greedy"]["new_tokens"].get<std::vector<int32_t>>();
  const auto count = static_cast<int64_t>(expected.size());
  ASSERT_EQ(count, 16);
  EXPECT_EQ(test::greedy_file(file({}), prompt, count), expected) << "mode kv";
  EXPECT_EQ(test::greedy_file(file({8, 32}), prompt, count), expected) << "mode hybrid";
}

// A token's result does not depend on how many others are in the call: not within a tolerance, to the bit.
TEST_P(GoldenOnCpu, LengthOfPrefillDoesNotChangeABit) {
  const auto prompt = test::golden_prompt(GetParam());
  for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
    const test::ScopedIsa isa(kernels->isa);
    for (const char* recipe :
         {"fp32", "fp16", "w8", "w4", R"({"base": "w4", "activations": "int16"})", R"({"base": "w4", "kv": "u8"})"}) {
      SCOPED_TRACE(std::string(kernels->isa) + " " + recipe);
      const auto rows = [&](std::vector<int64_t> prefill) {
        return test::score_file(
            test::compiled({.checkpoint = test::golden_dir(GetParam()), .recipe = recipe, .prefill = prefill}), prompt);
      };
      const auto one_by_one = rows({});
      EXPECT_EQ(one_by_one, rows({8}));
      EXPECT_EQ(one_by_one, rows({32}));
      EXPECT_EQ(one_by_one, rows({8, 32}));
    }
  }
}

TEST_P(GoldenOnCpu, NumberOfThreadsDoesNotChangeABit) {
  const auto prompt = test::golden_prompt(GetParam());
  const auto path = test::compiled({.checkpoint = test::golden_dir(GetParam()), .recipe = "w4"});
  const auto one = test::load_engine(path, 1), three = test::load_engine(path, 3);
  EXPECT_EQ(one->threads(), 1);
  EXPECT_EQ(test::score(*test::new_session(*one), prompt), test::score(*test::new_session(*three), prompt));
}

TEST_P(GoldenOnCpu, ModeComesFromTheMethods) {
  EXPECT_EQ(test::load_engine(file({}))->mode(), Mode::kKv);
  EXPECT_EQ(test::load_engine(file({8}))->mode(), Mode::kHybrid);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenOnCpu, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& param_info) { return std::string(param_info.param); });

TEST(KernelSelection, AnUnknownNameIsAnErrorThatListsTheKnown) {
  const test::ScopedIsa isa("mmx");
  const auto engine = Engine::load(test::compiled({.checkpoint = test::golden_dir("qwen3")}));
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.error().message.find("mmx"), std::string::npos);
  EXPECT_NE(engine.error().message.find("portable"), std::string::npos);
}

}  // namespace golden_test
}  // namespace tandem
