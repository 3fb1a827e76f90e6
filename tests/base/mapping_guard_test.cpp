// Files that change or shrink while they are mapped. Tests that install a signal handler, or may end the process, run
// in a process of their own.
#include "tandem/mapping_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <deque>
#include <thread>

#include "base/mapped_file.h"
#include "support/in_child.h"
#include "support/temp_folder.h"

namespace tandem {
namespace mapping_guard_test {

namespace fs = std::filesystem;
using test::in_child;
using test::TempFolder;
using test::write_file;

const std::string kBusError = "signal " + std::to_string(SIGBUS);
constexpr size_t kSize = 1 << 20;

fs::path make_file(const TempFolder& folder, const char* name = "in") {
  write_file(folder / name, std::string(kSize, 'x'));
  return folder / name;
}

MappedFile map(const fs::path& path) {
  auto file = MappedFile::open(path);
  EXPECT_TRUE(file.ok()) << file.error().message;
  return std::move(file).value();
}

int read_byte(const MappedFile& file, size_t at) { return *const_cast<volatile const uint8_t*>(&file.bytes()[at]); }

void expect_changed(const MappedFile& file) {
  const Status status = file.check();
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kIo);
  EXPECT_NE(status.error().message.find("was changed or truncated while it was in use"), std::string::npos)
      << status.error().message;
  EXPECT_NE(status.error().message.find(file.path().string()), std::string::npos);
}

TEST(MappedFileCheck, NoticesEveryChangeOfTheFile) {
  const TempFolder folder;
  const fs::path path = make_file(folder);
  {
    const MappedFile file = map(path);
    EXPECT_TRUE(file.check().ok());
    fs::resize_file(path, kSize - 1);
    expect_changed(file);
  }
  make_file(folder);
  {
    const MappedFile file = map(path);
    fs::resize_file(path, kSize + 1);
    expect_changed(file);
  }
  make_file(folder);
  {
    const MappedFile file = map(path);
    make_file(folder);  // The same size; the clock has a coarse resolution, so the time is set by hand.
    fs::last_write_time(path, fs::last_write_time(path) + std::chrono::seconds(1));
    expect_changed(file);
  }
  MappedFile file = map(path);
  const MappedFile moved = std::move(file);
  EXPECT_TRUE(moved.check().ok());
  fs::resize_file(path, 0);
  expect_changed(moved);
  // An empty file can change too.
  const MappedFile empty = map(path);
  EXPECT_TRUE(empty.check().ok());
  fs::resize_file(path, 1);
  expect_changed(empty);
}

TEST(MappedFileCheck, ARenameOverTheFileIsHarmless) {
  const TempFolder folder;
  const fs::path path = make_file(folder);
  const MappedFile file = map(path);
  write_file(folder / "new", "short");
  fs::rename(folder / "new", path);
  EXPECT_TRUE(file.check().ok());
  EXPECT_EQ(read_byte(file, kSize - 1), 'x');
  fs::remove(path);
  EXPECT_TRUE(file.check().ok());
  EXPECT_EQ(read_byte(file, 0), 'x');
}

// What the guard is for.
TEST(MappingGuard, WithoutItATruncatedFileEndsTheProcess) {
  const TempFolder folder;
  const MappedFile file = map(make_file(folder));
  fs::resize_file(file.path(), 4096);
  EXPECT_EQ(in_child([&] {
              ::signal(SIGBUS, SIG_DFL);  // A sanitizer has a handler of its own.
              return read_byte(file, kSize / 2);
            }),
            kBusError);
}

TEST(MappingGuard, TruncatedPartsReadAsZerosAndTheCheckFails) {
  const TempFolder folder;
  const fs::path path = make_file(folder);
  EXPECT_EQ(in_child([&] {
              const MappedFile before = map(path);  // Mapped before there is a guard.
              if (!guard_file_mappings().ok() || !guard_file_mappings().ok()) return 1;
              const MappedFile file = map(path), other = map(make_file(folder, "other"));
              fs::resize_file(path, 4096);
              for (const MappedFile* mapped : {&file, &before}) {
                if (read_byte(*mapped, kSize / 2) != 0 || read_byte(*mapped, kSize - 1) != 0) return 2;
                if (read_byte(*mapped, 5000) != 0 || read_byte(*mapped, 0) != 'x') return 3;
                mapped->release(mapped->bytes());
                if (read_byte(*mapped, 5000) != 0 || mapped->check().ok()) return 4;
              }
              // Even if the file looks as before; other files are not affected.
              make_file(folder);
              if (file.check().ok() || !other.check().ok() || read_byte(other, kSize - 1) != 'x') return 5;
              const MappedFile again = map(path);
              return again.check().ok() && read_byte(again, kSize - 1) == 'x' ? 0 : 6;
            }),
            "0");
}

TEST(MappingGuard, ManyThreadsMayReadPastTheEnd) {
  const TempFolder folder;
  const fs::path path = make_file(folder);
  EXPECT_EQ(in_child([&] {
              if (!guard_file_mappings().ok()) return 1;
              for (int round = 0; round < 20; ++round) {
                make_file(folder);
                const MappedFile file = map(path);
                std::atomic<int> sum = 0;
                std::vector<std::thread> threads;
                for (int t = 0; t < 4; ++t) {
                  threads.emplace_back([&] {
                    for (int pass = 0; pass < 3; ++pass) {
                      for (size_t at = 0; at < kSize; at += 512) sum += read_byte(file, at);
                    }
                  });
                }
                fs::resize_file(path, static_cast<uintmax_t>(round) * 4096);
                for (std::thread& thread : threads) thread.join();
                if (file.check().ok()) return 2;
              }
              return 0;
            }),
            "0");
}

// ---- What is not ours is handled as before ----

// A mapping unknown to tandem, of a truncated file.
volatile uint8_t* foreign_mapping(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  void* data = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  fs::resize_file(path, 0);
  return static_cast<uint8_t*>(data);
}

TEST(MappingGuard, OtherMappingsEndTheProcessAsBefore) {
  const TempFolder folder;
  const fs::path path = make_file(folder);
  EXPECT_EQ(in_child([&] {
              const MappedFile file = map(make_file(folder, "ours"));
              ::signal(SIGBUS, SIG_DFL);
              if (!guard_file_mappings().ok()) return 1;
              return int{foreign_mapping(path)[100]};
            }),
            kBusError);
}

TEST(MappingGuard, OtherHandlersAreCalledAsBefore) {
  const TempFolder folder;
  EXPECT_EQ(in_child([&] {
              struct sigaction action {};
              action.sa_flags = SA_SIGINFO;
              action.sa_sigaction = [](int number, siginfo_t* info, void* context) {
                ::_exit(number == SIGBUS && info->si_addr != nullptr && context != nullptr ? 42 : 1);
              };
              ::sigaction(SIGBUS, &action, nullptr);
              if (!guard_file_mappings().ok()) return 2;
              return int{foreign_mapping(make_file(folder))[100]};
            }),
            "42");
  EXPECT_EQ(in_child([&] {
              ::signal(SIGBUS, [](int number) { ::_exit(number == SIGBUS ? 43 : 1); });
              if (!guard_file_mappings().ok()) return 2;
              return int{foreign_mapping(make_file(folder))[100]};
            }),
            "43");
  // Our own mappings are still handled after such a handler.
  EXPECT_EQ(in_child([&] {
              ::signal(SIGBUS, [](int) { ::_exit(1); });
              if (!guard_file_mappings().ok()) return 2;
              const MappedFile file = map(make_file(folder));
              fs::resize_file(file.path(), 0);
              return read_byte(file, 100);
            }),
            "0");
}

TEST(MappingGuard, SignalsThatAreSentAreTreatedAsBefore) {
  const auto sent = [](void (*handler)(int)) {
    return in_child([&] {
      ::signal(SIGBUS, handler);
      if (!guard_file_mappings().ok()) return 2;
      ::kill(::getpid(), SIGBUS);
      return 0;
    });
  };
  EXPECT_EQ(sent(SIG_DFL), kBusError);
  EXPECT_EQ(sent(SIG_IGN), "0");
  EXPECT_EQ(sent([](int) { ::_exit(44); }), "44");
}

TEST(MappingGuard, AFullTableOnlyLeavesFilesUnguarded) {
  const TempFolder folder;
  const fs::path path = make_file(folder);
  EXPECT_EQ(in_child([&] {
              if (!guard_file_mappings().ok()) return 1;
              std::deque<MappingRecord> records;
              for (uintptr_t i = 0; i < 2000; ++i) records.emplace_back(reinterpret_cast<void*>(4096 * (i + 1)), 1);
              {
                const MappedFile unguarded = map(path);
                fs::resize_file(path, 0);
                if (unguarded.check().ok() || records.back().has_faulted()) return 2;
              }
              records.clear();
              make_file(folder);
              const MappedFile file = map(path);
              fs::resize_file(path, 0);
              return read_byte(file, 100) == 0 && !file.check().ok() ? 0 : 3;
            }),
            "0");
}

// ---- read_text_file ----

TEST(ReadTextFile, ReadsAndNeverMaps) {
  const TempFolder folder;
  EXPECT_EQ(read_text_file(make_file(folder), kSize)->size(), kSize);
  EXPECT_FALSE(read_text_file(folder / "in", kSize - 1).ok());
  EXPECT_EQ(read_text_file(folder / "missing", kSize).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_text_file(folder.path(), kSize).error().code, ErrorCode::kInvalidArgument);
  write_file(folder / "empty", "");
  EXPECT_EQ(*read_text_file(folder / "empty", 0), "");
}

}  // namespace mapping_guard_test
}  // namespace tandem
