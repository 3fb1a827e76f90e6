// atomic_file.h and mapped_file.h on real folders.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "base/atomic_file.h"
#include "base/file_status.h"
#include "base/mapped_file.h"
#include "base/output_path.h"
#include "support/temp_folder.h"

namespace tandem {
namespace files_test {

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

// A link where a temporary file might be written must not lead to somebody else's file.
TEST(AtomicFile, NeverWritesThroughALink) {
  const TempFolder folder;
  write_file(folder / "victim", std::string_view("precious"));
  fs::create_symlink(folder / "victim", folder / "out.partial");
  ASSERT_TRUE(write_file_atomically(folder / "out", "new").ok());
  EXPECT_EQ(text_of(folder / "out"), "new");
  EXPECT_EQ(text_of(folder / "victim"), "precious");
  EXPECT_TRUE(fs::is_symlink(folder / "out.partial"));
}

TEST(AtomicFile, ALinkAtThePathIsRefusedOrReplacedButNeverFollowed) {
  const TempFolder folder;
  write_file(folder / "victim", std::string_view("precious"));
  for (const char* target : {"victim", "absent"}) {
    SCOPED_TRACE(target);
    fs::create_symlink(folder / target, folder / "link");
    const auto refused = AtomicFile::create(folder / "link");
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    {
      auto file = AtomicFile::create(folder / "link", {.replace_link = true});
      ASSERT_TRUE(file.ok()) << file.error().message;
      ASSERT_TRUE(file->write(std::string_view("new")).ok());
      ASSERT_TRUE(file->commit().ok());
    }
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(folder / "link")));
    EXPECT_EQ(text_of(folder / "victim"), "precious");
    EXPECT_FALSE(fs::exists(folder / "absent"));
    fs::remove(folder / "link");
  }
}

TEST(AtomicFile, TemporaryNamesDifferAndAreKnown) {
  const TempFolder folder;
  std::set<std::string> names;
  const std::string name(250, 'x');  // Nearly as long as a name can be.
  std::vector<AtomicFile> files;
  for (int i = 0; i < 3; ++i) {
    auto file = AtomicFile::create(folder / name);
    ASSERT_TRUE(file.ok()) << file.error().message;
    files.push_back(std::move(file).value());
  }
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.insert(entry.path().filename().string());
    EXPECT_TRUE(is_temporary_name_of(entry.path().filename().string(), name)) << entry.path();
  }
  EXPECT_EQ(names.size(), 3u);
  EXPECT_TRUE(is_temporary_name_of("a.0123456789abcdef.partial", "a"));
  for (const char* other : {"a.partial", "a.0123456789abcdeg.partial", "b.0123456789abcdef.partial", "a",
                            "a.0123456789abcdef.partial2", "a.0123456789abcdef0.partial", ""}) {
    EXPECT_FALSE(is_temporary_name_of(other, "a")) << other;
  }
}

TEST(AtomicFile, AFileThatAppearsMeanwhileStays) {
  const TempFolder folder;
  auto file = AtomicFile::create(folder / "out");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->write(std::string_view("ours")).ok());
  write_file(folder / "out", std::string_view("theirs"));
  const Status status = file->commit();
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message.find("meanwhile"), std::string::npos) << status.error().message;
  EXPECT_EQ(text_of(folder / "out"), "theirs");
  EXPECT_EQ(folder.entries(), 1u);
}

