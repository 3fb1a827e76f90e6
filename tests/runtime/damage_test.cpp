// Truncated files and flipped bits: an error or unchanged results; never a crash, never other tokens.
#include <gtest/gtest.h>

#include <random>

#include "artifact/reader.h"
#include "base/try.h"
#include "support/compiled_model.h"

namespace tandem {
namespace damage_test {

namespace fs = std::filesystem;

class DamagedFile : public testing::Test {
 protected:
  // The first tokens that the file generates, or the error of loading or generating.
  Result<std::vector<int32_t>> try_tokens(const fs::path& path) const {
    TANDEM_ASSIGN(const auto engine, Engine::load(path, {.threads = 1}));
    TANDEM_ASSIGN(const auto session, engine->new_session());
    const std::vector<int32_t> prompt = {404, 1055, 3, 17, 99};
    GenerateOptions options;
    options.max_new_tokens = 4;
    options.ignore_eos = true;
    TANDEM_ASSIGN(const GenerateResult result, session->generate(prompt, options, {}));
    return result.tokens;
  }
  static void expect_clear(const Error& error) {
    EXPECT_FALSE(error.message.empty());
    EXPECT_EQ(error.message.find('\n'), std::string::npos);
    EXPECT_TRUE(error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kUnsupported) << error.message;
  }

  const test::TempFolder folder_;
  const fs::path whole_ = test::compiled({.checkpoint = test::demo_dir(), .prefill = {8}, .context = 128});
  const fs::path copy_ = folder_ / "copy.tdm";
};

TEST_F(DamagedFile, TruncatedAtEveryPage) {
  ASSERT_TRUE(try_tokens(whole_).ok());
  fs::copy_file(whole_, copy_);
  const auto size = fs::file_size(copy_);
  fs::resize_file(copy_, size - 1);
  EXPECT_FALSE(try_tokens(copy_).ok());
  for (auto length = (size - 1) / 4096 * 4096;; length -= 4096) {
    fs::resize_file(copy_, length);
    const auto tokens = try_tokens(copy_);
    ASSERT_FALSE(tokens.ok()) << length;
    expect_clear(tokens.error());
    if (length == 0) break;
  }
}

TEST_F(DamagedFile, LongerThanItShouldBe) {
  fs::copy_file(whole_, copy_);
  fs::resize_file(copy_, fs::file_size(copy_) + 4096);
  const auto tokens = try_tokens(copy_);
  ASSERT_FALSE(tokens.ok());
  expect_clear(tokens.error());
}

TEST_F(DamagedFile, FlippedBytes) {
  const auto expected = try_tokens(whole_);
  ASSERT_TRUE(expected.ok()) << expected.error().message;
  const auto artifact = Artifact::open(whole_);
  const auto bytes = test::read_file(whole_);
  test::write_file(copy_, bytes);
  std::fstream file(copy_, std::ios::in | std::ios::out | std::ios::binary);
  const auto put = [&](size_t at, uint8_t value) {
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(value));
    file.flush();
  };
  // Anywhere, and some in the header, which is small compared with the weights.
  std::vector<size_t> offsets;
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) offsets.push_back(random() % bytes.size());
  const Segment& last = artifact->header().segments.back();
  const size_t header = last.offset + last.size;
  for (int i = 0; i < 40; ++i) offsets.push_back(header + random() % (bytes.size() - header));
  for (size_t i = 0; i < 64; i += 3) offsets.push_back(i);

  int unnoticed = 0;
  for (const size_t offset : offsets) {
    SCOPED_TRACE(offset);
    put(offset, static_cast<uint8_t>(bytes[offset] ^ (1u << (random() % 8))));
    const auto tokens = try_tokens(copy_);
    put(offset, bytes[offset]);
    if (!tokens.ok()) {
      expect_clear(tokens.error());
      continue;
    }
    ++unnoticed;
    EXPECT_EQ(*tokens, *expected);
    // Only unused bytes may change undetected.
    for (const Segment& segment : artifact->header().segments) {
      EXPECT_FALSE(offset >= segment.offset && offset < segment.offset + segment.size) << segment.name;
    }
  }
  EXPECT_LT(unnoticed, 20);
  EXPECT_EQ(*try_tokens(copy_), *expected) << "the test did not put the bytes back";
}

// Loading verifies the weights only on request; computing the first token always does.
TEST_F(DamagedFile, IsNoticedWhenTheUserWantsItTo) {
  auto bytes = test::read_file(whole_);
  const auto artifact = Artifact::open(whole_);
  const auto& segments = artifact->header().segments;
  const auto layer = std::ranges::find(segments, "layers.2", &Segment::name);
  ASSERT_NE(layer, segments.end());
  bytes[layer->offset + layer->size / 2] ^= 0x10;
  test::write_file(copy_, bytes);

  const auto at_load = Engine::load(copy_, {.threads = 1, .verify = VerifyWeights::kAtLoad});
  ASSERT_FALSE(at_load.ok());
  EXPECT_NE(at_load.error().message.find("layers.2"), std::string::npos) << at_load.error().message;
  EXPECT_TRUE(Engine::load(copy_, {.threads = 1}).ok());
  EXPECT_FALSE(try_tokens(copy_).ok());

  const auto never = Engine::load(copy_, {.threads = 1, .verify = VerifyWeights::kNever});
  ASSERT_TRUE(never.ok());
  EXPECT_EQ(test::greedy(*test::new_session(**never), std::vector<int32_t>{1}, 1).size(), 1u);
}

TEST_F(DamagedFile, SaysWhatItIsInstead) {
  const auto message = [&](std::string_view text) {
    test::write_file(copy_, text);
    const auto engine = Engine::load(copy_);
    EXPECT_FALSE(engine.ok());
    return engine.ok() ? std::string() : engine.error().message;
  };
  EXPECT_NE(message("").find("too short"), std::string::npos);
  EXPECT_NE(message(std::string(5000, 'x')).find("not a tandem file"), std::string::npos);
  const auto folder = Engine::load(folder_.path());
  ASSERT_FALSE(folder.ok());
  EXPECT_NE(folder.error().message.find("folder"), std::string::npos) << folder.error().message;
  const auto absent = Engine::load(folder_ / "absent.tdm");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
}

}  // namespace damage_test
}  // namespace tandem
