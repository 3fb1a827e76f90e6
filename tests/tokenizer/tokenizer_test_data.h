// Where the tests of text/ find their tokenizers and expected values.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "tokenizer/import/tokenizer_files.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

inline std::filesystem::path text_data(const std::string& name) {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/text" / name;
}

inline std::filesystem::path shared_data(const std::string& name) {
  return std::filesystem::path(TANDEM_SOURCE_DIR) / "../shared" / name;
}

inline Json load_json(const std::filesystem::path& path) {
  Result<std::string> text = read_text_file(path, 64u << 20);
  if (!text.ok()) {
    ADD_FAILURE() << text.error().message;
    return {};
  }
  Result<Json> json = parse_json(*text, path.string());
  if (!json.ok()) {
    ADD_FAILURE() << json.error().message;
    return {};
  }
  return *std::move(json);
}

inline Result<Tokenizer> load_demo_tokenizer() { return tokenizer_from_file(text_data("demo_tokenizer.json")); }

struct TokenizerVector {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int32_t> ids_with_special;
  std::string decoded;
  std::string decoded_skip_special;
};

inline std::vector<TokenizerVector> read_vectors(const Json& list) {
  std::vector<TokenizerVector> vectors;
  for (const Json& item : list) {
    vectors.push_back({item.at("text"), item.at("ids"), item.at("ids_with_special"), item.at("decoded"),
                       item.at("decoded_skip_special")});
  }
  return vectors;
}

// Random ids, some outside the vocabulary.
inline std::vector<int32_t> random_ids(uint64_t seed, int32_t vocab_size, size_t count) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < count; ++i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<int32_t>((seed >> 33) % static_cast<uint64_t>(vocab_size + 3)) - 1);
  }
  return ids;
}

}  // namespace tandem
