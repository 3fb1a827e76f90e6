// A model in the middle of a larger file, as in an app's package.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/json.h"
#include "support/compiled_model.h"
#include "support/in_child.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace file_region_test {

namespace fs = std::filesystem;
using test::TempFolder;

// tests/data/artifact/NAME.tdm inside a file, and what was computed with it.
class Package {
 public:
  Package(const char* name, size_t offset) : offset_(static_cast<int64_t>(offset)) {
    const fs::path data = TANDEM_SOURCE_DIR "/tests/data/artifact";
    const std::vector<uint8_t> model = test::read_file(data / (std::string(name) + ".tdm"));
    length_ = static_cast<int64_t>(model.size());
    std::vector<uint8_t> bytes(offset, 0x5a);
    bytes.insert(bytes.end(), model.begin(), model.end());
    bytes.insert(bytes.end(), 20000, 0xa5);
    test::write_file(path(), bytes);
    fd_ = ::open(path().c_str(), O_RDONLY | O_CLOEXEC);
    std::ifstream expected(data / (std::string(name) + ".json"));
    expected_ = Json::parse(expected);
  }
  ~Package() { ::close(fd_); }
  Package(const Package&) = delete;
  Package& operator=(const Package&) = delete;

  fs::path path() const { return folder_ / "package.apk"; }
  Result<std::shared_ptr<Engine>> load(int64_t shift = 0, int64_t more = 0, VerifyWeights verify = {}) const {
    return Engine::load(FileRegion{fd_, offset_ + shift, length_ + more}, {.threads = 2, .verify = verify});
  }
  std::vector<int32_t> prompt() const { return expected_["prompt"]; }
  std::vector<int32_t> greedy() const { return expected_["greedy"]; }

 private:
  TempFolder folder_;
  int64_t offset_ = 0, length_ = 0;
  int fd_ = -1;
  Json expected_;
};

TEST(FileRegion, AModelRunsAtAnyOffset) {
  for (const char* name : {"v1", "v1_mixed"}) {
    for (const size_t offset : {0, 64, 4096, 4160, 16384, 1, 4097, 30 + 13}) {
      const Package package(name, offset);
      for (const VerifyWeights verify : {VerifyWeights::kAtLoad, VerifyWeights::kNever}) {
        const auto engine = package.load(0, 0, verify);
        ASSERT_TRUE(engine.ok()) << offset << ": " << engine.error().message;
        EXPECT_EQ(test::greedy(*test::new_session(**engine), package.prompt(), 16), package.greedy()) << offset;
      }
    }
  }
}

TEST(FileRegion, WrongBordersAreErrors) {
  for (const size_t offset : {64, 1}) {
    const Package package("v1", offset);
    ASSERT_TRUE(package.load().ok());
    for (const auto& [shift, more] : std::vector<std::pair<int64_t, int64_t>>{
             {1, -1}, {-1, 1}, {64, -64}, {0, -1}, {0, -100000}, {0, -198328}, {0, 1}, {0, 20000}, {100000, -100000}}) {
      const auto engine = package.load(shift, more);
      ASSERT_FALSE(engine.ok()) << shift << ", " << more;
      EXPECT_EQ(engine.error().code, ErrorCode::kCorrupt) << engine.error().message;
      EXPECT_NE(engine.error().message.find("file descriptor"), std::string::npos) << engine.error().message;
    }
    EXPECT_EQ(package.load(0, 20001).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(FileRegion, APackageThatIsReplacedByARenameGoesOn) {
  const Package package("v1", 64);
  const auto engine = package.load();
  ASSERT_TRUE(engine.ok());
  test::write_file(package.path().parent_path() / "new", std::string_view("an update"));
  fs::rename(package.path().parent_path() / "new", package.path());
  EXPECT_EQ(test::greedy(*test::new_session(**engine), package.prompt(), 16), package.greedy());
}

// With the guard: an error, and no signal, whatever part is gone.
TEST(FileRegion, TruncatingThePackageWhileItIsInUseIsAnError) {
  for (const size_t offset : {64, 4160, 1}) {
    for (const int keep : {0, 4096, 100000}) {
      const std::string ended = test::in_child([&] {
        if (!guard_file_mappings().ok()) return 1;
        const Package package("v1", offset);
        const auto engine = package.load();
        if (!engine.ok()) return 2;
        const auto session = test::new_session(**engine);
        int pieces = 0;
        GenerateOptions options;
        options.ignore_eos = true;
        const auto result = session->generate(package.prompt(), options, [&](std::string_view) {
          if (++pieces == 2) fs::resize_file(package.path(), static_cast<uintmax_t>(keep));
          return true;
        });
        if (result.ok() || result.error().code != ErrorCode::kIo || pieces != 2) return 3;
        return session->generate(package.prompt(), options, {}).error().code == ErrorCode::kIo ? 0 : 4;
      });
      EXPECT_EQ(ended, "0") << "offset " << offset << ", " << keep << " bytes left";
    }
  }
}

}  // namespace file_region_test
}  // namespace tandem
