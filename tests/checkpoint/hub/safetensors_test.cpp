#include "checkpoint/hub/safetensors.h"

#include "base/format.h"
#include "checkpoint/support.h"

namespace tandem {
namespace safetensors_test {

using test::as_bytes;
using test::safetensors;

Result<SafetensorsHeader> parse(const std::string& file) { return parse_safetensors(as_bytes(file), "f.safetensors"); }

std::string one(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return str_format(R"({{"w":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

TEST(Safetensors, ReadsEntriesMetadataAndData) {
  test::TempFolder folder;
  // The data begins at an odd offset: 8 + 145 bytes.
  folder.write(
      "m.safetensors",
      safetensors(R"({"__metadata__":{"format":"pt"},"b":{"shape":[2,3],"data_offsets":[4,16],"dtype":"BF16"},)"
                  R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}} )",
                  16));
  auto file = SafetensorsFile::open(folder.path() / "m.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_EQ(file->entries().size(), 2u);
  EXPECT_EQ(file->entries()[0].name, "a");
  EXPECT_EQ(file->metadata().at("format"), "pt");
  const SafetensorsEntry* b = file->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, DType::kBF16);
  EXPECT_EQ(b->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(file->bytes(*b).size(), 12u);
  EXPECT_EQ(file->bytes(*b)[0], 4);
  EXPECT_EQ(file->find("c"), nullptr);
  EXPECT_EQ(file->find(""), nullptr);
}

TEST(Safetensors, AcceptsWhatTheFormatAllows) {
  const std::pair<std::string, size_t> cases[] = {
      {"{}", 0},
      {"{}      ", 0},  // Padding.
      {R"({"__metadata__":null})", 0},
      {R"({"__metadata__":{}})", 0},
      {one("F32", "[]", "[0,4]"), 4},   // A scalar.
      {one("F32", "[0]", "[0,0]"), 0},  // No elements.
      {one("F32", "[5,0,7]", "[0,0]"), 0},
      {one("F4", "[3,2]", "[0,3]"), 3},  // Two to a byte.
      {one("F8_E4M3", "[3]", "[0,3]"), 3},
      {one("BOOL", "[3]", "[0,3]"), 3},
      {one("F64", "[1]", "[0,8]"), 8},
      // Fields that are not in the format are skipped, whatever they hold.
      {R"({"w":{"dtype":"U8","note":{"a":[1,{"b":[]}],"c":null},"x":-1.5,"shape":[1],"data_offsets":[0,1],"y":true}})",
       1},
      // Empty tensors between and at the ends of others.
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"z":{"dtype":"U8","shape":[0],"data_offsets":[2,2]},)"
       R"("b":{"dtype":"U8","shape":[1],"data_offsets":[2,3]},"y":{"dtype":"F32","shape":[0],"data_offsets":[3,3]},)"
       R"("x":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
       3},
  };
  for (const auto& [header, size] : cases) {
    const auto result = parse(safetensors(header, size));
    EXPECT_TRUE(result.ok()) << header << ": " << result.error().message;
  }
}

struct Hostile {
  std::string header;
  size_t data;
  std::string_view says;  // A part of the message.
};

