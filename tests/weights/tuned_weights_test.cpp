// Files of tuned weights: what is read is what was written, and damaged files are refused.
#include "weights/tuned_weights.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_folder.h"

namespace tandem {
namespace tuned_weights_test {

WeightMatrix make_matrix(WeightFormat format, int64_t rows, int64_t cols, int block) {
  WeightMatrix m;
  m.format = format;
  m.rows = rows;
  m.cols = cols;
  m.block = block;
  for (int64_t i = 0; i < rows * cols; ++i) m.quantized.push_back(static_cast<int8_t>(i * 7 % 15 - 8));
  for (int64_t i = 0; i < rows * m.blocks_per_row(); ++i) m.multipliers.push_back(static_cast<uint8_t>(1 + i % 16));
  for (int64_t i = 0; i < rows; ++i) m.scales.push_back(0.5f + static_cast<float>(i));
  return m;
}

class TunedFile : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_tuned_file(path_, {{"a", a_}, {"b", b_}}).ok());
    bytes_ = test::read_file(path_);
  }
  void write(const std::vector<uint8_t>& bytes) const {
    std::ofstream file(path_, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }

  const test::TempFolder folder_;
  const std::filesystem::path path_ = folder_ / "00000.tuned";
  const WeightMatrix a_ = make_matrix(WeightFormat::kLpbq4, 5, 50, 16);
  const WeightMatrix b_ = make_matrix(WeightFormat::kI8, 3, 7, 0);
  std::vector<uint8_t> bytes_;
};

TEST_F(TunedFile, RowsAreThoseThatWereWritten) {
  TunedWeights tuned;
  EXPECT_TRUE(tuned.empty());
  ASSERT_TRUE(tuned.add_file(path_).ok());
  EXPECT_TRUE(tuned.has("a") && tuned.has("b") && !tuned.has("c"));
  const auto rows = tuned.rows("a", 2, 2, WeightFormat::kLpbq4, 16);
  ASSERT_TRUE(rows.ok());
  std::vector<float> wanted(50), got(50);
  for (int64_t row = 0; row < 2; ++row) {
    a_.dequantize_row(2 + row, wanted.data());
    rows->dequantize_row(row, got.data());
    EXPECT_EQ(got, wanted);
  }
  const auto whole = tuned.rows("b", 0, 3, WeightFormat::kI8, 0);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->quantized, b_.quantized);
  EXPECT_FALSE(tuned.rows("a", 4, 2, WeightFormat::kLpbq4, 16).ok());
  EXPECT_FALSE(tuned.rows("a", 0, 1, WeightFormat::kLpbq4, 32).ok());
  EXPECT_FALSE(tuned.rows("c", 0, 1, WeightFormat::kI8, 0).ok());
}

TEST_F(TunedFile, EveryTruncationIsRefused) {
  for (size_t size = 0; size + sizeof(float) <= bytes_.size(); size += 3) {  // The rest is padding.
    write({bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_FALSE(TunedWeights().add_file(path_).ok()) << size;
  }
}

TEST_F(TunedFile, ChangedBytesOfTheHeaderNeverCrash) {
  const size_t header = bytes_.size() - 5 * (4 + 4 + 50) - 3 * (4 + 7);
  for (size_t at = 0; at < header; ++at) {
    for (const uint8_t value : {uint8_t{0}, uint8_t{'9'}, uint8_t{0xff}}) {
      std::vector<uint8_t> changed = bytes_;
      changed[at] = value;
      write(changed);
      TunedWeights tuned;
      if (!tuned.add_file(path_).ok() || !tuned.has("a")) continue;
      (void)tuned.rows("a", 0, 5, WeightFormat::kLpbq4, 16).ok();
    }
  }
}

}  // namespace tuned_weights_test
}  // namespace tandem