TEST(AtomicFile, KeepsThePermissionsOfTheFileThatItReplaces) {
  const TempFolder folder;
  write_file(folder / "out", std::string_view("secret"));
  ASSERT_EQ(::chmod((folder / "out").c_str(), 0600), 0);
  ASSERT_TRUE(write_file_atomically(folder / "out", "new").ok());
  struct stat info {};
  ASSERT_EQ(::stat((folder / "out").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(AtomicFile, TheTemporaryFileMayBeElsewhere) {
  const TempFolder folder;
  fs::create_directory(folder / "work");
  auto file = AtomicFile::create(folder / "out", {.temporary_folder = folder / "work"});
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(folder.entries(), 1u);
  ASSERT_TRUE(file->write(std::string_view("text")).ok());
  ASSERT_TRUE(file->commit().ok());
  EXPECT_EQ(text_of(folder / "out"), "text");
  EXPECT_TRUE(fs::is_empty(folder / "work"));
}

TEST(AtomicFile, MovingTransfersTheFile) {
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

TEST(AtomicFile, ReportsWhatIsWrong) {
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

  // A folder that appears meanwhile: renaming fails, and the temporary file is removed.
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

// ---- Output paths ----

TEST(OutputPath, MayBeAbsentEmptyOrOfTheKind) {
  const TempFolder folder;
  const OutputRules rules{.may_replace = [](const fs::path& path) { return text_of(path) == "ours"; }};
  EXPECT_TRUE(check_output_path(folder / "absent", rules).ok());
  write_file(folder / "empty", std::string_view());
  EXPECT_TRUE(check_output_path(folder / "empty", rules).ok());
  write_file(folder / "ours", std::string_view("ours"));
  EXPECT_TRUE(check_output_path(folder / "ours", rules).ok());
  EXPECT_TRUE(check_output_path("a-bare-name", rules).ok());
}

TEST(OutputPath, RefusesWhatWouldBeLost) {
  const TempFolder folder;
  const auto message = [&](const fs::path& path, const OutputRules& rules) {
    const Status status = check_output_path(path, rules);
    return status.ok() ? std::string() : status.error().message;
  };
  write_file(folder / "theirs", std::string_view("theirs"));
  OutputRules rules{.kind = "a compiled file", .advice = "; `force` replaces it"};
  EXPECT_NE(message(folder / "theirs", rules).find("is not a compiled file; choose another name; `force`"),
            std::string::npos);
  fs::create_symlink("theirs", folder / "link");
  EXPECT_NE(message(folder / "link", rules).find("link to theirs"), std::string::npos);
  fs::create_symlink("nowhere", folder / "dangling");
  EXPECT_NE(message(folder / "dangling", rules).find("link to nowhere"), std::string::npos);
  rules.force = true;
  EXPECT_EQ(message(folder / "theirs", rules), "");
  EXPECT_EQ(message(folder / "link", rules), "");

  // Force does not replace what is not a file.
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(message(folder / "pipe", rules).find("pipe"), std::string::npos);
  for (const fs::path& path : {fs::path("/dev/null"), fs::path("/dev/full"), folder.path(), folder / "", fs::path()}) {
    EXPECT_NE(message(path, rules), "") << path;
  }
  EXPECT_NE(message(folder / "absent/out", rules).find("does not exist"), std::string::npos);
  EXPECT_NE(message(folder / "theirs/out", rules), "");
}

TEST(OutputPath, RefusesAnInputUnderAnyName) {
  const TempFolder folder;
  write_file(folder / "in", std::string_view("data"));
  fs::create_symlink("in", folder / "link");
  fs::create_hard_link(folder / "in", folder / "hard");
  fs::create_directory(folder / "sub");
  const std::vector<fs::path> inputs = {folder / "absent", folder / "in"};
  const OutputRules rules{.inputs = inputs, .may_replace = [](const fs::path&) { return true; }, .force = true};
  for (const char* name : {"in", "link", "hard", "sub/../in"}) {
    const Status status = check_output_path(folder / name, rules);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_NE(status.error().message.find("files that are read"), std::string::npos) << status.error().message;
  }
  EXPECT_TRUE(check_output_path(folder / "out", rules).ok());
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

TEST(MappedFile, RefusesWhatIsNotAFile) {
  const TempFolder folder;
  const auto missing = MappedFile::open(folder / "missing");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find("missing"), std::string::npos);

  write_file(folder / "in", std::string_view("x"));
  for (const fs::path& path : {fs::path(), fs::path((folder / "in").string() + std::string("\0.txt", 5))}) {
    const auto nameless = MappedFile::open(path);
    ASSERT_FALSE(nameless.ok());
    EXPECT_EQ(nameless.error().code, ErrorCode::kInvalidArgument) << nameless.error().message;
  }

  const auto directory = MappedFile::open(folder.path());
  ASSERT_FALSE(directory.ok());
  EXPECT_EQ(directory.error().code, ErrorCode::kInvalidArgument);

  // Must not block until somebody writes to it.
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
  file->release(file->bytes().subspan(5, 10));  // Less than a page: nothing to release.
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

// ---- regular_file_exists ----

TEST(RegularFileExists, DistinguishesAbsenceFromFailure) {
  const TempFolder folder;
  write_file(folder / "file", std::string_view("x"));
  fs::create_symlink(folder / "file", folder / "link");
  fs::create_symlink(folder / "absent", folder / "dangling");
  fs::create_symlink(folder / "loop", folder / "loop");
  EXPECT_TRUE(*regular_file_exists(folder / "file"));
  EXPECT_TRUE(*regular_file_exists(folder / "link"));
  for (const char* name : {"absent", "dangling", "file/below", "."}) {
    EXPECT_FALSE(*regular_file_exists(folder / name)) << name;
  }
  const auto unknown = regular_file_exists(folder / "loop");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("loop: cannot be accessed"), std::string::npos) << unknown.error().message;
}

}  // namespace files_test
}  // namespace tandem
