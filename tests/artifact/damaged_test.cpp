// Truncated and flipped files.
#include <gtest/gtest.h>

#include <fstream>

#include "artifact/sample_artifact.h"

namespace tandem {
namespace damaged_test {

namespace fs = std::filesystem;
using test::TempFolder;

// A file that is changed one byte at a time and put right again.
class Patched {
 public:
  explicit Patched(const fs::path& path) : path_(path), bytes_(test::read_file(path)) {}

  const std::vector<uint8_t>& bytes() const { return bytes_; }

  // Opens the file with one byte changed.
  Result<Artifact> open_with(size_t offset, uint8_t value) {
    put(offset, value);
    auto artifact = Artifact::open(path_);
    put(offset, bytes_[offset]);
    return artifact;
  }
  void put(size_t offset, uint8_t value) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(value));
  }

 private:
  fs::path path_;
  std::vector<uint8_t> bytes_;
};

class DamagedArtifact : public ::testing::Test {
 protected:
  const TempFolder folder_;
  const fs::path path_ = test::write_sample(folder_);
};

TEST_F(DamagedArtifact, TruncatedAnywhere) {
  const auto size = fs::file_size(path_);
  std::vector<uintmax_t> lengths;
  for (uintmax_t length = size - 1; length > size - 100; --length) lengths.push_back(length);
  for (uintmax_t length = size / 4096 * 4096; length > 64; length -= 4096) lengths.push_back(length);
  for (uintmax_t length = 65; length-- > 0;) lengths.push_back(length);
  for (const uintmax_t length : lengths) {
    fs::resize_file(path_, length);
    const auto artifact = Artifact::open(path_);
    ASSERT_FALSE(artifact.ok()) << length;
    EXPECT_EQ(artifact.error().code, ErrorCode::kCorrupt);
    EXPECT_NE(artifact.error().message.find("sample.tdm"), std::string::npos);
  }
  EXPECT_EQ(fs::file_size(path_), 0u);
}

TEST_F(DamagedArtifact, LongerThanItShouldBe) {
  fs::resize_file(path_, fs::file_size(path_) + 1);
  const auto artifact = Artifact::open(path_);
  ASSERT_FALSE(artifact.ok());
  EXPECT_NE(artifact.error().message.find("should have"), std::string::npos) << artifact.error().message;
}

TEST_F(DamagedArtifact, EveryBitOfThePreamble) {
  Patched file(path_);
  for (size_t offset = 0; offset < sizeof(Preamble); ++offset) {
    for (int bit = 0; bit < 8; ++bit) {
      const auto artifact = file.open_with(offset, static_cast<uint8_t>(file.bytes()[offset] ^ (1 << bit)));
      ASSERT_FALSE(artifact.ok()) << "byte " << offset << ", bit " << bit;
    }
  }
  EXPECT_TRUE(Artifact::open(path_).ok());
}

TEST_F(DamagedArtifact, EveryByteOfTheHeader) {
  Patched file(path_);
  Preamble preamble;
  std::memcpy(&preamble, file.bytes().data(), sizeof(preamble));
  ASSERT_EQ(preamble.header_offset + preamble.header_size, file.bytes().size());
  for (size_t i = preamble.header_offset; i < file.bytes().size(); ++i) {
    const int bit = static_cast<int>(i % 8);
    const auto artifact = file.open_with(i, static_cast<uint8_t>(file.bytes()[i] ^ (1 << bit)));
    ASSERT_FALSE(artifact.ok()) << "byte " << i;
    ASSERT_NE(artifact.error().message.find("the header is damaged"), std::string::npos) << artifact.error().message;
  }
  EXPECT_TRUE(Artifact::open(path_).ok());
}

// Opening does not read the weights; verify_segment() does.
TEST_F(DamagedArtifact, AByteOfASegment) {
  Patched file(path_);
  const auto whole = Artifact::open(path_);
  ASSERT_TRUE(whole.ok());
  const auto segments = whole->header().segments;
  for (size_t s = 0; s < segments.size(); ++s) {
    for (const uint64_t offset : {uint64_t{0}, segments[s].size / 2, segments[s].size - 1}) {
      const size_t at = segments[s].offset + offset;
      file.put(at, static_cast<uint8_t>(file.bytes()[at] ^ 0x10));
      const auto damaged = Artifact::open(path_);
      ASSERT_TRUE(damaged.ok());
      const Status status = damaged->verify_segment(s);
      file.put(at, file.bytes()[at]);
      ASSERT_FALSE(status.ok()) << "segment " << s << ", byte " << offset;
      EXPECT_EQ(status.error().code, ErrorCode::kCorrupt);
      EXPECT_NE(status.error().message.find(segments[s].name), std::string::npos) << status.error().message;
      EXPECT_TRUE(Artifact::open(path_)->verify_segment(s).ok());
    }
  }
}

// Headers whose checksum was recomputed after a byte changed: only decode_header() can refuse them.
// Whatever it accepts must be usable; the sanitizers watch.
TEST(DamagedHeader, AnyByteChangedIsAnErrorOrAValidHeader) {
  const auto whole = encode_header(test::placed_header());
  size_t refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    for (const int value : {0x00, 0xff, whole[i] ^ 0x80, whole[i] + 1, whole[i] + 4, whole[i] - 4}) {
      auto bytes = whole;
      bytes[i] = static_cast<uint8_t>(value);
      const auto header = decode_header(bytes, test::kPlacedEnd);
      if (!header.ok()) {
        ++refused;
        ASSERT_FALSE(header.error().message.empty());
        continue;
      }
      for (const Segment& s : header->segments) ASSERT_LE(s.offset + s.size, test::kPlacedEnd);
      for (const WeightEntry& w : header->weights) {
        for (const Range* range : {&w.data, &w.scales, &w.multipliers}) {
          if (range->size == 0) continue;
          ASSERT_LE(range->offset + range->size, header->segments.at(range->segment).size);
        }
      }
    }
  }
  EXPECT_GT(refused, whole.size());  // Most changes matter.
}

TEST(DamagedHeader, TruncatedAnywhere) {
  const auto whole = encode_header(test::placed_header());
  constexpr size_t kPadding = 8;  // The last bytes may mean nothing.
  for (size_t length = 0; length + kPadding <= whole.size(); ++length) {
    // A copy of its own, so that reading beyond the end is noticed.
    const std::vector<uint8_t> bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_FALSE(decode_header(bytes, test::kPlacedEnd).ok()) << length;
  }
}

}  // namespace damaged_test
}  // namespace tandem
