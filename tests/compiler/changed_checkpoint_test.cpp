// Checkpoints that change while they are compiled: no file is written, and the error names what changed.
#include <gtest/gtest.h>

#include <thread>

#include "support/compiled_model.h"
#include "support/edit_checkpoint.h"
#include "support/in_child.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace changed_checkpoint_test {

namespace fs = std::filesystem;
using test::TempFolder;

constexpr const char* kSentence = "was changed or truncated while it was in use";

// Calls `change` after this many progress reports.
Result<CompileReport> compile_while(const TempFolder& folder, int calls, const std::function<void()>& change) {
  CompileOptions options = test::to_options({.checkpoint = {}, .recipe = "w4"});
  int seen = 0;
  options.progress = [&](const Progress&) {
    if (++seen == calls) change();
  };
  return compile(folder / "qwen3", folder / "out.tdm", options);
}

TEST(ChangedCheckpoint, IsRefusedAtEveryStage) {
  const auto wanted = test::read_file(test::compiled({.checkpoint = test::golden_dir("qwen3")}));
  int refused = 0;
  for (const uintmax_t size : {uintmax_t{0}, uintmax_t{20000}}) {
    for (int calls = 1; calls <= 8; ++calls) {
      const TempFolder folder;
      test::copy_checkpoint(test::golden_dir("qwen3"), folder / "qwen3");
      const fs::path weights = folder / "qwen3" / "model.safetensors";
      const auto report = compile_while(folder, calls, [&] { fs::resize_file(weights, size); });
      if (report.ok()) continue;  // All of it had been read.
      ++refused;
      EXPECT_EQ(report.error().code, ErrorCode::kIo);
      EXPECT_NE(report.error().message.find(kSentence), std::string::npos) << report.error().message;
      EXPECT_NE(report.error().message.find("model.safetensors"), std::string::npos);
      EXPECT_FALSE(fs::exists(folder / "out.tdm"));
      // Once restored, it compiles to the same bytes as before.
      fs::remove_all(folder / "qwen3");
      test::copy_checkpoint(test::golden_dir("qwen3"), folder / "qwen3");
      ASSERT_TRUE(compile_while(folder, 0, {}).ok());
      EXPECT_EQ(test::read_file(folder / "out.tdm"), wanted);
    }
  }
  EXPECT_GE(refused, 6);
}

TEST(ChangedCheckpoint, OverwritingInPlaceIsRefused) {
  const TempFolder folder;
  test::copy_checkpoint(test::golden_dir("qwen3"), folder / "qwen3");
  const fs::path weights = folder / "qwen3" / "model.safetensors";
  const auto report = compile_while(
      folder, 2, [&] { fs::last_write_time(weights, fs::last_write_time(weights) + std::chrono::seconds(1)); });
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.error().message.find(kSentence), std::string::npos) << report.error().message;
}

TEST(ChangedCheckpoint, ARenameOverItIsHarmless) {
  const TempFolder folder;
  test::copy_checkpoint(test::golden_dir("qwen3"), folder / "qwen3");
  const fs::path weights = folder / "qwen3" / "model.safetensors";
  const auto report = compile_while(folder, 2, [&] {
    test::write_file(folder / "new", "something else");
    fs::rename(folder / "new", weights);
  });
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_EQ(test::read_file(folder / "out.tdm"),
            test::read_file(test::compiled({.checkpoint = test::golden_dir("qwen3")})));
}

// At any moment, from another thread: a whole file or the error message, never a crash.
TEST(ChangedCheckpoint, TruncatedAtAnyMomentWithTheGuard) {
  const auto wanted = test::read_file(test::compiled({.checkpoint = test::golden_dir("qwen3")}));
  EXPECT_EQ(test::in_child([&] {
              if (!guard_file_mappings().ok()) return 1;
              int refused = 0;
              for (int round = 0; round < 30; ++round) {
                const TempFolder folder;
                test::copy_checkpoint(test::golden_dir("qwen3"), folder / "qwen3");
                std::thread other([&] {
                  ::usleep(static_cast<useconds_t>(400 * round));
                  fs::resize_file(folder / "qwen3" / "model.safetensors", 0);
                });
                const auto report = compile_while(folder, 0, {});
                other.join();
                if (report.ok() ? test::read_file(folder / "out.tdm") != wanted : fs::exists(folder / "out.tdm")) {
                  return 2;
                }
                refused += !report.ok();
              }
              return refused > 0 ? 0 : 3;
            }),
            "0");
}

}  // namespace changed_checkpoint_test
}  // namespace tandem
