// Whatever a tokenizer's file says, a byte of text costs a bounded amount of work; anything beyond that is an error.
// Work is counted (WorkBudget); the seconds only serve to distinguish linear from quadratic time.
#include <gtest/gtest.h>

#include <chrono>

#include "base/json.h"
#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/stream_decoder.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/tokenizer_spec.h"

namespace tandem {
namespace bounded_work_test {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

TokenizerSpec letters_spec() {
  TokenizerSpec spec;
  spec.vocabulary = {{"a", 0, -1}, {"b", 1, -1}, {" ", 2, -1}, {"<unk>", 3, -20}};
  spec.has_unk = true;
  spec.unk_id = 3;
  return spec;
}

Tokenizer open(const TokenizerSpec& spec) {
  Result<Tokenizer> tokenizer = tokenizer_from_spec(spec);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  return *tokenizer;
}

// Also encodes with the compiled form, as stored in a model's file.
void expect_refused(const TokenizerSpec& spec, const std::string& text, const std::string& mentions) {
  const Tokenizer tokenizer = open(spec);
  const std::vector<uint8_t> blob = serialize_tokenizer(tokenizer);
  const Result<Tokenizer> reopened = Tokenizer::from_blob(blob);
  ASSERT_TRUE(reopened.ok());
  for (const Tokenizer& each : {tokenizer, *reopened}) {
    const auto start = std::chrono::steady_clock::now();
    const Result<std::vector<int32_t>> ids = each.encode(text, false);
    EXPECT_LT(seconds_since(start), 20.0) << mentions;
    ASSERT_FALSE(ids.ok()) << mentions;
    EXPECT_EQ(ids.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(ids.error().message.find(mentions), std::string::npos) << ids.error().message;
  }
}

void expect_encoded(const TokenizerSpec& spec, const std::string& text) {
  const Tokenizer tokenizer = open(spec);
  const auto start = std::chrono::steady_clock::now();
  const Result<std::vector<int32_t>> ids = tokenizer.encode(text, false);
  EXPECT_LT(seconds_since(start), 20.0);
  EXPECT_TRUE(ids.ok()) << ids.error().message;
}

TEST(BoundedWork, SplitPatternsThatLookFarAheadAreLinear) {
  for (const char* pattern : {"a+b|a", "(?=.*x)a|a", "a*?b|a", "(?:a|aa)+$|a"}) {
    TokenizerSpec spec = letters_spec();
    spec.pre_tokenizers.push_back({PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated), pattern});
    expect_encoded(spec, std::string(200'000, 'a'));
  }
}

TEST(BoundedWork, ManySplitsShareOneBudget) {
  TokenizerSpec spec = letters_spec();
  for (int i = 0; i < 64; ++i) {
    spec.pre_tokenizers.push_back(
        {PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kMergedWithPrevious), "(?:a?){20}b|x"});
  }
  expect_refused(spec, std::string(20'000, 'a'), "regular expression");
}

TEST(BoundedWork, LongUnigramPieces) {
  TokenizerSpec spec = letters_spec();
  spec.model = ModelKind::kUnigram;
  for (uint32_t length = 2; length <= 3'000; length += 2) {
    spec.vocabulary.push_back({std::string(length, 'a'), 4 + length, -1.0 - length});
  }
  expect_refused(spec, std::string(100'000, 'a'), "pieces");
  expect_encoded(spec, std::string(200'000, 'b'));
}

TEST(BoundedWork, AddedTokensThatShareTheirBeginning) {
  TokenizerSpec spec = letters_spec();
  for (uint32_t length = 1; length <= 1'000; ++length) {
    spec.added_tokens.push_back({.content = std::string(length, 'a') + "<", .id = 10 + length});
  }
  expect_refused(spec, std::string(50'000, 'a'), "added tokens");
  expect_encoded(spec, std::string(200'000, 'b'));
}

TEST(BoundedWork, AddedTokensOfWhiteSpaceThatSwallowWhiteSpace) {
  TokenizerSpec spec = letters_spec();
  spec.added_tokens.push_back({.content = " ", .id = 10, .lstrip = true, .rstrip = true});
  const std::string text(1'000'000, ' ');
  const Tokenizer tokenizer = open(spec);
  const auto start = std::chrono::steady_clock::now();
  const Result<std::vector<int32_t>> ids = tokenizer.encode(text, false);
  EXPECT_LT(seconds_since(start), 20.0);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(ids->size(), text.size());
}

TEST(BoundedWork, NormalizersThatMakeTheTextLonger) {
  TokenizerSpec spec = letters_spec();
  for (int i = 0; i < 40; ++i) spec.normalizers.push_back({NormalizerKind::kReplaceLiteral, 0, "a", "aa"});
  expect_refused(spec, std::string(50'000, 'a'), "normalizers");
  TokenizerSpec by_regex = letters_spec();
  for (int i = 0; i < 40; ++i) by_regex.normalizers.push_back({NormalizerKind::kReplaceRegex, 0, "", "a"});
  expect_refused(by_regex, std::string(50'000, 'a'), "too long");
}

// Each run of text between added tokens is normalized separately.
TEST(BoundedWork, NormalizersOnManyShortStretches) {
  TokenizerSpec spec = letters_spec();
  spec.added_tokens.push_back({.content = "b", .id = 10});
  spec.normalizers.push_back({NormalizerKind::kPrepend, 0, "", std::string(10'000, 'a')});
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "ab";
  expect_refused(spec, text, "normalizers");
}

TEST(BoundedWork, PrefixesOfManyWordsInManySteps) {
  TokenizerSpec spec = letters_spec();
  spec.pre_tokenizers.push_back({PreTokenizerKind::kSplitRegex, split_options(SplitBehavior::kIsolated), "a"});
  for (int i = 0; i < 60; ++i) {
    spec.pre_tokenizers.push_back({PreTokenizerKind::kMetaspace, metaspace_options(PrependScheme::kAlways, false),
                                   i % 2 == 0 ? "\U0001f600" : "\U0001f601"});
  }
  expect_refused(spec, std::string(50'000, 'a'), "pre-tokenizers");
}

TEST(BoundedWork, LongMarksAndLongWords) {
  TokenizerSpec spec = letters_spec();
  spec.normalizers.push_back({NormalizerKind::kNfc});
  spec.merges.push_back({0, 0, 0, 0});
  std::string marks = "a";
  for (int i = 0; i < 100'000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0327";
  expect_encoded(spec, marks);
  expect_encoded(spec, std::string(2'000'000, 'a'));
}

TEST(BoundedWork, TooManyStepsAreRefused) {
  Json json = {{"version", "1.0"},
               {"added_tokens", Json::array()},
               {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}}}, {"merges", Json::array()}}}};
  Json steps = Json::array();
  for (int i = 0; i < 1'000; ++i) steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", steps}};
  const Result<Tokenizer> tokenizer = tokenizer_from_json(json.dump());
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
}

TEST(BoundedWork, LiteralPatternsHaveALength) {
  TokenizerSpec spec = letters_spec();
  spec.normalizers.push_back({NormalizerKind::kReplaceLiteral, 0, std::string(100'000, 'a') + "b", "c"});
  const Result<Tokenizer> tokenizer = tokenizer_from_spec(spec);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
}

// Pieces of about a hundred bytes are legitimate: lines of "=" and the like.
TEST(BoundedWork, RealisticPiecesAreFarFromTheLimit) {
  TokenizerSpec spec = letters_spec();
  spec.model = ModelKind::kUnigram;
  for (uint32_t length = 2; length <= 256; ++length) {
    spec.vocabulary.push_back({std::string(length, 'a'), 4 + length, -1.0 - length});
  }
  spec.normalizers.push_back({NormalizerKind::kNfkc});
  expect_encoded(spec, std::string(50'000, 'a'));
  // The character that grows most: to eleven times its bytes.
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += "\ufdfa";
  expect_encoded(spec, text);
}

// A token's cost does not grow with the text or with what its decoders could expand it to.
TEST(BoundedWork, DecodersThatMakeTokensLonger) {
  for (const bool is_fused : {false, true}) {
    TokenizerSpec spec = letters_spec();
    if (is_fused) spec.decoders.push_back({DecoderKind::kFuse});
    for (int i = 0; i < 40; ++i)
      spec.decoders.push_back({DecoderKind::kReplaceLiteral, 0, "a", std::string(4000, 'a')});
    const Tokenizer tokenizer = open(spec);
    StreamDecoder decoder(tokenizer);
    const auto start = std::chrono::steady_clock::now();
    size_t bytes = 0;
    for (int i = 0; i < 2'000; ++i) bytes += decoder.push(0).size();
    bytes += decoder.flush().size();
    EXPECT_LT(seconds_since(start), 20.0);
    EXPECT_LT(bytes, 2'000u * 4'096);
  }
}

TEST(BoundedWork, DecodersWithHostilePatterns) {
  for (const char* pattern : {"(?:a*)*b", "a+b|a"}) {
    TokenizerSpec spec = letters_spec();
    spec.decoders.push_back({DecoderKind::kFuse});
    spec.decoders.push_back({DecoderKind::kReplaceRegex, 0, pattern, "c"});
    const Tokenizer tokenizer = open(spec);
    const auto start = std::chrono::steady_clock::now();
    const std::string text = tokenizer.decode(std::vector<int32_t>(20'000, 0), false);
    EXPECT_LT(seconds_since(start), 20.0);
    EXPECT_EQ(text.size(), 20'000u);
  }
}

TEST(BoundedWork, DecodersThatStripMuchAreRefused) {
  TokenizerSpec spec = letters_spec();
  spec.decoders.push_back({DecoderKind::kFuse});
  spec.decoders.push_back({DecoderKind::kStrip, 0xffffu << 16, "", "a"});
  const Result<Tokenizer> tokenizer = tokenizer_from_spec(spec);
  ASSERT_FALSE(tokenizer.ok());
  EXPECT_EQ(tokenizer.error().code, ErrorCode::kUnsupported);
}

}  // namespace bounded_work_test
}  // namespace tandem
