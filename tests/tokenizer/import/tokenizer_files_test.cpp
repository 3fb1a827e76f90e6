// Tokenizers in files other than tokenizer.json: sentencepiece, tiktoken, llama2.c, vocab.json with merges.txt.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <map>

#include "tokenizer/byte_level.h"
#include "tokenizer/import/gzip.h"
#include "tokenizer/import/sentencepiece_model.h"
#include "tokenizer/import/tiktoken_model.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/tokenizer_test_data.h"
#include "unicode/utf8.h"

namespace tandem {
namespace tokenizer_files_test {

namespace fs = std::filesystem;

// A folder that is deleted after the test.
class Folder {
 public:
  Folder() {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    path_ = fs::temp_directory_path() / (std::string("tandem_") + test->name() + std::to_string(getpid()));
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }
  Result<Tokenizer> load() const {
    Result<std::optional<Tokenizer>> tokenizer = tokenizer_from_directory(path_);
    if (!tokenizer.ok()) return tokenizer.error();
    if (!*tokenizer) return Error{ErrorCode::kNotFound, "no tokenizer"};
    return **std::move(tokenizer);
  }

 private:
  fs::path path_;
};

Json golden_json(const std::string& name) {
  const fs::path folder = shared_data("golden/tokenizers") / name;
  if (fs::exists(folder / "tokenizer.json")) return load_json(folder / "tokenizer.json");
  const Result<std::string> packed = read_text_file(folder / "tokenizer.json.gz", 64u << 20);
  if (!packed.ok()) return {};
  return *parse_json(*gunzip(*packed, 256u << 20), "tokenizer.json");
}

void expect_golden_vectors(const Tokenizer& tokenizer, const std::string& name) {
  const Json json = load_json(shared_data("golden/tokenizers") / name / "vectors.public.json");
  for (const TokenizerVector& vector : read_vectors(json.at("vectors"))) {
    SCOPED_TRACE("text: " + vector.text);
    EXPECT_EQ(*tokenizer.encode(vector.text, false), vector.ids);
    EXPECT_EQ(*tokenizer.encode(vector.text, true), vector.ids_with_special);
    EXPECT_EQ(tokenizer.decode(vector.ids, false), vector.decoded);
    EXPECT_EQ(tokenizer.decode(vector.ids_with_special, true), vector.decoded_skip_special);
  }
}

#define SKIP_WITHOUT_GOLDEN()                          \
  if (!fs::exists(shared_data("golden/tokenizers"))) { \
    GTEST_SKIP() << "no golden vocabularies here";     \
  }

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) bits = bits << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0u);
    for (size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : kDigits[(bits >> (18 - 6 * j)) & 63];
  }
  return text;
}

// The pieces of the Llama 2 vocabulary. The merges of the other file are in the order of the scores.
struct ScoredPiece {
  std::string text;
  float score = 0;
};
std::vector<ScoredPiece> llama2_pieces() {
  const Json json = golden_json("llama2");
  std::vector<ScoredPiece> pieces(json.at("model").at("vocab").size());
  std::map<std::string, size_t> ids;
  for (const auto& [token, id] : json.at("model").at("vocab").items()) {
    pieces[id.get<size_t>()].text = token;
    ids[token] = id.get<size_t>();
  }
  float score = 0;
  for (const Json& merge : json.at("model").at("merges")) {
    const auto text = merge.get<std::string>();
    const size_t space = text.find(' ');
    ScoredPiece& piece = pieces[ids.at(text.substr(0, space) + text.substr(space + 1))];
    score -= 1;
    if (piece.score == 0) piece.score = score;
  }
  return pieces;
}

