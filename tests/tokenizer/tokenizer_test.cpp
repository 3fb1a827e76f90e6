// The tokenizer's edge cases: bad files, bad bytes, long words, threads, lookups.
#include "tokenizer/tokenizer.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <thread>

#include "tokenizer/import/gzip.h"
#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/tokenizer_test_data.h"

namespace tandem {
namespace tokenizer_test {

Json demo_json() { return load_json(text_data("demo_tokenizer.json")); }

Error error_of(const Json& json) {
  const Result<Tokenizer> tokenizer = tokenizer_from_json(json.dump());
  if (tokenizer.ok()) return Error{ErrorCode::kInternal, "no error"};
  return tokenizer.error();
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

TEST(Tokenizer, LooksUpTokens) {
  const Result<Tokenizer> tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  EXPECT_EQ(tokenizer->vocab_size(), 1295);
  EXPECT_EQ(tokenizer->token_to_id("<|im_end|>"), 2);
  EXPECT_TRUE(tokenizer->is_special(2));
  EXPECT_FALSE(tokenizer->is_special(3));
  EXPECT_FALSE(tokenizer->is_special(-1));
  EXPECT_FALSE(tokenizer->is_special(1 << 30));
  EXPECT_EQ(tokenizer->token_to_id("no such token"), std::nullopt);
  const std::optional<int32_t> the = tokenizer->token_to_id("Ġt");
  ASSERT_TRUE(the);
  EXPECT_EQ(tokenizer->token_bytes(*the), " t");
  EXPECT_EQ(tokenizer->token_bytes(2), "<|im_end|>");
  EXPECT_EQ(tokenizer->token_bytes(1295), "");
  EXPECT_EQ(tokenizer->decode(std::vector<int32_t>{-5, 1295, 1 << 30, 2}, false), "<|im_end|>");
  // Every token of the vocabulary is found under its written form.
  const Json json = demo_json();
  for (const auto& [token, id] : json.at("model").at("vocab").items()) {
    EXPECT_EQ(tokenizer->token_to_id(token), id.get<int32_t>()) << token;
  }
}

TEST(Tokenizer, TakesInvalidUtf8AsReplacementCharacters) {
  const Result<Tokenizer> tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok());
  const auto same = [&](std::string_view broken, std::string_view repaired) {
    const auto a = tokenizer->encode(broken, false);
    const auto b = tokenizer->encode(repaired, false);
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(*a, *b);
  };
  // The values of Rust's String::from_utf8_lossy.
  same("a\xff\xfe", "a\uFFFD\uFFFD");
  same("\xe2\x82", "\uFFFD");
  same("\xe2\x82x", "\uFFFDx");
  same("\xf0\x9f\x98 \xc0\x80", "\uFFFD \uFFFD\uFFFD");
  same("\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD");
  same("\xf4\x90\x80\x80", "\uFFFD\uFFFD\uFFFD\uFFFD");
}

TEST(Tokenizer, LongTextsTakeLinearTime) {
  const Result<Tokenizer> tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok());
  std::vector<std::string> texts;
  for (const char* unit : {"a", "ab", " ", "\n", "'", "1", "the", "\u0301\u0323", "日", "<|im_start|", "\u00a0"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    texts.push_back(std::move(text));
  }
  for (const std::string& text : texts) {
    const auto start = std::chrono::steady_clock::now();
    const Result<std::vector<int32_t>> ids = tokenizer->encode(text, false);
    ASSERT_TRUE(ids.ok()) << ids.error().message;
    EXPECT_FALSE(ids->empty());
    // A quadratic step would take hours. Generous, because sanitizers and busy machines are slow.
    EXPECT_LT(seconds_since(start), 20.0) << text.substr(0, 12);
  }
}

TEST(Tokenizer, ShortAndLongWordsMergeAlike) {
  // A word that is merged by the heap, and the same in pieces small enough for the scan.
  const Result<Tokenizer> tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok());
  const Result<std::vector<int32_t>> once = tokenizer->encode("there", false);
  ASSERT_TRUE(once.ok());
  std::string text;
  std::vector<int32_t> expected;
  for (int i = 0; i < 40; ++i) text += "there";
  const Result<std::vector<int32_t>> ids = tokenizer->encode(text, false);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(tokenizer->decode(*ids, false), text);
  EXPECT_LE(ids->size(), 40 * once->size());
}

TEST(Tokenizer, ManyThreadsShareOne) {
  const Result<Tokenizer> tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok());
  const std::string text = "Once upon a time, there was a naïve little girl. She said: \"Hello 123!\"\n";
  const std::vector<int32_t> expected = *tokenizer->encode(text, true);
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto ids = tokenizer->encode(text, true);
        if (ids.ok() && *ids == expected && tokenizer->decode(*ids, false) == text) ++right[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, std::vector<int>(4, 200));
}