TEST(Safetensors, RefusesHostileHeaders) {
  const Hostile cases[] = {
      {"", 0, "does not begin"},
      {" {}", 0, "does not begin"},
      {"[]", 0, "does not begin"},
      {"null", 0, "does not begin"},
      {"{", 0, "not valid JSON"},
      {"{}x", 0, "not valid JSON"},
      {std::string("{}\0", 3), 0, "not valid JSON"},
      {"{\"\xff\":{}}", 0, "not valid JSON"},
      {R"({"w":1})", 0, "not an object"},
      {R"({"w":null})", 0, "not an object"},
      {R"({"w":[]})", 0, "not an object"},
      {R"({"w":{}})", 0, "no dtype"},
      {R"({"w":{"dtype":"F32"}})", 0, "no shape"},
      {R"({"w":{"dtype":"F32","shape":[1]}})", 4, "no data_offsets"},
      {R"({"w":{"dtype":7,"shape":[1],"data_offsets":[0,4]}})", 4, "dtype is a number"},
      {R"({"w":{"dtype":null,"shape":[1],"data_offsets":[0,4]}})", 4, "dtype is null"},
      {R"({"w":{"dtype":{},"shape":[1],"data_offsets":[0,4]}})", 4, "dtype is an object"},
      {one("F31", "[1]", "[0,4]"), 4, "unknown dtype \"F31\""},
      {one("f32", "[1]", "[0,4]"), 4, "unknown dtype"},
      {one("", "[1]", "[0,4]"), 4, "unknown dtype"},
      {one("F32", "1", "[0,4]"), 4, "shape is a number"},
      {one("F32", "[-1]", "[0,4]"), 4, "negative"},
      {one("F32", "[1.0]", "[0,4]"), 4, "fraction"},
      {one("F32", "[\"1\"]", "[0,4]"), 4, "shape holds a string"},
      {one("F32", "[[1]]", "[0,4]"), 4, "shape holds a list"},
      {one("F32", "[null]", "[0,4]"), 4, "shape holds null"},
      {one("F32", "[9223372036854775808]", "[0,4]"), 4, "too large"},
      {one("F32", "[99999999999999999999999]", "[0,4]"), 4, "too large"},
      {one("F32", "[9223372036854775807]", "[0,4]"), 4, "too large"},
      {one("F32", "[4294967296,4294967296]", "[0,0]"), 0, "too large"},  // The product is 0 in 64 bits.
      {one("F32", "[4611686018427387905]", "[0,4]"), 4, "too large"},    // Times 4 it is 4.
      {one("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"), 4, "dimensions"},
      {one("F4", "[3]", "[0,2]"), 2, "whole bytes"},
      {one("F32", "[1]", "[4,0]"), 4, "before it begins"},
      {one("F32", "[1]", "[0,5]"), 5, "needs 4 bytes"},
      {one("F32", "[2]", "[0,4]"), 4, "needs 8 bytes"},
      {one("F32", "[0]", "[0,4]"), 4, "needs 0 bytes"},
      {one("F32", "[1]", "[0,4]"), 3, "download"},
      {one("F32", "[1]", "[0,4]"), 5, "after the last tensor"},
      {one("F32", "[1]", "[1,5]"), 5, "belong to no tensor"},
      {one("F32", "[1]", "[-4,0]"), 4, "negative"},
      {one("F32", "[1]", "[0]"), 4, "two numbers"},
      {one("F32", "[1]", "[0,4,4]"), 4, "more than two"},
      {one("F32", "[1]", "[0,4.0]"), 4, "fraction"},
      {one("F32", "[1]", "[18446744073709551612,18446744073709551615]"), 4, "download"},
      {one("F32", "[1]", "[18446744073709551616,18446744073709551620]"), 4, "too large"},
      {one("F32", "[1]", "{}"), 4, "data_offsets is an object"},
      {R"({"w":{"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]}})", 1, "twice"},
      {R"({"w":{"dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1]}})", 1, "twice"},
      {R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "\"w\" is in the header twice"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3, "\"a\" and \"b\" overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})",
       2, "overlap"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5, "belong to no tensor"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0],"data_offsets":[1,1]}})",
       2, "overlap"},
      {R"({"__metadata__":{"a":1}})", 0, "not a string"},
      {R"({"__metadata__":{"a":{}}})", 0, "not a string"},
      {R"({"__metadata__":"x"})", 0, "not an object"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "twice"},
  };
  for (const Hostile& c : cases) {
    const auto result = parse(safetensors(c.header, c.data));
    ASSERT_FALSE(result.ok()) << c.header;
    EXPECT_NE(result.error().message.find(c.says), std::string::npos)
        << c.header << " gave: " << result.error().message;
    EXPECT_NE(result.error().message.find("f.safetensors"), std::string::npos) << result.error().message;
    if (c.header.starts_with(R"({"w")") && result.error().message.find("JSON") == std::string::npos) {
      EXPECT_NE(result.error().message.find("\"w\""), std::string::npos) << result.error().message;
    }
  }
}

