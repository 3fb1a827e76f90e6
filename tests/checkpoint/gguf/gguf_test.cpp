#include "checkpoint/gguf/gguf.h"

#include <cmath>

#include "base/mapped_file.h"
#include "checkpoint/support.h"
#include "support/gguf_writer.h"

namespace tandem {
namespace gguf_test {

namespace fs = std::filesystem;

using test::as_bytes;
using test::GgufWriter;

const fs::path kGguf = fs::path(TANDEM_SOURCE_DIR) / "tests/data/gguf";

void expect_error(const std::string& file, ErrorCode code, std::string_view says) {
  const auto content = GgufContent::parse(as_bytes(file), "m.gguf");
  ASSERT_FALSE(content.ok()) << says;
  EXPECT_EQ(content.error().code, code) << content.error().message;
  EXPECT_NE(content.error().message.find(says), std::string::npos) << content.error().message;
  EXPECT_TRUE(content.error().message.starts_with("m.gguf: ")) << content.error().message;
}

// llama.cpp's own library wrote the file and decoded its blocks.
TEST(Gguf, BlocksDecodeAsLlamaCppDoes) {
  const auto file = MappedFile::open(kGguf / "blocks.gguf");
  ASSERT_TRUE(file.ok());
  const auto content = GgufContent::parse(file->bytes(), "blocks.gguf");
  ASSERT_TRUE(content.ok()) << content.error().message;
  for (const char* name : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q6_K"}) {
    const GgufTensor* tensor = content->find_tensor(name);
    const GgufTensor* expected = content->find_tensor(std::string(name) + ".expected");
    ASSERT_TRUE(tensor != nullptr && expected != nullptr) << name;
    EXPECT_EQ(encoding_layout(tensor->encoding).name, name);
    EXPECT_EQ(tensor->shape, (std::vector<int64_t>{3, 512}));
    std::vector<float> wanted(3 * 512), got(3 * 512);
    decode_elements(WeightEncoding::kF32, expected->bytes.data(), 0, wanted.size(), wanted.data());
    decode_elements(tensor->encoding, tensor->bytes.data(), 0, got.size(), got.data());
    EXPECT_EQ(got, wanted) << name;
    // Runs that begin and end inside a block.
    for (size_t first = 0; first + 41 <= wanted.size(); first += 37) {
      std::vector<float> part(41);
      decode_elements(tensor->encoding, tensor->bytes.data(), first, part.size(), part.data());
      EXPECT_TRUE(std::equal(part.begin(), part.end(), wanted.begin() + static_cast<std::ptrdiff_t>(first))) << name;
    }
  }
}

TEST(Gguf, Metadata) {
  GgufWriter writer;
  writer.u32("a", 7).u64("b", 1ull << 40).f32("eps", 1e-5f).boolean("yes", true).text("t", "hello");
  writer.texts("words", {"x", "", "yz"}).floats("scores", {1.5f, -2.0f}).ints("ids", {3, -4});
  writer.raw("i8", 1, "\xff").raw("f64", 12, std::string("\0\0\0\0\0\0\xe0\x3f", 8));
  for (const uint32_t version : {2u, 3u}) {
    const std::string file = writer.finish(version);
    const auto content = GgufContent::parse(as_bytes(file), "m");
    ASSERT_TRUE(content.ok()) << content.error().message;
    EXPECT_EQ(*content->integer("a"), 7);
    EXPECT_EQ(*content->integer("b"), int64_t{1} << 40);
    EXPECT_EQ(*content->integer("i8"), -1);
    EXPECT_EQ(*content->number("eps"), 1e-5);  // The double, not the float's nearest.
    EXPECT_EQ(*content->number("f64"), 0.5);
    EXPECT_EQ(*content->number("a"), 7.0);
    EXPECT_EQ(*content->boolean("yes"), true);
    EXPECT_EQ(*content->string("t"), "hello");
    EXPECT_EQ(*content->strings("words"), (std::vector<std::string_view>{"x", "", "yz"}));
    EXPECT_EQ(*content->floats("scores"), (std::vector<float>{1.5f, -2.0f}));
    EXPECT_EQ(*content->integers("ids"), (std::vector<int64_t>{3, -4}));
    EXPECT_EQ(*content->integers("a"), (std::vector<int64_t>{7}));
    EXPECT_FALSE(content->integer("none")->has_value());
    EXPECT_TRUE(content->strings("none")->empty());
    EXPECT_FALSE(content->integer("t").ok());
    EXPECT_FALSE(content->number("words").ok());
    EXPECT_FALSE(content->boolean("a").ok());
    EXPECT_FALSE(content->string("a").ok());
    EXPECT_FALSE(content->strings("scores").ok());
    EXPECT_FALSE(content->floats("ids").ok());
    EXPECT_FALSE(content->integers("words").ok());
    EXPECT_EQ(content->keys("y"), std::vector<std::string_view>{"yes"});
  }
}

TEST(Gguf, HostileHeaders) {
  expect_error("", ErrorCode::kCorrupt, "empty");
  expect_error("GGUF", ErrorCode::kCorrupt, "cut off");
  expect_error("GGML....", ErrorCode::kCorrupt, "not a GGUF file");
  expect_error("tjgg....", ErrorCode::kUnsupported, "before GGUF");
  expect_error("version https://git-lfs.github.com/spec/v1", ErrorCode::kNotFound, "git lfs pull");
  expect_error(std::string("PK\3\4", 4), ErrorCode::kUnsupported, "zip archive");
  expect_error(GgufWriter().finish(1), ErrorCode::kUnsupported, "version 1");
  expect_error(GgufWriter().finish(4), ErrorCode::kUnsupported, "version 4");
  expect_error(GgufWriter().finish(0x03000000), ErrorCode::kUnsupported, "big endian");
  std::string counts = GgufWriter().finish();
  counts[15] = '\x7f';
  expect_error(counts, ErrorCode::kCorrupt, "more than any model has");
  counts = GgufWriter().finish();
  counts[16] = 5;  // Five keys, and none there.
  expect_error(counts, ErrorCode::kCorrupt, "");

  const auto with_key = [](uint32_t type, std::string_view bytes) {
    return GgufWriter().raw("k", type, bytes).finish();
  };
  expect_error(with_key(13, ""), ErrorCode::kCorrupt, "unknown type 13");
  expect_error(with_key(8, std::string(8, '\xff')), ErrorCode::kCorrupt, "cut off");
  expect_error(with_key(9, std::string("\x09\0\0\0\1\0\0\0\0\0\0\0", 12)), ErrorCode::kCorrupt,
               "list of the unknown type 9");
  expect_error(with_key(9, std::string("\x63\0\0\0\1\0\0\0\0\0\0\0", 12)), ErrorCode::kCorrupt,
               "list of the unknown type 99");
  expect_error(with_key(9, std::string("\x04\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 12)), ErrorCode::kCorrupt,
               "cut off");
  expect_error(with_key(9, std::string("\x00\0\0\0\xff\xff\xff\xff\0\0\0\0", 12)), ErrorCode::kCorrupt, "cut off");
  expect_error(with_key(9, std::string("\x08\0\0\0\xff\xff\xff\xff\xff\xff\xff\x7f", 12)), ErrorCode::kCorrupt,
               "cut off");
  expect_error(GgufWriter().u32("k", 1).u32("k", 2).finish(), ErrorCode::kCorrupt, "\"k\" is there twice");
  expect_error(GgufWriter().u32(std::string(70'000, 'k'), 1).finish(), ErrorCode::kCorrupt, "70000 bytes");
  for (const uint32_t alignment : {0u, 3u, 48u, 1u << 30}) {
    expect_error(GgufWriter().u32("general.alignment", alignment).finish(), ErrorCode::kCorrupt, "general.alignment");
  }
  expect_error(GgufWriter().text("general.alignment", "32").finish(), ErrorCode::kCorrupt, "general.alignment");
}

TEST(Gguf, HostileTensors) {
  const std::string data(256, 'x');
  const auto with = [&](const std::vector<int64_t>& shape, uint32_t type, uint64_t offset) {
    return GgufWriter().tensor("good", {64}, 0, data).tensor_at("bad", shape, type, offset).finish();
  };
  ASSERT_TRUE(GgufContent::parse(as_bytes(with({32}, 0, 128)), "m").ok());
  expect_error(with({32}, 0, 160), ErrorCode::kCorrupt, "\"bad\" (F32 [32]) reaches out of the file");
  expect_error(with({32}, 0, UINT64_MAX - 31), ErrorCode::kCorrupt, "reaches out");
  expect_error(with({32}, 0, 100), ErrorCode::kCorrupt, "alignment");
  expect_error(with({65}, 0, 0), ErrorCode::kCorrupt, "reaches out");
  expect_error(with({INT64_MAX}, 0, 0), ErrorCode::kCorrupt, "larger than any file");
  expect_error(with({INT64_MAX, INT64_MAX, 2}, 0, 0), ErrorCode::kCorrupt, "larger than any file");
  expect_error(with({0}, 0, 0), ErrorCode::kCorrupt, "dimension of 0");
  expect_error(with({-1}, 0, 0), ErrorCode::kCorrupt, "dimension of");
  expect_error(with({1, 1, 1, 1, 1}, 0, 0), ErrorCode::kCorrupt, "5 dimensions");
  expect_error(with({2, 48}, test::kGgufQ8_0, 0), ErrorCode::kCorrupt, "whole number of blocks");
  expect_error(with({2, 128}, 14, 0), ErrorCode::kCorrupt, "whole number of blocks");
  expect_error(with({8, 32}, test::kGgufQ8_0, 0), ErrorCode::kCorrupt, "reaches out");  // 272 bytes.
  expect_error(with({32}, 77, 0), ErrorCode::kUnsupported, "\"bad\" has the unknown type 77");
  expect_error(with({256}, test::kGgufQ4_K, 0), ErrorCode::kUnsupported, "\"bad\" is Q4_K, which cannot be read");
  expect_error(with({32}, 26, 0), ErrorCode::kUnsupported, "\"bad\" is I32");
  expect_error(GgufWriter().tensor("t", {4}, 0, data).tensor("t", {4}, 0, data).finish(), ErrorCode::kCorrupt,
               "\"t\" is there twice");
}

TEST(Gguf, EveryCutIsAnErrorAndAnyByteMayBeWrong) {
  const std::string file = GgufWriter()
                               .u32("n", 7)
                               .texts("words", {"x", "yz"})
                               .tensor("a", {2, 32}, test::kGgufQ8_0, std::string(68, 'q'))
                               .tensor("b", {8}, 0, std::string(32, 'f'))
                               .finish();
  ASSERT_TRUE(GgufContent::parse(as_bytes(file), "m").ok());
  for (size_t size = 0; size < file.size(); ++size) {
    const std::string cut = file.substr(0, size);
    EXPECT_FALSE(GgufContent::parse(as_bytes(cut), "m").ok()) << size;
  }
  for (size_t i = 0; i < file.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x08, 0x7f, 0x80, 0xff}) {
      std::string broken = file;
      broken[i] = static_cast<char>(value);
      const auto content = GgufContent::parse(as_bytes(broken), "m");
      if (!content.ok()) continue;
      const auto* begin = reinterpret_cast<const uint8_t*>(broken.data());
      for (const GgufTensor& tensor : content->tensors()) {
        ASSERT_TRUE(tensor.bytes.data() >= begin && tensor.bytes.data() + tensor.bytes.size() <= begin + broken.size());
      }
    }
  }
}

}  // namespace gguf_test
}  // namespace tandem
