// Packing: the layout that packed_matrix.h documents, and its inverse.
#include <cstring>

#include "backends/cpu/kernels/kernel_test.h"
#include "base/half.h"

namespace tandem::cpu {

WeightMatrix make_matrix(WeightFormat format, int64_t rows, int64_t cols, int block, Fill fill, Random& random) {
  WeightMatrix m;
  m.format = format;
  m.rows = rows;
  m.cols = cols;
  m.block = format == WeightFormat::kLpbq4 ? block : 0;
  const size_t count = static_cast<size_t>(rows * cols);
  const auto value = [&](float low, float high) {
    switch (fill) {
      case Fill::kLowest: return low;
      case Fill::kHighest: return high;
      case Fill::kZero: return 0.0f;
      case Fill::kEdges: return random.integer(0, 1) == 0 ? low : high;
      default: return random.normal();
    }
  };
  const auto fill_value = [&](int64_t low, int64_t high) {
    switch (fill) {
      case Fill::kLowest: return static_cast<int8_t>(low);
      case Fill::kHighest: return static_cast<int8_t>(high);
      case Fill::kZero: return int8_t{0};
      case Fill::kEdges: return static_cast<int8_t>(random.integer(0, 1) == 0 ? low : high);
      default: return static_cast<int8_t>(random.integer(low, high));
    }
  };
  if (format == WeightFormat::kF32) {
    for (size_t i = 0; i < count; ++i) m.f32.push_back(value(-1e6f, 1e6f));
  } else if (format == WeightFormat::kF16) {
    for (size_t i = 0; i < count; ++i) m.half.push_back(f16_from_f32(value(-65504.0f, 65504.0f)));
  } else if (format == WeightFormat::kBF16) {
    for (size_t i = 0; i < count; ++i) m.half.push_back(bf16_from_f32(value(-1e6f, 1e6f)));
  } else {
    const bool i8 = format == WeightFormat::kI8;
    for (size_t i = 0; i < count; ++i) m.quantized.push_back(fill_value(i8 ? -128 : -8, i8 ? 127 : 7));
    for (int64_t i = 0; i < rows; ++i) m.scales.push_back(0.001f + 0.01f * std::abs(random.normal()));
    for (int64_t i = 0; i < rows * m.blocks_per_row(); ++i) {
      m.multipliers.push_back(fill == Fill::kRandom ? static_cast<uint8_t>(random.integer(1, 16)) : uint8_t{16});
    }
  }
  return m;
}

namespace pack_test {

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kI8,
                                     WeightFormat::kLpbq4};

TEST(Pack, UnpackedRowsEqualDequantizedRows) {
  Random random(1);
  for (const WeightFormat format : kFormats) {
    for (int round = 0; round < 60; ++round) {
      const int64_t rows = random.integer(1, 50), cols = random.integer(1, 200);
      const int block = 16 << random.integer(0, 2);
      const WeightMatrix matrix = make_matrix(format, rows, cols, block, Fill::kRandom, random);
      const PackedStorage packed = pack_matrix(matrix);
      for (int64_t row = 0; row < rows; ++row) {
        std::vector<float> want(static_cast<size_t>(cols)), got(static_cast<size_t>(cols));
        matrix.dequantize_row(row, want.data());
        unpack_row(packed.view(), row, got.data());
        ASSERT_EQ(0, std::memcmp(want.data(), got.data(), want.size() * sizeof(float)))
            << weight_format_name(format) << " " << rows << "x" << cols << " block " << matrix.block << " row " << row;
      }
    }
  }
}

TEST(Pack, PackedSizesMatchTheParts) {
  Random random(2);
  for (const WeightFormat format : kFormats) {
    const PackedStorage packed = pack_matrix(make_matrix(format, 33, 70, 32, Fill::kRandom, random));
    const PackedSizes sizes = packed_sizes(format, 33, 70, 32);
    EXPECT_EQ(sizes.data, packed.data.size());
    EXPECT_EQ(sizes.scales, packed.scales.size() * sizeof(float));
    EXPECT_EQ(sizes.multipliers, packed.multipliers.size());
  }
  EXPECT_EQ(packed_sizes(WeightFormat::kF32, 17, 5, 0).data, 2u * 16 * 5 * 4);
  EXPECT_EQ(packed_sizes(WeightFormat::kLpbq4, 17, 65, 16).data, 2u * 16 * 128 / 2);
  EXPECT_EQ(packed_sizes(WeightFormat::kLpbq4, 17, 65, 16).multipliers, 2u * 16 * 128 / 16);
}

TEST(Pack, LayoutAndPaddingAreAsDocumented) {
  Random random(3);
  const WeightMatrix m = make_matrix(WeightFormat::kLpbq4, 18, 70, 16, Fill::kRandom, random);
  const PackedStorage p = pack_matrix(m);
  for (int64_t row = 0; row < 32; ++row) {
    for (int64_t col = 0; col < 128; ++col) {
      const uint8_t byte = p.data[static_cast<size_t>((row / 16 * 16 + col / 8) * 64 + row % 16 * 4 + col % 4)];
      const int nibble = col % 8 < 4 ? byte & 15 : byte >> 4;
      const int multiplier = p.multipliers[static_cast<size_t>((row / 16 * 8 + col / 16) * 16 + row % 16)];
      const bool real = row < 18 && col < 70;
      EXPECT_EQ(nibble, real ? m.quantized[static_cast<size_t>(row * 70 + col)] + 8 : 8);
      EXPECT_EQ(multiplier, row < 18 && col / 16 < 5 ? m.multipliers[static_cast<size_t>(row * 5 + col / 16)] : 1);
    }
    EXPECT_EQ(p.scales[static_cast<size_t>(row)], row < 18 ? m.scales[static_cast<size_t>(row)] : 0.0f);
  }
}

// If the caller knows the CPU, a variable names the tables that must be available: scripts/test_arm.sh sets it.
TEST(Dispatch, AvailableTablesMatchTheCpu) {
  std::string names;
  for (const KernelTable* table : available_kernels()) names += (names.empty() ? "" : " ") + std::string(table->isa);
  const char* expected = std::getenv("TANDEM_EXPECTED_ISAS");
  EXPECT_EQ(names, expected == nullptr ? names : expected);
  EXPECT_EQ(names.find("portable"), 0u);
}

TEST(Dispatch, EnvironmentVariableChoosesTheTable) {
  const char* before = std::getenv("TANDEM_ISA");
  const std::string saved = before == nullptr ? "" : before;
  for (const KernelTable* table : available_kernels()) {
    std::printf("[ tables   ] %s runs here\n", std::string(table->isa).c_str());
    setenv("TANDEM_ISA", std::string(table->isa).c_str(), 1);
    auto chosen = choose_kernels();
    ASSERT_TRUE(chosen.ok());
    EXPECT_EQ(*chosen, table);
  }
  setenv("TANDEM_ISA", "mmx", 1);
  auto wrong = choose_kernels();
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(wrong.error().message.find("portable"), std::string::npos) << wrong.error().message;
  unsetenv("TANDEM_ISA");
  auto fastest = choose_kernels();
  ASSERT_TRUE(fastest.ok());
  EXPECT_EQ(*fastest, available_kernels().back());
  EXPECT_EQ(available_kernels().front(), &portable_kernels());
  if (before != nullptr) setenv("TANDEM_ISA", saved.c_str(), 1);
}

}  // namespace pack_test
}  // namespace tandem::cpu
