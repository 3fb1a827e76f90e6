// Every dtype of the methods' inputs and outputs: KV cache x mask x logits. The run time reads them from the metadata.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "base/dtype.h"
#include "support/compiled_model.h"

namespace tandem {
namespace io_conversion_test {

struct IoDtypes {
  std::string kv, mask, logits;  // As in a recipe.
};

std::string recipe_json(const char* base, const IoDtypes& b) {
  return Json{{"base", base}, {"kv", b.kv}, {"mask", b.mask}, {"logits", b.logits}}.dump();
}

std::filesystem::path file_with(const std::filesystem::path& checkpoint, const char* base, const IoDtypes& b,
                                int64_t context = 64) {
  return test::compiled({.checkpoint = checkpoint, .recipe = recipe_json(base, b), .prefill = {8}, .context = context});
}

const IoDtypes kPlain = {"fp32", "f32", "f32"};

std::vector<IoDtypes> all_io() {
  std::vector<IoDtypes> list;
  for (const char* kv : {"fp32", "fp16", "u8"}) {
    for (const char* mask : {"f32", "f16", "u16", "u8"}) {
      for (const char* logits : {"f32", "f16", "u16"}) list.push_back({kv, mask, logits});
    }
  }
  return list;
}

std::string name_of(const IoDtypes& b) { return "kv_" + b.kv + "_mask_" + b.mask + "_logits_" + b.logits; }

void expect_metadata(const std::filesystem::path& path, const IoDtypes& b) {
  const auto artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ASSERT_EQ(artifact->header().methods.size(), 2u);
  const DType kv = kv_dtype(*kv_format_from_name(b.kv));
  for (const ir::Graph& graph : artifact->header().methods) {
    EXPECT_EQ(graph.at(*graph.find("mask")).dtype, *dtype_from_name(b.mask));
    EXPECT_EQ(graph.at(*graph.find("logits")).dtype, *dtype_from_name(b.logits));
    EXPECT_EQ(graph.at(*graph.find("k_cache.0")).dtype, kv);
    EXPECT_EQ(graph.at(*graph.find("v_cache.1")).dtype, kv);
    EXPECT_EQ(graph.find("k_cache.0.scales").has_value(), kv == DType::kU8);
    const bool quantized = b.logits == "u16";
    EXPECT_EQ(graph.at(*graph.find("logits")).encoding.kind,
              quantized ? ir::EncodingKind::kPerTensor : ir::EncodingKind::kPlain);
  }
}

// The largest rounding error of the logits' dtype.
double logits_step(const std::filesystem::path& path, const std::string& dtype, double largest) {
  if (dtype == "f16") return largest / 2048.0;  // Half of the last of 11 bits.
  if (dtype == "f32") return 0.0;
  const auto artifact = Artifact::open(path);
  const ir::Graph& graph = artifact->header().methods[0];
  return 0.5001 * graph.at(*graph.find("logits")).encoding.scale + 1e-6 * largest;
}

class IoConversion : public testing::TestWithParam<IoDtypes> {};

TEST_P(IoConversion, LogitsEqualThoseOfFloatsUpToRounding) {
  const IoDtypes& b = GetParam();
  const auto folder = test::golden_dir("qwen3");
  const auto prompt = test::golden_prompt("qwen3");
  const auto path = file_with(folder, "fp32", b);
  expect_metadata(path, b);
  const auto got = test::score_file(path, prompt);
  const auto plain = test::score_file(file_with(folder, "fp32", kPlain), prompt);
  const auto same_kv = test::score_file(file_with(folder, "fp32", {b.kv, "f32", "f32"}), prompt);
  ASSERT_EQ(got.size(), plain.size());

  // The mask's dtype changes nothing at all: in every one visible is 0 and masked is -infinity.
  EXPECT_EQ(got, test::score_file(file_with(folder, "fp32", {b.kv, "f32", b.logits}), prompt));
  // The logits' dtype only rounds.
  double largest = 0.0;
  for (const float v : plain) largest = std::max(largest, static_cast<double>(std::abs(v)));
  EXPECT_LE(test::worst_difference(got, same_kv), logits_step(path, b.logits, largest));
  if (b.logits == "f32") {
    EXPECT_EQ(got, same_kv);
  }
  // The cache's dtype costs precision of the keys and values. Measured: 66 dB for fp16, 39 dB for u8.
  const double kv_db = b.kv == "fp32" ? 70.0 : b.kv == "fp16" ? 60.0 : 30.0;
  const double db = test::sqnr_db(plain, got);
  EXPECT_GE(db, kv_db);
  RecordProperty("db", std::to_string(db));
}

INSTANTIATE_TEST_SUITE_P(Matrix, IoConversion, testing::ValuesIn(all_io()),
                         [](const auto& param_info) { return name_of(param_info.param); });

// A trained model generates the same story while it is confident; later it reaches animals that are equally likely.
TEST(IoConversionOfTheDemo, GreedyTokensStayTheSame) {
  const auto story = [](const IoDtypes& b) {
    const auto engine = test::load_engine(file_with(test::demo_dir(), "w4", b, 256));
    const auto session = test::new_session(*engine);
    const std::vector<Message> messages = {{"user", "Tell me a story about a fox named Leo."}};
    GenerateOptions options;
    options.max_new_tokens = 23;  // An fp16 cache already decides the next one.
    const auto result = session->generate_chat(messages, options, {});
    EXPECT_TRUE(result.ok()) << result.error().message;
    return result->tokens;
  };
  const auto plain = story(kPlain);
  ASSERT_EQ(plain.size(), 23u);
  EXPECT_EQ(story({"fp32", "u8", "f32"}), plain);
  EXPECT_EQ(story({"fp16", "f16", "f32"}), plain);
  EXPECT_EQ(story({"fp32", "u16", "u16"}), plain);
  EXPECT_EQ(story({"u8", "u8", "f16"}), plain);
  EXPECT_EQ(story({"u8", "u16", "u16"}), plain);
}

}  // namespace io_conversion_test
}  // namespace tandem
