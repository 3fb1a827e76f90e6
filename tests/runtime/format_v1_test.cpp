// Files of format version 1 stay readable: these were written by tandem 0.1.0 and are never written again.
#include <gtest/gtest.h>

#include "artifact/preamble.h"
#include "artifact/reader.h"
#include "backends/cpu/kernels/kernels.h"
#include "support/compiled_model.h"

namespace tandem {
namespace format_v1_test {

std::filesystem::path data_dir() { return TANDEM_SOURCE_DIR "/tests/data/artifact"; }

class FormatV1 : public testing::TestWithParam<const char*> {
 protected:
  std::filesystem::path path_ = data_dir() / (std::string(GetParam()) + ".tdm");
  Json expected_ = [] {
    std::ifstream file(data_dir() / (std::string(GetParam()) + ".json"));
    return Json::parse(file);
  }();
};

TEST_P(FormatV1, IsOfVersion1AndWhole) {
  const auto bytes = test::read_file(path_);
  Preamble preamble;
  ASSERT_GE(bytes.size(), sizeof(preamble));
  std::memcpy(&preamble, bytes.data(), sizeof(preamble));
  EXPECT_EQ(preamble.version, 1u);
  const auto artifact = Artifact::open(path_);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  for (size_t i = 0; i < artifact->header().segments.size(); ++i) EXPECT_TRUE(artifact->verify_segment(i).ok());
  EXPECT_EQ(artifact->header().producer, "tandem 0.1.0");
  EXPECT_EQ(artifact->header().model.architecture, "Qwen3ForCausalLM");
  EXPECT_TRUE(Recipe::from_json(artifact->header().recipe).ok());
}

TEST_P(FormatV1, GivesTheSameTokensAndLogits) {
  const auto prompt = expected_["prompt"].get<std::vector<int32_t>>();
  const auto logits = expected_["logits"].get<std::vector<float>>();
  for (const cpu::KernelTable* kernels : cpu::available_kernels()) {
    SCOPED_TRACE(kernels->isa);
    const test::ScopedIsa isa(kernels->isa);
    EXPECT_EQ(test::greedy_file(path_, prompt, 16), expected_["greedy"].get<std::vector<int32_t>>());
    EXPECT_GE(test::sqnr_db(logits, test::score_file(path_, prompt)), 80.0);
  }
}

TEST_P(FormatV1, HasItsTextSideToo) {
  const auto engine = test::load_engine(path_);
  ASSERT_TRUE(engine->has_tokenizer());
  const auto text = expected_["text"].get<std::string>();
  const auto ids = engine->encode(text, false, /*parse_special=*/true);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(*ids, expected_["text_ids"].get<std::vector<int32_t>>());
  EXPECT_EQ(*engine->decode(*ids, false), text);
  const std::vector<Message> messages = {{"user", "Hi"}};
  EXPECT_EQ(*engine->render_chat(messages, true), "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_FLOAT_EQ(engine->default_options().sampler.temperature, 0.7f);
  const auto eos = engine->eos_tokens();
  EXPECT_EQ(std::vector<int32_t>(eos.begin(), eos.end()), (std::vector<int32_t>{258, 256}));
}

INSTANTIATE_TEST_SUITE_P(Files, FormatV1, testing::Values("v1", "v1_mixed"),
                         [](const auto& param_info) { return std::string(param_info.param); });

}  // namespace format_v1_test
}  // namespace tandem
