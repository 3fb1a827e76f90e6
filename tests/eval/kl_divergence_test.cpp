// The KL divergence, against sums written down as the definition has them, and percentiles as numpy's.
#include "eval/kl_divergence.h"

#include <gtest/gtest.h>

#include <cmath>

#include "eval/evaluation_data.h"

namespace tandem {
namespace kl_divergence_test {

void add(KlDivergence& divergence, const std::vector<float>& wanted, const std::vector<float>& got) {
  divergence.add(wanted, log_sum_exp(wanted), got, log_sum_exp(got));
}

TEST(KlDivergence, IsTheSumOverTheWantedDistribution) {
  // p = (1/2, 1/4, 1/4), q = (1/4, 1/2, 1/4), each shifted by a constant: KL = (1/2 - 1/4) ln 2.
  const auto ln2 = static_cast<float>(std::log(2.0));
  KlDivergence divergence;
  add(divergence, {100 + ln2, 100, 100}, {-50, ln2 - 50, -50});
  EXPECT_NEAR(divergence.mean(), 0.25 * std::log(2.0), 1e-5);
  EXPECT_EQ(divergence.top1_agreement(), 0.0);
  add(divergence, {100 + ln2, 100, 100}, {7 + ln2, 7, 7});
  EXPECT_NEAR(divergence.mean(), 0.125 * std::log(2.0), 1e-5);
  EXPECT_EQ(divergence.top1_agreement(), 0.5);
  EXPECT_EQ(divergence.rows(), 2);
}

TEST(KlDivergence, ATokenThatIsRuledOutAddsNothing) {
  KlDivergence divergence;
  add(divergence, {0, 0, -INFINITY}, {0, 0, -INFINITY});
  EXPECT_EQ(divergence.mean(), 0.0);
  add(divergence, {0, 0, 0}, {0, 0, -INFINITY});
  EXPECT_EQ(divergence.mean(), INFINITY);
  EXPECT_EQ(divergence.percentile(1.0), INFINITY);
}

TEST(KlDivergence, PercentilesAreNumpys) {
  KlDivergence divergence;
  EXPECT_TRUE(std::isnan(divergence.mean()) && std::isnan(divergence.percentile(0.99)));
  std::vector<double> values;
  for (const float x : {3.0f, 0.5f, 2.0f, 1.0f, 0.0f}) {
    add(divergence, {0, 0}, {0, x});
    values.push_back(std::log((1 + std::exp(double{x})) / 2) - double{x} / 2);  // KL of a fair coin from this one.
  }
  std::ranges::sort(values);
  // numpy.percentile of five values: the 50th is the third, the 99th lies 0.96 of the way from the fourth to the fifth.
  EXPECT_NEAR(divergence.percentile(0.5), values[2], 1e-12);
  EXPECT_NEAR(divergence.percentile(0.99), values[3] + 0.96 * (values[4] - values[3]), 1e-12);
  EXPECT_NEAR(divergence.percentile(0.0), values[0], 1e-12);
  EXPECT_NEAR(divergence.percentile(1.0), values[4], 1e-12);
}

TEST(EvaluationData, TheCalibrationRecordTellsTheSameDataByItsHash) {
  const std::string record = R"({"source": "book.txt", "hash": "00c0ffee00c0ffee", "tokens": 16384, "samples": 32})";
  EXPECT_TRUE(calibration_overlap(record, 0x00c0ffee00c0ffee));
  EXPECT_FALSE(calibration_overlap(record, 0x00c0ffee00c0ffef));
  EXPECT_EQ(read_calibration_record(record)->source, "book.txt");
  EXPECT_EQ(read_calibration_record(record)->tokens, 16384);
  // The model's own samples have no file.
  EXPECT_FALSE(calibration_overlap(R"({"source": "samples of the model"})", 0));
  EXPECT_TRUE(read_calibration_record(R"({"source": "samples of the model"})").has_value());
  for (const char* broken : {"", "{", "[]", "{}", R"({"source": 5})", R"({"source": "x", "hash": 5})"}) {
    EXPECT_FALSE(read_calibration_record(broken).has_value()) << broken;
    EXPECT_FALSE(calibration_overlap(broken, 0)) << broken;
  }
  for (const char* hash : {"", "0", "zzzzzzzzzzzzzzzz", "00000000000000000"}) {
    EXPECT_FALSE(calibration_overlap(std::string(R"({"source":"x","hash":")") + hash + "\"}", 0)) << hash;
  }
}

}  // namespace kl_divergence_test
}  // namespace tandem
