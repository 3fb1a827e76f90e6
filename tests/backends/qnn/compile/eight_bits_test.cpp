// Every family in 8 bits, which all architectures support: here on V79 and, in a separate process, on V68, which
// supports nothing smaller.
#include <gtest/gtest.h>

#include "backends/qnn/compile/npu_support.h"
#include "support/own_process.h"

namespace tandem {
namespace eight_bits_test {

using test::TempFolder;

// The lowest here are 37.3 and 27.2 dB (phi4_mini, smollm3: random weights); a miscompile leaves less than 10. V68
// multiplies 16-bit activations by weights with an error of 16 to 26 steps, later architectures of one.
constexpr double kDeviceNoise = 32.0;
constexpr double kNoiseOnV68 = 25.0;

class EightBits : public testing::TestWithParam<const char*> {};

TEST_P(EightBits, ComputeOnTheEmulatorWhatTheReferenceDoes) {
  TANDEM_NEEDS_QNN();
  const char* family = GetParam();
  const char* const target = std::getenv(test::kTargetVariable);
  const TempFolder folder;
  CompileOptions options = test::npu_options("w8");
  if (target != nullptr) options.target = target;
  test::must_compile(test::golden_dir(family), folder / "x.tdm", options);
  const auto prompt = test::golden_prompt(family);
  const auto qdq = test::phase_logits(folder / "x.tdm", test::golden_dir(family), Phase::kQdq, prompt);
  const double db = test::sqnr_db(qdq, test::device_logits(folder / "x.tdm", prompt));
  std::printf("[ sqnr     ] %s on %s: %.1f dB\n", family, options.target.c_str(), db);
  EXPECT_GE(db, target == nullptr ? kDeviceNoise : kNoiseOnV68);
}

INSTANTIATE_TEST_SUITE_P(Emulator, EightBits, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

TEST(EightBitsOnV68, InAProcessOfItsOwn) {
  TANDEM_NEEDS_QNN();
  const std::string text = test::run_in_own_process(test::kTargetVariable, "sm8350", "Emulator/EightBits.*");
  EXPECT_HAS(text, "on sm8350: ");
  for (size_t at = 0; (at = text.find("[ sqnr     ]", at)) != std::string::npos; ++at) {
    std::printf("%s\n", text.substr(at, text.find('\n', at) - at).c_str());
  }
}

}  // namespace eight_bits_test
}  // namespace tandem