TEST(Tokenizer, RefusesByName) {
  const auto changed = [](const char* pointer, const Json& value) {
    Json json = demo_json();
    json[Json::json_pointer(pointer)] = value;
    return error_of(json);
  };
  const auto expect = [](const Error& error, ErrorCode code, const char* part) {
    EXPECT_EQ(error.code, code) << error.message;
    EXPECT_NE(error.message.find(part), std::string::npos) << error.message;
  };
  expect(changed("/model/type", "Unigram"), ErrorCode::kCorrupt, "vocab");
  expect(changed("/model/type", "WordPiece"), ErrorCode::kUnsupported, "WordPiece");
  expect(changed("/model/dropout", 0.1), ErrorCode::kUnsupported, "dropout");
  expect(changed("/model/end_of_word_suffix", "</w>"), ErrorCode::kUnsupported, "end_of_word_suffix");
  expect(changed("/model/continuing_subword_prefix", "##"), ErrorCode::kUnsupported, "continuing_subword_prefix");
  expect(changed("/normalizer", {{"type", "BertNormalizer"}}), ErrorCode::kUnsupported, "BertNormalizer");
  expect(changed("/normalizer", {{"type", "Precompiled"}}), ErrorCode::kUnsupported, "Precompiled");
  expect(changed("/normalizer", {{"type", "Prepend"}}), ErrorCode::kCorrupt, "prepend");
  expect(changed("/pre_tokenizer", {{"type", "Metaspace"}}), ErrorCode::kCorrupt, "replacement");
  expect(changed("/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "ab"}}), ErrorCode::kCorrupt, "ab");
  expect(
      changed("/pre_tokenizer",
              {{"type", "Metaspace"}, {"replacement", "_"}, {"prepend_scheme", "first"}, {"add_prefix_space", false}}),
      ErrorCode::kCorrupt, "first");
  expect(changed("/pre_tokenizer", {{"type", "UnicodeScripts"}}), ErrorCode::kUnsupported, "UnicodeScripts");
  expect(changed("/decoder", {{"type", "WordPiece"}}), ErrorCode::kUnsupported, "WordPiece");
  expect(changed("/decoder", {{"type", "CTC"}}), ErrorCode::kUnsupported, "CTC");
  expect(changed("/post_processor", {{"type", "BertProcessing"}}), ErrorCode::kUnsupported, "BertProcessing");
  expect(changed("/version", "2.0"), ErrorCode::kUnsupported, "2.0");
  expect(changed("/model/vocab/a", "x"), ErrorCode::kCorrupt, "\"a\"");
  expect(changed("/model/vocab/a", -1), ErrorCode::kCorrupt, "\"a\"");
  expect(changed("/model/vocab/a", 4000000000u), ErrorCode::kUnsupported, "\"a\"");
  expect(changed("/model/vocab/a", 7), ErrorCode::kCorrupt, "id 7");
  expect(changed("/model/merges/0", "a b c"), ErrorCode::kCorrupt, "a b c");
  expect(changed("/model/merges/0", Json::array({"a", "zzz"})), ErrorCode::kCorrupt, "zzz");
  expect(changed("/model/merges", 3), ErrorCode::kCorrupt, "merges");
  expect(changed("/model", 3), ErrorCode::kCorrupt, "model");
  expect(changed("/added_tokens/0/content", 3), ErrorCode::kCorrupt, "content");
  expect(changed("/pre_tokenizer/pretokenizers/0/pattern/Regex", "("), ErrorCode::kUnsupported, "regular expression");
  EXPECT_EQ(tokenizer_from_json("{").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(tokenizer_from_json("").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(tokenizer_from_json("[]").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(tokenizer_from_file("/nonexistent/tokenizer.json").error().code, ErrorCode::kNotFound);
}

TEST(Tokenizer, UnknownTokenThatIsAbsentIsAnErrorOnlyWhenNeeded) {
  Json json = demo_json();
  json["model"]["unk_token"] = "<nope>";
  const Result<Tokenizer> tokenizer = tokenizer_from_json(json.dump());
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_TRUE(tokenizer->encode("fine", false).ok());
  std::string all_bytes_text = "zx";
  EXPECT_TRUE(tokenizer->encode(all_bytes_text, false).ok());
  const auto zebra = json["model"]["vocab"].find("~");
  ASSERT_NE(zebra, json["model"]["vocab"].end());
  json["model"]["vocab"].erase("~");
  const Result<Tokenizer> without = tokenizer_from_json(json.dump());
  ASSERT_TRUE(without.ok()) << without.error().message;
  EXPECT_FALSE(without->encode("~", false).ok());
}

TEST(Tokenizer, ReadsGzip) {
  const std::string text = demo_json().dump();
  const std::filesystem::path path = std::filesystem::temp_directory_path() / "tandem_test_tokenizer.json.gz";
  std::ofstream(path, std::ios::binary) << gzip(text);
  const Result<Tokenizer> tokenizer = tokenizer_from_file(path);
  EXPECT_TRUE(tokenizer.ok());
  std::filesystem::remove(path);
}

TEST(Gzip, BoundsAndDamage) {
  std::string text;
  while (text.size() < 100'000) text += std::to_string(text.size() * text.size());
  text.resize(100'000);
  const std::string packed = gzip(text);
  EXPECT_EQ(*gunzip(packed, 100'000), text);
  EXPECT_EQ(*gunzip(packed + packed, 200'000), text + text);
  EXPECT_FALSE(gunzip(packed, 99'999).ok());
  for (size_t length = 2; length < packed.size(); length += 101)
    EXPECT_FALSE(gunzip(packed.substr(0, length), 1 << 20).ok());
  std::string damaged = packed;
  damaged[packed.size() / 2] = static_cast<char>(damaged[packed.size() / 2] ^ 0x55);
  EXPECT_FALSE(gunzip(damaged, 1 << 20).ok());
}

// A megabyte of such a file would fill a gigabyte.
TEST(Gzip, BombsAreRefusedBeforeTheyTakeMemory) {
  const std::string bomb = gzip(std::string(64 << 20, ' '));
  ASSERT_LT(bomb.size(), 100'000u);
  const Result<std::string> unpacked = gunzip(bomb, 256 << 20);
  ASSERT_FALSE(unpacked.ok());
  EXPECT_EQ(unpacked.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(unpacked.error().message.find("times as much"), std::string::npos) << unpacked.error().message;
  EXPECT_EQ(gunzip(gzip(std::string(500'000, ' ')), 1 << 20)->size(), 500'000u);  // Short texts may be anything.
}

TEST(Blob, AnyDamageIsSafe) {
  const Result<Tokenizer> tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok());
  const std::vector<uint8_t> blob = serialize_tokenizer(*tokenizer);
  const auto use = [](std::span<const uint8_t> bytes) {
    const Result<Tokenizer> damaged = Tokenizer::from_blob(bytes);
    if (!damaged.ok()) {
      EXPECT_FALSE(damaged.error().message.empty());
      return;
    }
    // No crash; the result is unspecified.
    const auto ids = damaged->encode("Once upon a time <|im_start|> naïve 12", true);
    if (ids.ok()) (void)damaged->decode(*ids, false);
    (void)damaged->token_to_id("Ġthe");
    (void)damaged->decode(random_ids(1, 1400, 300), false);
  };
  for (size_t length = 0; length < blob.size(); length += length < 512 ? 1 : 997) {
    EXPECT_FALSE(Tokenizer::from_blob(std::span(blob).first(length)).ok());
  }
  // Each 32-bit word of the header, and a sample of the rest, set to strange values.
  for (size_t at = 0; at + 4 <= blob.size(); at += at < 320 ? 4 : 1021) {
    for (const uint32_t value : {0u, 1u, 0x7fffffffu, 0x80000000u, 0xffffffffu, 0x01000000u}) {
      std::vector<uint8_t> damaged = blob;
      std::memcpy(damaged.data() + at, &value, 4);
      use(damaged);
    }
  }
  // Not aligned.
  std::vector<uint8_t> shifted(blob.size() + 1);
  std::memcpy(shifted.data() + 1, blob.data(), blob.size());
  const Result<Tokenizer> odd = Tokenizer::from_blob(std::span(shifted).subspan(1));
  ASSERT_TRUE(odd.ok());
  EXPECT_EQ(*odd->encode("Once upon", false), *tokenizer->encode("Once upon", false));
}

TEST(Blob, TheFirstVersionIsStillRead) {
  // A compiled model of the first release has its tokenizer somewhere inside.
  const auto path = std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/artifact/v1.tdm";
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  const std::string_view bytes(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  const size_t at = bytes.find("TDMTOKEN");
  ASSERT_NE(at, std::string_view::npos);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data() + at + 16, sizeof size);
  ASSERT_EQ(bytes[at + 8], 1);
  const std::vector<uint8_t> blob(file->bytes().begin() + static_cast<ptrdiff_t>(at),
                                  file->bytes().begin() + static_cast<ptrdiff_t>(at + size));
  const Result<Tokenizer> tokenizer = Tokenizer::from_blob(blob);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  const std::string text = "Once upon a time, there was a naïve cat.";
  const Result<std::vector<int32_t>> ids = tokenizer->encode(text, false);
  ASSERT_TRUE(ids.ok()) << ids.error().message;
  EXPECT_EQ(tokenizer->decode(*ids, false), text);
  for (size_t word = 0; word < 256; word += 4) {
    std::vector<uint8_t> damaged = blob;
    damaged[word] ^= 0x5a;
    if (const Result<Tokenizer> opened = Tokenizer::from_blob(damaged); opened.ok()) (void)opened->encode(text, true);
  }
}

TEST(Blob, NewerVersionIsNamed) {
  const Result<Tokenizer> tokenizer = load_demo_tokenizer();
  ASSERT_TRUE(tokenizer.ok());
  std::vector<uint8_t> blob = serialize_tokenizer(*tokenizer);
  blob[8] = 99;
  const Result<Tokenizer> newer = Tokenizer::from_blob(blob);
  ASSERT_FALSE(newer.ok());
  EXPECT_EQ(newer.error().code, ErrorCode::kUnsupported);
}

// Files from before regular expressions were compiled have them as text.
TEST(Tokenizer, FilesFromBeforePatternsWereCompiled) {
  const auto read = [](const char* name) { return *read_text_file(text_data(name), 1 << 20); };
  const std::string known = read("version2_known_pattern.blob");
  const auto old = Tokenizer::from_blob({reinterpret_cast<const uint8_t*>(known.data()), known.size()});
  ASSERT_TRUE(old.ok()) << old.error().message;
  const auto now = tokenizer_from_json(read("version2_known_pattern.json"));
  ASSERT_TRUE(now.ok()) << now.error().message;
  for (const char* text : {"the cat's the 12 them  the\n\n the<end> other", "it'll  THE", "\t \r\n a", ""}) {
    EXPECT_EQ(*old->encode(text, true), *now->encode(text, true)) << text;
  }

  const std::string other = read("version2_other_pattern.blob");
  const auto refused = Tokenizer::from_blob({reinterpret_cast<const uint8_t*>(other.data()), other.size()});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(refused.error().message.find("compile the model again"), std::string::npos) << refused.error().message;
}

}  // namespace tokenizer_test
}  // namespace tandem
