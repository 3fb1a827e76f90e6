// Attention over u8 caches, in integers: files of all families on every kernel set, against the reference, which
// rounds alike.
#include <gtest/gtest.h>

#include "backends/cpu/kernels/kernels.h"
#include "eval/tested_model.h"
#include "support/compiled_model.h"
#include "support/score_rows.h"

namespace tandem {
namespace quantized_attention_test {

// The context of all of them: more than one tile of slots, and the last tile is not full.
constexpr int64_t kContext = 128;

class QuantizedAttentionOnCpu : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path file(std::vector<int64_t> prefill) const {
    return test::compiled({.checkpoint = test::golden_dir(GetParam()),
                           .recipe = R"({"base": "fp32", "kv": "u8"})",
                           .prefill = prefill,
                           .context = kContext});
  }
  std::vector<int32_t> tokens() const {
    const auto prompt = test::golden_prompt(GetParam());
    std::vector<int32_t> all;
    for (size_t i = 0; i < size_t{kContext} - 9; ++i) all.push_back(prompt[i * i % 7 + i % (prompt.size() - 7)]);
    return all;
  }
};

// Weights are floats, so that nothing but the caches and attention is rounded. Where a key, a value or a weight lies on
// the boundary between two quantized values, device and reference differ by a step of u8 or of 16 bits. Measured: 58 dB
// at worst.
TEST_P(QuantizedAttentionOnCpu, RunsLikeItsReference) {
  TestedModelOptions options;
  options.phase = Phase::kQdq;
  options.engine.threads = 2;
  options.context = kContext;
  const auto model = TestedModel::open(file({8, 32}), options);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto reference = test::score_rows(**model, tokens());
  for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
    const test::ScopedIsa isa(kernels->isa);
    const double db = test::sqnr_db(reference, test::score_file(file({8, 32}), tokens()));
    EXPECT_GE(db, 50.0) << kernels->isa;
    RecordProperty(std::string(kernels->isa), std::to_string(db));
  }
}

TEST_P(QuantizedAttentionOnCpu, LengthOfPrefillDoesNotChangeABit) {
  for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
    SCOPED_TRACE(kernels->isa);
    const test::ScopedIsa isa(kernels->isa);
    const auto one_by_one = test::score_file(file({}), tokens());
    EXPECT_EQ(one_by_one, test::score_file(file({8}), tokens()));
    EXPECT_EQ(one_by_one, test::score_file(file({8, 96}), tokens()));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, QuantizedAttentionOnCpu, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace quantized_attention_test
}  // namespace tandem