void put_number(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::string bytes_of(const void* data, size_t size) { return {static_cast<const char*>(data), size}; }

TEST(TokenizerFiles, SentencePieceAsTheLibraryDoes) {
  const Json data = load_json(text_data("sentencepiece_vectors.json"));
  ASSERT_EQ(data.at("models").size(), 3u);
  for (const auto& [name, vectors] : data.at("models").items()) {
    SCOPED_TRACE(name);
    const auto tokenizer = tokenizer_from_file(text_data("sentencepiece_" + name + ".model"));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
    for (const Json& vector : vectors) {
      const auto text = vector.at("text").get<std::string>();
      // The library does not look for control pieces in texts; transformers does.
      if (text.find("<s>") != std::string::npos) continue;
      SCOPED_TRACE(text);
      EXPECT_EQ(*tokenizer->encode(text, false), vector.at("ids").get<std::vector<int32_t>>());
    }
    EXPECT_EQ(tokenizer->encode("a", true)->at(0), 1);
    EXPECT_EQ(tokenizer->encode("<s>", false)->at(0), 1);
  }
}

TEST(TokenizerFiles, SentencePieceModelOfLlama2) {
  SKIP_WITHOUT_GOLDEN();
  std::string model;
  const std::vector<ScoredPiece> pieces = llama2_pieces();
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::string piece = "\x0a";
    put_number(piece, pieces[i].text.size());
    piece.append(pieces[i].text).append("\x15").append(bytes_of(&pieces[i].score, 4)).append("\x18");
    put_number(piece, i == 0 ? 2 : i < 3 ? 3 : i < 259 ? 6 : 1);
    model += "\x0a";
    put_number(model, piece.size());
    model += piece;
  }
  const std::string trainer = std::string("\x18\x02", 2) + "\x98\x02\x01";  // BPE, byte_fallback
  const std::string normalizer =
      std::string("\x0a\x08identity\x18\x01\x20\x00", 14);  // A dummy prefix, spaces are kept.
  model += "\x12";
  put_number(model, trainer.size());
  model += trainer + "\x1a";
  put_number(model, normalizer.size());
  model += normalizer;
  const Folder folder;
  folder.write("tokenizer.model", model);
  const Result<Tokenizer> tokenizer = folder.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_golden_vectors(*tokenizer, "llama2");

  // The configuration in the same folder applies.
  folder.write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true, "eos_token": "</s>",
    "added_tokens_decoder": {"32000": {"content": "<|extra|>", "special": true}}})");
  const Result<Tokenizer> configured = folder.load();
  ASSERT_TRUE(configured.ok()) << configured.error().message;
  EXPECT_EQ(*configured->encode("<|extra|>", true), (std::vector<int32_t>{32000, 2}));
  EXPECT_TRUE(configured->is_special(32000));
}

TEST(TokenizerFiles, Llama2cTokenizerBin) {
  SKIP_WITHOUT_GOLDEN();
  std::string file;
  const int32_t longest = 27;
  file += bytes_of(&longest, 4);
  const std::vector<ScoredPiece> pieces = llama2_pieces();
  for (size_t i = 0; i < pieces.size(); ++i) {
    std::string text = i == 1 ? "\n<s>\n" : i == 2 ? "\n</s>\n" : pieces[i].text;
    text = replace_literal(text, "\xE2\x96\x81", " ");
    const auto length = static_cast<int32_t>(text.size());
    file += bytes_of(&pieces[i].score, 4) + bytes_of(&length, 4) + text;
  }
  const Folder folder;
  folder.write("tokenizer.bin", file);
  const Result<Tokenizer> tokenizer = folder.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_golden_vectors(*tokenizer, "llama2");
  for (const size_t length : {5u, 13u, 100u, 3000u}) {
    folder.write("tokenizer.bin", file.substr(0, length));
    EXPECT_FALSE(folder.load().ok()) << length;
  }
}

TEST(TokenizerFiles, TiktokenOfLlama3) {
  SKIP_WITHOUT_GOLDEN();
  const Json json = golden_json("llama3_2");
  std::vector<std::string> tokens(json.at("model").at("vocab").size());
  for (const auto& [token, id] : json.at("model").at("vocab").items()) {
    tokens[id.get<size_t>()] = *bytes_from_byte_level(token);
  }
  std::string file;
  for (size_t i = 0; i < tokens.size(); ++i) file += base64(tokens[i]) + " " + std::to_string(i) + "\n";
  const Folder folder;
  folder.write("tokenizer.model", file);
  const Result<Tokenizer> tokenizer = folder.load();
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
  expect_golden_vectors(*tokenizer, "llama3_2");
  EXPECT_EQ(tokenizer->vocab_size(), 128256);
  EXPECT_EQ(tokenizer->token_to_id("<|eot_id|>"), 128009);

  folder.write("tokenizer_config.json", R"({"tokenizer_class": "ChatGLM4Tokenizer"})");
  const Result<Tokenizer> other = folder.load();
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("ChatGLM4Tokenizer"), std::string::npos) << other.error().message;
}

// vocab.json and merges.txt as on the hub, extracted from a tokenizer.json.
void write_vocab_and_merges(const Folder& folder, const Json& json, const char* name, bool with_added_json) {
  folder.write("vocab.json", json.at("model").at("vocab").dump());
  std::string merges = "#version: 0.2\n";
  for (const Json& merge : json.at("model").at("merges")) merges += merge.get<std::string>() + "\n";
  folder.write("merges.txt", merges);
  Json config = {{"tokenizer_class", name}};
  Json added = Json::object();
  Json special = Json::object();
  for (const Json& token : json.at("added_tokens")) {
    if (with_added_json) {
      added[token.at("content").get<std::string>()] = token.at("id");
      if (token.at("special")) special["additional_special_tokens"].push_back(token.at("content"));
    } else {
      config["added_tokens_decoder"][std::to_string(token.at("id").get<int>())] = token;
    }
  }
  folder.write("tokenizer_config.json", config.dump());
  if (with_added_json) folder.write("added_tokens.json", added.dump());
  if (with_added_json) folder.write("special_tokens_map.json", special.dump());
}

