// Encoding, decoding and streaming against the results of the Hugging Face `tokenizers` library.
#include <gtest/gtest.h>

#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_test_data.h"
#include "unicode/utf8.h"

namespace tandem {
namespace tokenizer_vectors_test {

std::string stream(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = decoder.push(id);
    EXPECT_TRUE(is_valid_utf8(piece));
    text += piece;
  }
  return text + decoder.flush();
}

void check_vectors(const Tokenizer& tokenizer, const std::vector<TokenizerVector>& vectors) {
  for (const TokenizerVector& vector : vectors) {
    SCOPED_TRACE("text: " + vector.text);
    const Result<std::vector<int32_t>> ids = tokenizer.encode(vector.text, false);
    const Result<std::vector<int32_t>> with_special = tokenizer.encode(vector.text, true);
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    ASSERT_TRUE(with_special.ok());
    EXPECT_EQ(*ids, vector.ids);
    EXPECT_EQ(*with_special, vector.ids_with_special);
    EXPECT_EQ(tokenizer.decode(vector.ids, false), vector.decoded);
    EXPECT_EQ(tokenizer.decode(vector.ids_with_special, true), vector.decoded_skip_special);
    EXPECT_EQ(stream(tokenizer, vector.ids, false), vector.decoded);
    EXPECT_EQ(stream(tokenizer, vector.ids_with_special, true), vector.decoded_skip_special);
  }
}

// The compiled form behaves the same.
void check_both_forms(const Tokenizer& tokenizer, const std::vector<TokenizerVector>& vectors) {
  check_vectors(tokenizer, vectors);
  const std::vector<uint8_t> blob = serialize_tokenizer(tokenizer);
  const Result<Tokenizer> mapped = Tokenizer::from_blob(blob);
  ASSERT_TRUE(mapped.ok()) << mapped.error().message;
  check_vectors(*mapped, vectors);
  EXPECT_EQ(serialize_tokenizer(*mapped), blob);
}

TEST(TokenizerVectors, EverySupportedOption) {
  const Json data = load_json(text_data("library_vectors.json"));
  ASSERT_GT(data.at("cases").size(), 20u);
  for (const Json& item : data.at("cases")) {
    SCOPED_TRACE(item.at("name").get<std::string>());
    const Result<Tokenizer> tokenizer = tokenizer_from_json(item.at("tokenizer").dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    check_both_forms(*tokenizer, read_vectors(item.at("vectors")));
  }
}

// Each normalizer, pre-tokenizer, decoder, behavior and flag in turn.
TEST(TokenizerVectors, EveryStep) {
  const Json data = load_json(text_data("pipeline_vectors.json"));
  ASSERT_GT(data.at("cases").size(), 200u);
  for (const Json& item : data.at("cases")) {
    SCOPED_TRACE(item.at("name").get<std::string>());
    Json json = item.at("tokenizer");
    if (item.at("added_tokens")) json["added_tokens"] = data.at("added_tokens");
    json["model"] = data.at("models").at(json.at("model").get<size_t>());
    const Result<Tokenizer> tokenizer = tokenizer_from_json(json.dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    check_both_forms(*tokenizer, read_vectors(item.at("vectors")));
  }
}

class GoldenVocabulary : public testing::TestWithParam<const char*> {};

TEST_P(GoldenVocabulary, MatchesTheLibrary) {
  const std::filesystem::path folder = shared_data("golden/tokenizers") / GetParam();
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no golden vocabularies here";
  std::filesystem::path path = folder / "tokenizer.json";
  if (!std::filesystem::exists(path)) path = folder / "tokenizer.json.gz";
  const Result<Tokenizer> tokenizer = tokenizer_from_file(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const Json vectors = load_json(folder / "vectors.public.json");
  ASSERT_EQ(vectors.at("vectors").size(), 100u);
  check_both_forms(*tokenizer, read_vectors(vectors.at("vectors")));
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const std::vector<int32_t> ids = random_ids(seed, tokenizer->vocab_size(), 200);
    EXPECT_EQ(stream(*tokenizer, ids, false), tokenizer->decode(ids, false));
    EXPECT_EQ(stream(*tokenizer, ids, true), tokenizer->decode(ids, true));
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenVocabulary,
                         testing::Values("qwen2_5", "qwen3", "llama3_2", "smollm2", "gpt2", "granite3_3", "codegen",
                                         "phi4_mini", "llama2", "phi3", "gemma_style"),
                         [](const auto& test) { return std::string(test.param); });

class Checkpoint : public testing::TestWithParam<const char*> {};

TEST_P(Checkpoint, RoundTrips) {
  const std::filesystem::path path = shared_data(GetParam()) / "checkpoint/tokenizer.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no such checkpoint here";
  const Result<Tokenizer> tokenizer = tokenizer_from_file(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  for (const std::string text : {"Once upon a time, there was a little girl named Lily.", "  tabs\tand\n\nlines ",
                                 "naïve 日本語 😀 x", "def f(x):\n    return x ** 2\n"}) {
    const Result<std::vector<int32_t>> ids = tokenizer->encode(text, false);
    ASSERT_TRUE(ids.ok());
    EXPECT_EQ(tokenizer->decode(*ids, false), text);
    EXPECT_LT(ids->size(), text.size());
  }
}

INSTANTIATE_TEST_SUITE_P(All, Checkpoint, testing::Values("demo-model", "quality-model"),
                         [](const auto& test) { return std::string(test.param, 4); });

}  // namespace tokenizer_vectors_test
}  // namespace tandem
