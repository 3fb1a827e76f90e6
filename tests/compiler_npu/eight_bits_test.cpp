// Every family in 8 bits, which all architectures can do: here on V79, and on V68, which can do nothing less, in a
// process of its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler_npu/npu_support.h"

extern char** environ;

namespace tandem {
namespace {

using test::TempFolder;

constexpr const char* kTargetVariable = "TANDEM_NPU_TEST_TARGET";
// The lowest here are 33.7 and 32.0 dB (smollm3, four layers of random weights); a miscompile leaves less than 10. V68
// multiplies 16-bit activations by weights with an error of 16 to 26 steps, later architectures of one.
constexpr double kDeviceNoise = 32.0;
constexpr double kNoiseOnV68 = 30.0;

class EightBits : public testing::TestWithParam<const char*> {};

TEST_P(EightBits, ComputeOnTheEmulatorWhatTheReferenceDoes) {
  TANDEM_NEEDS_QNN();
  const char* family = GetParam();
  const char* const target = std::getenv(kTargetVariable);
  const TempFolder folder;
  CompileOptions options = test::npu_options("w8");
  if (target != nullptr) options.target = target;
  test::must_compile(test::golden_dir(family), folder / "x.tdm", options);
  const auto prompt = test::golden_prompt(family);
  const auto qdq = test::phase_logits(folder / "x.tdm", test::golden_dir(family), Phase::kQdq, prompt);
  const double db = test::sqnr_db(qdq, test::device_logits(folder / "x.tdm", prompt));
  std::printf("[ sqnr     ] %s on %s: %.1f dB\n", family, options.target.c_str(), db);
  EXPECT_GE(db, target == nullptr ? kDeviceNoise : kNoiseOnV68);
}

INSTANTIATE_TEST_SUITE_P(Emulator, EightBits, testing::ValuesIn(test::kGoldenFamilies),
                         [](const auto& test) { return std::string(test.param); });

TEST(EightBitsOnV68, InAProcessOfItsOwn) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  const std::string log = (folder / "log.txt").string();
  posix_spawn_file_actions_t actions;
  ASSERT_EQ(::posix_spawn_file_actions_init(&actions), 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_CREAT | O_WRONLY, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::string program = "/proc/self/exe", filter = "--gtest_filter=Emulator/EightBits.*";
  char* const arguments[] = {program.data(), filter.data(), nullptr};
  ::setenv(kTargetVariable, "sm8350", 1);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::unsetenv(kTargetVariable);
  ::posix_spawn_file_actions_destroy(&actions);
  ASSERT_EQ(failed, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const auto bytes = test::read_file(log);
  const std::string text(bytes.begin(), bytes.end());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  EXPECT_EQ(text.find("SKIPPED"), std::string::npos) << text;
  EXPECT_HAS(text, "on sm8350: ");
  for (size_t at = 0; (at = text.find("[ sqnr     ]", at)) != std::string::npos; ++at) {
    std::printf("%s\n", text.substr(at, text.find('\n', at) - at).c_str());
  }
}

}  // namespace
}  // namespace tandem