TEST(TokenizerFiles, VocabAndMerges) {
  SKIP_WITHOUT_GOLDEN();
  for (const auto& [name, class_name] :
       {std::pair{"qwen3", "Qwen2Tokenizer"}, {"codegen", "CodeGenTokenizer"}, {"gpt2", "GPT2TokenizerFast"}}) {
    SCOPED_TRACE(name);
    const Json json = golden_json(name);
    for (const bool with_added_json : {false, true}) {
      // Without a tokenizer_config.json, nothing says whether spaces are normalized first: it makes no difference here.
      const Folder folder;
      write_vocab_and_merges(folder, json, class_name, with_added_json);
      const Result<Tokenizer> tokenizer = folder.load();
      ASSERT_TRUE(tokenizer.ok()) << tokenizer.error().message;
      expect_golden_vectors(*tokenizer, name);
    }
  }
}

TEST(TokenizerFiles, AFolderWithoutATokenizerIsNoError) {
  const Folder folder;
  const Result<std::optional<Tokenizer>> nothing = tokenizer_from_directory(folder.path());
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(nothing->has_value());
}

TEST(TokenizerFiles, BrokenFilesAreNamed) {
  const auto error = [](const std::string& name, std::string_view bytes) {
    const Folder folder;
    folder.write(name, bytes);
    const Result<Tokenizer> tokenizer = folder.load();
    EXPECT_FALSE(tokenizer.ok()) << bytes;
    if (tokenizer.ok()) return std::string();
    EXPECT_NE(tokenizer.error().message.find(name), std::string::npos) << tokenizer.error().message;
    return tokenizer.error().message;
  };
  EXPECT_NE(error("tokenizer.model", "").find("no tokenizer"), std::string::npos);
  EXPECT_NE(error("tokenizer.model", "what is this").find("no tokenizer"), std::string::npos);
  EXPECT_NE(error("tokenizer.model", "IQ== 0\nnonsense\n").find("line 2"), std::string::npos);
  EXPECT_NE(error("tokenizer.model", "IQ== 0\nIQ= 1\n").find("line 2"), std::string::npos);
  EXPECT_NE(error("tokenizer.model", "IQ== 0\nIQ== 99999999999\n").find("line 2"), std::string::npos);
  EXPECT_NE(error("tokenizer.model", "IQ== 0\nIg== 0\n").find("id 0"), std::string::npos);
  EXPECT_NE(error("vocab.json", R"({"a": 0})").find("merges.txt"), std::string::npos);
  EXPECT_FALSE(error("tokenizer.json", R"({"a": 0})").empty());
  const Result<std::string> model = read_text_file(text_data("sentencepiece_unigram.model"), 1 << 20);
  ASSERT_TRUE(model.ok());
  for (size_t length = 4; length < model->size(); length += 97) {
    const Folder folder;
    folder.write("tokenizer.model", model->substr(0, length));
    const Result<Tokenizer> tokenizer = folder.load();
    if (!tokenizer.ok()) {
      EXPECT_EQ(tokenizer.error().code, ErrorCode::kCorrupt) << tokenizer.error().message;
    }
  }
}

TEST(TokenizerFiles, BadMergesAndAddedTokens) {
  const auto error = [](const char* merges, const char* added) {
    const Folder folder;
    folder.write("vocab.json", R"({"a": 0, "b": 1, "ab": 2})");
    folder.write("merges.txt", merges);
    folder.write("added_tokens.json", added);
    const Result<Tokenizer> tokenizer = folder.load();
    return tokenizer.ok() ? std::string() : tokenizer.error().message;
  };
  EXPECT_EQ(error("#version: 0.2\na b\n", R"({"<x>": 3})"), "");
  EXPECT_EQ(error("a b\r\n", "{}"), "");
  EXPECT_NE(error("a b\na", "{}").find("line 2"), std::string::npos);
  EXPECT_NE(error("a b c", "{}").find("line 1"), std::string::npos);
  EXPECT_NE(error("a c", "{}").find("\"c\""), std::string::npos);
  EXPECT_NE(error("a \xff", "{}").find("UTF-8"), std::string::npos);
  EXPECT_NE(error("a b", R"({"<x>": 1})").find("\"b\""), std::string::npos);
  EXPECT_NE(error("a b", R"({"<x>": -1})").find("<x>"), std::string::npos);
  EXPECT_NE(error("a b", R"([1])").find("added_tokens.json"), std::string::npos);
}

}  // namespace tokenizer_files_test
}  // namespace tandem