TEST(Safetensors, DeepNestingIsNoProblem) {
  std::string deep = R"({"w":{"x":)" + std::string(1'000'000, '[') + std::string(1'000'000, ']');
  deep += R"(,"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  EXPECT_TRUE(parse(safetensors(deep, 1)).ok());
  EXPECT_FALSE(parse(safetensors(R"({"w":)" + std::string(1'000'000, '['), 0)).ok());
}

TEST(Safetensors, RefusesWrongHeaderLengths) {
  const std::string good = safetensors(one("F32", "[1]", "[0,4]"), 4);
  ASSERT_TRUE(parse(good).ok());
  for (const uint64_t length : {uint64_t{0}, uint64_t{1}, good.size() - 8 - 4 + 1, good.size(), uint64_t{100'000'001},
                                uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{0} - 7}) {
    std::string file = good;
    for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(length >> (8 * i));
    EXPECT_FALSE(parse(file).ok()) << length;
  }
}

TEST(Safetensors, NamesGitLfsPointers) {
  const auto result = parse("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("git lfs pull"), std::string::npos);
}

TEST(Safetensors, LongAndBinaryNamesDoNotSpoilMessages) {
  const std::string name(10'000, 'n');
  auto result = parse(safetensors("{\"" + name + "\":1}", 0));
  ASSERT_FALSE(result.ok());
  EXPECT_LT(result.error().message.size(), 400u);
  result = parse(safetensors(R"({"a\u001b[2J":1})", 0));
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("a\\x1b[2J"), std::string::npos) << result.error().message;
}

// Every prefix of a real file is refused: the data must be there to its last byte.
TEST(Safetensors, RefusesEveryTruncation) {
  const std::string file = test::read_all(test::kGolden / "qwen2_5/model.safetensors");
  ASSERT_GT(file.size(), 100'000u);
  ASSERT_TRUE(parse(file).ok());
  const size_t header = static_cast<size_t>(static_cast<uint8_t>(file[0])) + 256u * static_cast<uint8_t>(file[1]) + 8;
  for (size_t size = 0; size < file.size(); size += size < header ? 37 : 4096) {
    EXPECT_FALSE(parse(file.substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(parse(file.substr(0, file.size() - 1)).ok());
  EXPECT_FALSE(parse(file + '\0').ok());
}

// A flipped byte in the header either breaks a rule, or gives another header that obeys them all (a letter of a name).
TEST(Safetensors, FlippedBytesNeverBreakTheRules) {
  const std::string good = test::read_all(test::kGolden / "granite3_3/model-00002-of-00011.safetensors");
  const auto header = parse(good);
  ASSERT_TRUE(header.ok());
  int refused = 0;
  for (size_t at = 0; at < header->data_begin; ++at) {
    for (const int mask : {0x01, 0x10, 0x80, 0xff}) {
      std::string file = good;
      file[at] = static_cast<char>(file[at] ^ mask);
      const auto result = parse(file);
      if (!result.ok()) {
        ++refused;
        continue;
      }
      uint64_t covered = 0;
      for (const SafetensorsEntry& entry : result->entries) {
        EXPECT_EQ(entry.begin, covered);
        EXPECT_LE(entry.begin, entry.end);
        covered = entry.end;
      }
      EXPECT_EQ(result->data_begin + covered, good.size());
    }
  }
  EXPECT_GT(refused, static_cast<int>(header->data_begin));
}

TEST(Safetensors, FileErrors) {
  test::TempFolder folder;
  EXPECT_EQ(SafetensorsFile::open(folder.path() / "none").error().code, ErrorCode::kNotFound);
  folder.write("empty", "");
  EXPECT_EQ(SafetensorsFile::open(folder.path() / "empty").error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(SafetensorsFile::open(folder.path()).ok());
}

}  // namespace safetensors_test
}  // namespace tandem
