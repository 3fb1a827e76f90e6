// atomic_file.h and mapped_file.h on real folders.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "support/temp_folder.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using test::read_file;
using test::TempFolder;
using test::write_file;

std::string text_of(const fs::path& path) {
  const auto bytes = read_file(path);
  return {bytes.begin(), bytes.end()};
}

std::string text_of(const MappedFile& file) { return {file.bytes().begin(), file.bytes().end()}; }

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// ---- AtomicFile ----

TEST(AtomicFile, AppearsOnlyWhenCommitted) {
  const TempFolder folder;
  const fs::path path = folder / "out";
  auto file = AtomicFile::create(path);
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_TRUE(file->write(std::string_view("hello ")).ok());
  ASSERT_TRUE(file->write(std::string_view("world")).ok());
  EXPECT_EQ(file->size(), 11u);
  EXPECT_FALSE(fs::exists(path));
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(text_of(path), "hello world");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, WithoutCommitNothingIsLeftAndTheOldFileStays) {
  const TempFolder folder;
  const fs::path path = folder / "out";
  write_file(path, std::string_view("old"));
  {
    auto file = AtomicFile::create(path);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->write(std::string_view("new")).ok());
    EXPECT_EQ(folder.entries(), 2u);
  }
  EXPECT_EQ(text_of(path), "old");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, ReplacesWhatACrashLeft) {
  const TempFolder folder;
  const fs::path path = folder / "out";
  write_file(folder / "out.partial", std::string_view("a long leftover of an earlier run"));
  auto file = AtomicFile::create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write(std::string_view("new")).ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(text_of(path), "new");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, MovingTakesTheFileAlong) {
  const TempFolder folder;
  auto file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file.ok());
  {
    AtomicFile moved = std::move(file).value();
    ASSERT_TRUE(moved.write(std::string_view("text")).ok());
    ASSERT_TRUE(moved.commit().ok());
  }
  EXPECT_EQ(text_of(folder / "out"), "text");
}

TEST(AtomicFile, WritesInAnyOrder) {
  const TempFolder folder;
  auto file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->set_size(6).ok());
  ASSERT_TRUE(file->write_at(4, bytes_of("ef")).ok());
  ASSERT_TRUE(file->write_at(0, bytes_of("ab")).ok());
  EXPECT_FALSE(file->write_at(5, bytes_of("xx")).ok());
  EXPECT_FALSE(file->write_at(UINT64_MAX, bytes_of("xx")).ok());
  EXPECT_EQ(file->size(), 6u);
  ASSERT_TRUE(file->write(std::string_view("g")).ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(text_of(folder / "out"), std::string("ab\0\0efg", 7));
}

TEST(AtomicFile, AlignsWithZeros) {
  const TempFolder folder;
  auto file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->align(16384).ok());
  EXPECT_EQ(file->size(), 0u);
  ASSERT_TRUE(file->write(std::string_view("x")).ok());
  ASSERT_TRUE(file->align(16384).ok());
  EXPECT_EQ(file->size(), 16384u);
  ASSERT_TRUE(file->align(16384).ok());
  EXPECT_EQ(file->size(), 16384u);
  ASSERT_TRUE(file->commit().ok());
  const auto bytes = read_file(folder / "out");
  ASSERT_EQ(bytes.size(), 16384u);
  EXPECT_EQ(bytes[0], 'x');
  EXPECT_EQ(std::count(bytes.begin() + 1, bytes.end(), 0), 16383);
}

