// Models from containers other than a hub folder: the same logits as the hub's checkpoint of the same model.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "base/json.h"
#include "support/gguf_from_hub.h"
#include "support/npy.h"
#include "support/reference_logits.h"
#include "support/temp_folder.h"

namespace tandem {
namespace containers_test {

const std::filesystem::path kData = TANDEM_SOURCE_DIR "/tests/data";

std::vector<int32_t> prompt_of(const std::string& family) {
  std::ifstream file(kData / "golden" / family / "golden.json");
  return Json::parse(file)["prompts"]["40"].get<std::vector<int32_t>>();
}

double sqnr_db(const std::vector<float>& wanted, const std::vector<float>& got) {
  double signal = 0.0, noise = 0.0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    signal += static_cast<double>(wanted[i]) * wanted[i];
    noise += std::pow(static_cast<double>(wanted[i]) - got[i], 2.0);
  }
  return 10.0 * std::log10(signal / noise);
}

TEST(Containers, MetaAndLlama2cMatchHuggingFaceLogits) {
  const auto expected = test::read_npy(kData / "golden/llama2/logits_40.npy");
  const auto hub = Checkpoint::open(kData / "golden/llama2");
  const auto wanted = test::reference_logits(*hub, prompt_of("llama2"));
  for (const char* path : {"meta/llama2_meta", "meta/llama2_c/stories.pt"}) {
    const auto checkpoint = Checkpoint::open(kData / path);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    const auto got = test::reference_logits(*checkpoint, prompt_of("llama2"));
    EXPECT_EQ(got, wanted) << path;
    EXPECT_GT(sqnr_db(expected.values, got), 85.0) << path;  // 5e-5 of the logits' standard deviation.
  }
}

TEST(Containers, GgufMatchesTheHubsLogits) {
  const std::pair<const char*, const char*> families[] = {
      {"llama2", "llama"}, {"llama3_2", "llama"}, {"smollm2", "llama"}, {"qwen2_5", "qwen2"},
      {"qwen3", "qwen3"},  {"gemma", "gemma"},    {"gemma2", "gemma2"}, {"gemma3", "gemma3"},
  };
  for (const auto& pair : families) {
    const std::string family = pair.first, arch = pair.second;
    SCOPED_TRACE(family);
    const auto hub = Checkpoint::open(kData / "golden" / family);
    const auto wanted = test::reference_logits(*hub, prompt_of(family));
    const test::TempFolder folder;
    const auto logits_in = [&](uint32_t type, bool decoded = false) {
      test::write_file(folder / "m.gguf", test::gguf_from_hub(*hub, arch, type, decoded).finish());
      const auto gguf = Checkpoint::open(folder / "m.gguf");
      EXPECT_TRUE(gguf.ok()) << gguf.error().message;
      return gguf.ok() ? test::reference_logits(*gguf, prompt_of(family)) : std::vector<float>();
    };
    const auto exact = logits_in(test::kGgufF32);
    ASSERT_EQ(exact.size(), wanted.size());
    // Llama 3's factors are floats in the file, and (w + 1) - 1 is not always w.
    EXPECT_GT(sqnr_db(wanted, exact), 110.0);
    for (const uint32_t type : {test::kGgufF16, test::kGgufBF16, test::kGgufQ8_0, test::kGgufQ4_0}) {
      const auto got = logits_in(type);
      EXPECT_EQ(got, logits_in(type, true)) << type;
    }
  }
}

// Written by llama.cpp's own library.
TEST(Containers, LlamaCppFilesMatchTheHubsLogits) {
  for (const auto& [file, family] : {std::pair{"smollm2_f16.gguf", "smollm2"}, {"qwen2_5_bf16.gguf", "qwen2_5"}}) {
    const auto hub = Checkpoint::open(kData / "golden" / family);
    const auto gguf = Checkpoint::open(kData / "gguf" / file);
    ASSERT_TRUE(gguf.ok()) << gguf.error().message;
    EXPECT_EQ(test::reference_logits(*gguf, prompt_of(family)), test::reference_logits(*hub, prompt_of(family)));
  }
}

// A scaling that consists of a list of factors.
TEST(Containers, GgufFrequencyFactorsAreApplied) {
  const auto hub = Checkpoint::open(kData / "golden/llama2");
  test::GgufWriter writer = test::gguf_from_hub(*hub, "llama", test::kGgufF32);
  const std::vector<float> ones(8, 1.0f), twos(8, 2.0f);
  const test::TempFolder folder;
  const auto with = [&](const std::vector<float>& factors) {
    test::GgufWriter copy = writer;
    copy.tensor("rope_freqs.weight", {8}, test::kGgufF32, test::encode_numbers(factors, test::kGgufF32).bytes);
    test::write_file(folder / "m.gguf", copy.finish());
    const auto gguf = Checkpoint::open(folder / "m.gguf");
    EXPECT_TRUE(gguf.ok()) << gguf.error().message;
    return test::reference_logits(*gguf, prompt_of("llama2"));
  };
  const auto plain = test::reference_logits(*hub, prompt_of("llama2"));
  EXPECT_EQ(with(ones), plain);
  // Equivalent to positions that advance half as fast.
  writer.text("llama.rope.scaling.type", "linear").f32("llama.rope.scaling.factor", 2.0f);
  test::write_file(folder / "m.gguf", writer.finish());
  const auto linear = test::reference_logits(*Checkpoint::open(folder / "m.gguf"), prompt_of("llama2"));
  EXPECT_LT(sqnr_db(plain, linear), 60.0);
  writer = test::gguf_from_hub(*hub, "llama", test::kGgufF32);
  EXPECT_GT(sqnr_db(linear, with(twos)), 110.0);
}

TEST(Containers, AnUnknownTensorIsRefusedByName) {
  const auto hub = Checkpoint::open(kData / "golden/llama2");
  const test::TempFolder folder;
  test::write_file(folder / "m.gguf", test::gguf_from_hub(*hub, "llama", test::kGgufF32)
                                          .tensor("blk.0.attn_sinks.weight", {4}, test::kGgufF32, std::string(16, '\0'))
                                          .finish());
  const auto gguf = Checkpoint::open(folder / "m.gguf");
  ASSERT_TRUE(gguf.ok()) << gguf.error().message;
  const auto plan = plan_model(*gguf);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.error().message.find("blk.0.attn_sinks.weight"), std::string::npos) << plan.error().message;
}

}  // namespace containers_test
}  // namespace tandem
