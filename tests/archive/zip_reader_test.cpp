#include "archive/zip_reader.h"

#include <gtest/gtest.h>

#include "support/torch_writer.h"

namespace tandem {
namespace zip_reader_test {

using test::ZipWriter;

std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

void expect_error(const std::string& file, ErrorCode code, std::string_view says) {
  const auto members = read_zip(as_bytes(file), "f.pth");
  ASSERT_FALSE(members.ok()) << says;
  EXPECT_EQ(members.error().code, code) << members.error().message;
  EXPECT_NE(members.error().message.find(says), std::string::npos) << members.error().message;
  EXPECT_TRUE(members.error().message.starts_with("f.pth: ")) << members.error().message;
}

ZipWriter example() {
  ZipWriter zip;
  zip.members = {{"a/data.pkl", "pickle"}, {"a/data/0", std::string(100, 'x')}, {"a/empty", ""}};
  return zip;
}

TEST(Zip, ReadsStoredMembersInPlace) {
  for (const bool zip64 : {false, true}) {
    for (const char* comment : {"", "PK\5\6 a comment that looks like an end, but is none"}) {
      ZipWriter zip = example();
      zip.zip64 = zip64;
      zip.comment = comment;
      const std::string file = zip.finish();
      const auto members = read_zip(as_bytes(file), "f.pth");
      ASSERT_TRUE(members.ok()) << members.error().message;
      ASSERT_EQ(members->size(), 3u);
      const auto data = members->at("a/data/0");
      EXPECT_EQ(std::string(data.begin(), data.end()), std::string(100, 'x'));
      const auto* begin = reinterpret_cast<const uint8_t*>(file.data());
      EXPECT_TRUE(data.data() > begin && data.data() < begin + file.size()) << "copied";
      EXPECT_EQ((data.data() - begin) % 64, 0);
      EXPECT_TRUE(members->at("a/empty").empty());
    }
  }
  EXPECT_TRUE(looks_like_zip(as_bytes(example().finish())));
  EXPECT_FALSE(looks_like_zip(as_bytes("PK")));
}

TEST(Zip, EveryTruncationIsAnError) {
  for (const bool zip64 : {false, true}) {
    ZipWriter zip = example();
    zip.zip64 = zip64;
    const std::string file = zip.finish();
    for (size_t size = 0; size < file.size(); ++size) {
      const std::string cut = file.substr(0, size);
      EXPECT_FALSE(read_zip(as_bytes(cut), "f").ok()) << size;
    }
  }
}

// A member's bytes must be inside the file whatever the sizes and offsets say.
TEST(Zip, SurvivesAnyWrongByte) {
  for (const bool zip64 : {false, true}) {
    ZipWriter zip = example();
    zip.zip64 = zip64;
    const std::string file = zip.finish();
    for (size_t i = 0; i < file.size(); ++i) {
      for (const int value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
        std::string broken = file;
        broken[i] = static_cast<char>(value);
        const auto members = read_zip(as_bytes(broken), "f");
        if (!members.ok()) continue;
        for (const auto& [name, data] : *members) {
          const auto* begin = reinterpret_cast<const uint8_t*>(broken.data());
          ASSERT_TRUE(data.data() >= begin && data.data() + data.size() <= begin + broken.size()) << i;
        }
      }
    }
  }
}

TEST(Zip, WhatIsNotSupportedIsRefusedByName) {
  ZipWriter zip = example();
  zip.members[1].method = 8;
  expect_error(zip.finish(), ErrorCode::kUnsupported, "\"a/data/0\" is compressed (method 8)");
  zip = example();
  zip.members[1].flags = 1;
  expect_error(zip.finish(), ErrorCode::kUnsupported, "\"a/data/0\" is encrypted");
  zip = example();
  zip.members[2].name = "a/data/0";
  expect_error(zip.finish(), ErrorCode::kCorrupt, "\"a/data/0\" is there twice");
  expect_error("", ErrorCode::kCorrupt, "no end");
  std::string file = example().finish();
  file[file.size() - 22 + 4] = 1;  // The number of this volume.
  expect_error(file, ErrorCode::kUnsupported, "volumes");
  file = example().finish();
  file[file.size() - 22 + 10] = 9;
  file[file.size() - 22 + 8] = 9;
  expect_error(file, ErrorCode::kCorrupt, "damaged");
}

}  // namespace zip_reader_test
}  // namespace tandem
