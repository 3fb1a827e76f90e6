// Layers with a window cache only the window; Phi's rotary tables change with the sequence length.
#include <gtest/gtest.h>

#include "artifact/reader.h"
#include "eval/tested_model.h"
#include "support/compiled_model.h"
#include "support/score_rows.h"

namespace tandem {
namespace window_test {

// As in golden_test.cpp.
constexpr double kTolerance = 1e-4;

std::vector<int32_t> some_tokens(int64_t count, int64_t vocabulary) {
  std::vector<int32_t> tokens;
  uint32_t state = 12345;
  for (int64_t i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    tokens.push_back(static_cast<int32_t>((state >> 8) % static_cast<uint32_t>(vocabulary)));
  }
  return tokens;
}

std::vector<float> float_logits(const std::filesystem::path& folder, std::span<const int32_t> tokens) {
  TestedModelOptions options;
  options.phase = Phase::kFloat;
  options.engine.threads = 2;
  options.context = static_cast<int64_t>(tokens.size());
  auto model = TestedModel::open(folder, options);
  EXPECT_TRUE(model.ok()) << model.error().message;
  return test::score_rows(**model, tokens);
}

std::filesystem::path long_file(const char* family, std::vector<int64_t> prefill, const char* recipe = "fp32") {
  const int64_t context = std::string_view(family) == "gemma2" ? 256 : 512;
  return test::compiled(
      {.checkpoint = test::golden_dir(family), .recipe = recipe, .prefill = std::move(prefill), .context = context});
}

TEST(WindowCache, HasFewerSlotsThanTheContext) {
  const auto artifact = Artifact::open(long_file("gemma3", {8, 32}));
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  for (const ir::Graph& method : artifact->header().methods) {
    EXPECT_EQ(method.at(*method.find("k_cache.0")).shape[1],
              192);  // 12 + 32 tokens of a call, some for rewinding, tiles.
    EXPECT_EQ(method.at(*method.find("v_cache.1")).shape[1], 192);
    EXPECT_EQ(method.at(*method.find("k_cache.2")).shape[1], 512);  // Every third layer sees all.
  }
}

TEST(WindowCache, GoesRoundWithoutAnError) {
  for (const auto& [family, count, vocabulary] : {std::tuple{"gemma3", 500, 272}, std::tuple{"gemma2", 250, 256}}) {
    SCOPED_TRACE(family);
    const auto tokens = some_tokens(count, vocabulary);
    const auto expected = float_logits(test::golden_dir(family), tokens);
    const auto got = test::score_file(long_file(family, {8, 32}), tokens);
    EXPECT_LE(test::worst_difference(got, expected) / test::standard_deviation(expected), kTolerance);
  }
}

TEST(WindowCache, LengthOfPrefillDoesNotChangeABit) {
  const auto tokens = some_tokens(400, 272);
  for (const char* recipe : {"fp32", "w4"}) {
    const auto one_by_one = test::score_file(long_file("gemma3", {}, recipe), tokens);
    EXPECT_EQ(one_by_one, test::score_file(long_file("gemma3", {8}, recipe), tokens));
    EXPECT_EQ(one_by_one, test::score_file(long_file("gemma3", {32}, recipe), tokens));
  }
}

TEST(WindowCache, GoingBackGivesWhatAFreshSessionGives) {
  const auto tokens = some_tokens(400, 272);
  const auto tail = some_tokens(20, 200);
  const auto engine = test::load_engine(long_file("gemma3", {8, 32}));
  for (const int64_t length : {398, 370, 300, 100, 5}) {  // The first two are still in the cache, the others are not.
    SCOPED_TRACE(length);
    const auto session = test::new_session(*engine), fresh = test::new_session(*engine);
    test::score(*session, tokens);
    ASSERT_TRUE(session->rewind(length).ok());
    test::score(*fresh, std::span(tokens).first(static_cast<size_t>(length)));
    EXPECT_EQ(test::score(*session, tail), test::score(*fresh, tail));
  }
}

TEST(WindowCache, CancelledWhileItIsComputedAnewItGoesOnLater) {
  const auto tokens = some_tokens(400, 272);
  const auto engine = test::load_engine(long_file("gemma3", {8, 32}));
  const auto session = test::new_session(*engine), fresh = test::new_session(*engine);
  test::score(*session, tokens);
  ASSERT_TRUE(session->rewind(200).ok());
  // A token that does not exist is refused before anything is computed; the session is unchanged.
  const std::vector<int32_t> wrong = {5000};
  EXPECT_FALSE(session->score(wrong, [](size_t, std::span<const float>) { return ok_status(); }).ok());
  EXPECT_EQ(session->tokens().size(), 200u);
  test::score(*fresh, std::span(tokens).first(200));
  EXPECT_EQ(test::score(*session, std::span(tokens).subspan(200, 3)),
            test::score(*fresh, std::span(tokens).subspan(200, 3)));
}

// Phi's checkpoint here has its limit at 32 tokens.
TEST(Longrope, ASequenceThatGrowsBeyondTheLimitIsComputedAnew) {
  const auto tokens = test::golden_prompt("phi4_mini");
  ASSERT_EQ(tokens.size(), 40u);
  const auto engine =
      test::load_engine(test::compiled({.checkpoint = test::golden_dir("phi4_mini"), .recipe = "fp32"}));
  const auto whole = test::score(*test::new_session(*engine), tokens);
  const auto in_parts = test::new_session(*engine);
  test::score(*in_parts, std::span(tokens).first(20));
  const auto rest = test::score(*in_parts, std::span(tokens).subspan(20));
  EXPECT_EQ(rest, std::vector<float>(whole.end() - static_cast<std::ptrdiff_t>(rest.size()), whole.end()));
  // Back to a short one.
  ASSERT_TRUE(in_parts->rewind(10).ok());
  const auto short_session = test::new_session(*engine);
  test::score(*short_session, std::span(tokens).first(10));
  EXPECT_EQ(test::score(*in_parts, std::span(tokens).first(5)),
            test::score(*short_session, std::span(tokens).first(5)));
}

TEST(Longrope, GeneratesAcrossTheLimitLikeWholePasses) {
  const auto prompt = test::golden_prompt("phi4_mini");
  std::vector<int32_t> tokens(prompt.begin(), prompt.begin() + 26);
  const auto folder = test::golden_dir("phi4_mini");
  const auto got = test::greedy_file(test::compiled({.checkpoint = folder, .recipe = "fp32"}), tokens, 12);
  ASSERT_EQ(got.size(), 12u);
  for (const int32_t token : got) {
    const auto logits = float_logits(folder, tokens);
    const auto last = logits.end() - 288;
    EXPECT_EQ(std::max_element(last, logits.end()) - last, token) << "after " << tokens.size() << " tokens";
    tokens.push_back(token);
  }
}

}  // namespace window_test
}  // namespace tandem
