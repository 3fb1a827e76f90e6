// The searches on trained weights: those of the quality model, read from its safetensors shards.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "base/half.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "quant/quantize.h"
#include "quant/round_to_nearest.h"

namespace tandem {
namespace quality_model_test {

// The matrices of three of the eight layers: enough to tell quantizers apart, and fast even with sanitizers.
std::vector<testing::Matrix> layer_weights(const std::filesystem::path& folder) {
  std::vector<testing::Matrix> matrices;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    const auto file = MappedFile::open(entry.path());
    if (!file.ok()) continue;
    const uint8_t* bytes = file->bytes().data();
    uint64_t head = 0;
    std::memcpy(&head, bytes, sizeof(head));
    const Json json = Json::parse(std::string(reinterpret_cast<const char*>(bytes) + 8, head));
    for (const auto& [name, tensor] : json.items()) {
      const bool wanted = name.find("layers.0.") != name.npos || name.find("layers.3.") != name.npos ||
                          name.find("layers.7.") != name.npos;
      if (!wanted || tensor["shape"].size() != 2) continue;
      testing::Matrix matrix{tensor["shape"][0], tensor["shape"][1], {}};
      const uint8_t* data = bytes + 8 + head + tensor["data_offsets"][0].get<uint64_t>();
      for (int64_t i = 0; i < matrix.rows * matrix.cols; ++i) {
        uint16_t bits;
        std::memcpy(&bits, data + 2 * i, sizeof(bits));
        matrix.values.push_back(f32_from_bf16(bits));
      }
      matrices.push_back(std::move(matrix));
    }
  }
  return matrices;
}

TEST(QualityModel, SearchBeatsRoundToNearest) {
  const std::filesystem::path folder = TANDEM_SOURCE_DIR "/../shared/quality-model/checkpoint";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  const auto matrices = layer_weights(folder);
  ASSERT_EQ(matrices.size(), 21u);  // Seven per layer.

  struct Want {
    WeightSpec spec;
    double sqnr, gain;
  };
  const Want wants[] = {{{WeightFormat::kLpbq4, 16}, 22.1, 0.9},
                        {{WeightFormat::kLpbq4, 32}, 21.1, 0.9},
                        {{WeightFormat::kLpbq4, 64}, 20.3, 1.0},
                        {{WeightFormat::kI8, 0}, 42.5, 0.02}};
  ThreadPool pool;
  for (const Want& want : wants) {
    QuantizationReport searched, nearest;
    for (const auto& matrix : matrices) {
      const auto got = quantize_matrix(matrix.values.data(), matrix.rows, matrix.cols, want.spec, pool);
      ASSERT_TRUE(got.ok()) << got.error().message;
      searched.add(quantization_report(matrix.values.data(), *got));
      const bool blocks = want.spec.format == WeightFormat::kLpbq4;
      nearest.add(quantization_report(matrix.values.data(), blocks ? testing::nearest_lpbq4(matrix, want.spec.block)
                                                                   : testing::nearest_int8(matrix)));
    }
    EXPECT_GT(searched.sqnr_db(), want.sqnr);
    EXPECT_GT(searched.sqnr_db(), nearest.sqnr_db() + want.gain);
  }
}

}  // namespace quality_model_test
}  // namespace tandem