TEST(AtomicFile, SaysWhatIsWrong) {
  const TempFolder folder;
  const auto nowhere = AtomicFile::create(folder / "absent/out");
  ASSERT_FALSE(nowhere.ok());
  EXPECT_EQ(nowhere.error().code, ErrorCode::kIo);
  EXPECT_NE(nowhere.error().message.find("absent/out"), std::string::npos) << nowhere.error().message;

  // Folders and devices are not replaced.
  for (const fs::path& path : {folder.path(), fs::path("/dev/null")}) {
    const auto refused = AtomicFile::create(path);
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(refused.error().message.find(path.string()), std::string::npos) << refused.error().message;
  }

  // A folder that appears meanwhile: renaming fails, and the temporary file goes away.
  auto file = AtomicFile::create(folder / "taken");
  ASSERT_TRUE(file.ok());
  fs::create_directories(folder / "taken/inside");
  const Status status = file->commit();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_EQ(folder.entries(), 1u);
  EXPECT_FALSE(file->commit().ok());
  EXPECT_FALSE(file->write(std::string_view("late")).ok());
}

TEST(AtomicFile, WriteFileAtomically) {
  const TempFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "out", "one").ok());
  ASSERT_TRUE(write_file_atomically(folder / "out", "two").ok());
  EXPECT_EQ(text_of(folder / "out"), "two");
  EXPECT_FALSE(write_file_atomically(folder / "absent/out", "x").ok());
}

// ---- MappedFile ----

TEST(MappedFile, ShowsTheBytes) {
  const TempFolder folder;
  write_file(folder / "in", std::string_view("some bytes"));
  const auto file = MappedFile::open(folder / "in");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(text_of(*file), "some bytes");
  EXPECT_EQ(file->path(), folder / "in");
}

TEST(MappedFile, AnEmptyFileIsAnEmptySpan) {
  const TempFolder folder;
  write_file(folder / "in", std::string_view());
  const auto file = MappedFile::open(folder / "in");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_TRUE(file->bytes().empty());
  file->release(file->bytes());
}

TEST(MappedFile, MovesAndAssigns) {
  const TempFolder folder;
  write_file(folder / "a", std::string_view("first"));
  write_file(folder / "b", std::string_view("second"));
  auto a = MappedFile::open(folder / "a");
  auto b = MappedFile::open(folder / "b");
  ASSERT_TRUE(a.ok() && b.ok());
  *a = std::move(b).value();
  EXPECT_EQ(text_of(*a), "second");
  MappedFile moved = std::move(a).value();
  EXPECT_EQ(text_of(moved), "second");
}

TEST(MappedFile, RefusesWhatIsNoFile) {
  const TempFolder folder;
  const auto missing = MappedFile::open(folder / "missing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("missing"), std::string::npos);

  const auto directory = MappedFile::open(folder.path());
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code, ErrorCode::kInvalidArgument);

  // Must not wait for somebody to write into it.
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  const auto pipe = MappedFile::open(folder / "pipe");
  ASSERT_FALSE(pipe.ok());
  EXPECT_EQ(pipe.error().code, ErrorCode::kInvalidArgument);

  write_file(folder / "in", std::string_view("x"));
  const auto below = MappedFile::open(folder / "in/below");
  ASSERT_FALSE(below.ok());
  EXPECT_EQ(below.error().code, ErrorCode::kIo);
}

TEST(MappedFile, ReleasedPagesComeBack) {
  const TempFolder folder;
  std::string content;
  for (int i = 0; i < 100'000; ++i) content += static_cast<char>(i * 31);
  write_file(folder / "in", content);
  const auto file = MappedFile::open(folder / "in");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(text_of(*file), content);
  file->release(file->bytes().subspan(5, 90'000));
  file->release(file->bytes().subspan(5, 10));  // Less than a page: nothing to let go of.
  EXPECT_EQ(text_of(*file), content);
}

TEST(ReadTextFile, UpToALimit) {
  const TempFolder folder;
  write_file(folder / "in", std::string_view("12345"));
  const auto whole = read_text_file(folder / "in", 5);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(*whole, "12345");
  const auto too_long = read_text_file(folder / "in", 4);
  ASSERT_FALSE(too_long.ok());
  EXPECT_EQ(too_long.error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(read_text_file(folder / "missing", 5).ok());
}

}  // namespace
}  // namespace tandem
