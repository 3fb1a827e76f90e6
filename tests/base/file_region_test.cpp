// Parts of files, as MappedFile opens them.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "base/mapped_file.h"
#include "support/temp_folder.h"

namespace tandem {
namespace file_region_test {

namespace fs = std::filesystem;
using test::TempFolder;
using test::write_file;

// Closed at the end of the test.
struct Opened {
  explicit Opened(const fs::path& path, int flags = O_RDONLY) : fd(::open(path.c_str(), flags | O_CLOEXEC)) {}
  ~Opened() { ::close(fd); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int fd;
};

// Bytes that say where they are.
std::string numbered(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31 + (i >> 8) * 7) & 0xff);
  return bytes;
}

std::string text_of(const MappedFile& file) { return {file.bytes().begin(), file.bytes().end()}; }

Status refused(const FileRegion& region) { return MappedFile::open(region).status(); }

TEST(FileRegion, ShowsTheBytesAtAnyOffset) {
  const TempFolder folder;
  const std::string whole = numbered(40000);
  write_file(folder / "file", whole);
  const Opened file(folder / "file");
  for (const int64_t offset : {0, 1, 63, 64, 65, 4032, 4095, 4096, 4097, 8192 + 64, 16384, 39936, 39999}) {
    for (const int64_t length : {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{100}, 40000 - offset}) {
      if (offset + length > 40000) continue;
      const auto region = MappedFile::open({file.fd, offset, length});
      ASSERT_TRUE(region.ok()) << region.error().message;
      EXPECT_EQ(text_of(*region), whole.substr(static_cast<size_t>(offset), static_cast<size_t>(length)));
      EXPECT_EQ(region->is_copy(), offset % 64 != 0);
      EXPECT_TRUE(region->check().ok());
      // What code that reads mapped numbers relies on.
      EXPECT_EQ(reinterpret_cast<uintptr_t>(region->bytes().data()) % 64, 0u);
    }
  }
  const auto end = MappedFile::open({file.fd, 40000, -1});
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->bytes().empty());
}

TEST(FileRegion, ReleasedPagesComeBackAndCopiesKeepThem) {
  const TempFolder folder;
  const std::string whole = numbered(40000);
  write_file(folder / "file", whole);
  const Opened file(folder / "file");
  for (const int64_t offset : {64, 65}) {
    const auto region = MappedFile::open({file.fd, offset, 30000});
    ASSERT_TRUE(region.ok());
    region->release(region->bytes());
    EXPECT_EQ(text_of(*region), whole.substr(static_cast<size_t>(offset), 30000));
  }
}

TEST(FileRegion, NeedsTheCallersDescriptorOnlyDuringTheCall) {
  const TempFolder folder;
  const std::string whole = numbered(10000);
  write_file(folder / "file", whole);
  auto file = std::make_unique<Opened>(folder / "file");
  auto mapped = MappedFile::open({file->fd, 128, -1});
  auto copied = MappedFile::open({file->fd, 129, -1});
  ASSERT_TRUE(mapped.ok() && copied.ok());
  const off_t position = ::lseek(file->fd, 0, SEEK_CUR);
  EXPECT_EQ(position, 0) << "reading must not move the caller's position";
  file.reset();
  MappedFile moved = std::move(*mapped);
  *mapped = std::move(*copied);
  EXPECT_EQ(text_of(moved), whole.substr(128));
  EXPECT_EQ(text_of(*mapped), whole.substr(129));
  EXPECT_FALSE(moved.is_copy());
  EXPECT_TRUE(mapped->is_copy());
  EXPECT_TRUE(moved.check().ok() && mapped->check().ok());
}

TEST(FileRegion, RefusesWhatIsNotInsideTheFile) {
  const TempFolder folder;
  write_file(folder / "file", numbered(1000));
  const Opened file(folder / "file");
  for (const auto& [offset, length] : std::vector<std::pair<int64_t, int64_t>>{{-1, -1},
                                                                               {-64, 64},
                                                                               {1001, -1},
                                                                               {1001, 0},
                                                                               {1000, 1},
                                                                               {0, 1001},
                                                                               {64, 937},
                                                                               {0, -2},
                                                                               {0, INT64_MIN},
                                                                               {0, INT64_MAX},
                                                                               {INT64_MIN, -1},
                                                                               {INT64_MIN, INT64_MIN},
                                                                               {INT64_MAX, -1},
                                                                               {INT64_MAX, INT64_MAX}}) {
    const Status status = refused({file.fd, offset, length});
    ASSERT_FALSE(status.ok()) << offset << ", " << length;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(status.error().message.find("which has 1000 bytes"), std::string::npos) << status.error().message;
  }
}

TEST(FileRegion, RefusesWhatIsNotARegularFileOpenForReading) {
  const TempFolder folder;
  write_file(folder / "file", numbered(1000));
  const auto code = [](int fd, int64_t offset = 0) { return refused({fd, offset, -1}).error().code; };
  int closed = -1;
  { closed = Opened(folder / "file").fd; }
  EXPECT_EQ(code(-1), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(-100), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(closed), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(1 << 30), ErrorCode::kInvalidArgument);
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_EQ(code(ends[0]), ErrorCode::kInvalidArgument);
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(code(Opened(folder.path()).fd), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(Opened("/dev/zero").fd), ErrorCode::kInvalidArgument);
  const Opened for_writing(folder / "file", O_WRONLY);
  EXPECT_EQ(code(for_writing.fd), ErrorCode::kIo);
  EXPECT_EQ(code(for_writing.fd, 1), ErrorCode::kIo);
  // A file in memory is a regular one.
  const int memory = ::memfd_create("region", MFD_CLOEXEC);
  ASSERT_EQ(::write(memory, "abc", 3), 3);
  const auto region = MappedFile::open({memory, 1, -1});
  ::close(memory);
  ASSERT_TRUE(region.ok()) << region.error().message;
  EXPECT_EQ(text_of(*region), "bc");
}

// A change anywhere in the file counts: a package that is written to is no longer the one that was opened.
TEST(FileRegion, NoticesChanges) {
  for (const int64_t offset : {64, 65}) {
    const TempFolder folder;
    write_file(folder / "file", numbered(100000));
    const Opened file(folder / "file");
    const auto region = MappedFile::open({file.fd, offset, 1000});
    ASSERT_TRUE(region.ok());
    fs::resize_file(folder / "file", 50000);
    ASSERT_FALSE(region->check().ok());
    EXPECT_EQ(region->check().error().code, ErrorCode::kIo);
    EXPECT_NE(region->check().error().message.find("file descriptor"), std::string::npos);
  }
}

}  // namespace file_region_test
}  // namespace tandem
