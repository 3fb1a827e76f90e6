// A process works for one architecture; these tests start this program again for others.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "backends/qnn/execute/program.h"
#include "backends/qnn/execute/tiny_model.h"

extern char** environ;

namespace tandem::qnn {
namespace other_chips_test {

using ::tandem::test::TempFolder;

constexpr const char* kFileVariable = "TANDEM_QNN_TEST_FILE";

// Runs the tests that `filter` names in a separate process, with a variable set; returns what they printed.
std::string run_again(std::string filter, const char* variable, const std::string& value, int* status) {
  const TempFolder folder;
  const std::string log = (folder / "log.txt").string();
  posix_spawn_file_actions_t actions;
  EXPECT_EQ(::posix_spawn_file_actions_init(&actions), 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_CREAT | O_WRONLY, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::string program = "/proc/self/exe";
  filter = "--gtest_filter=" + filter;
  std::string all = "--gtest_also_run_disabled_tests";
  std::array<char*, 4> arguments = {program.data(), filter.data(), all.data(), nullptr};
  ::setenv(variable, value.c_str(), 1);
  pid_t child = -1;
  EXPECT_EQ(::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ), 0);
  ::unsetenv(variable);
  ::posix_spawn_file_actions_destroy(&actions);
  EXPECT_EQ(::waitpid(child, status, 0), child);
  const auto bytes = ::tandem::test::read_file(log);
  return {bytes.begin(), bytes.end()};
}

struct Chip {
  const char* name;
  const char* soc;
};

class OtherChips : public ::testing::TestWithParam<Chip> {};

TEST_P(OtherChips, RunTheSameShards) {
  TANDEM_NEEDS_QNN();
  int status = 0;
  const std::string text = run_again("QnnProgramTest.*", test::kSocVariable, GetParam().soc, &status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  EXPECT_EQ(text.find("SKIPPED"), std::string::npos) << text;
  EXPECT_NE(text.find("[ measured ]"), std::string::npos) << text;
}

INSTANTIATE_TEST_SUITE_P(All, OtherChips, ::testing::Values(Chip{"V73", "43"}, Chip{"V75", "57"}, Chip{"V81", "87"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(WrongChip, ABinaryOfAnotherArchitectureIsNotGivenToTheLibrary) {
  TANDEM_NEEDS_QNN();
  const TempFolder folder;
  // The emulator would load it with rc 0.
  const auto artifact = test::tiny_artifact(folder, {[](ArtifactHeader& header) {
                                                       header.device.soc_model = 43;
                                                       header.device.arch = 73;
                                                     },
                                                     {}});
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  int status = 0;
  const std::string text = run_again("WrongChip.DISABLED_Child", kFileVariable, artifact->path().string(), &status);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  EXPECT_NE(text.find("[  PASSED  ] 1 test."), std::string::npos) << text;
  EXPECT_NE(text.find("the binary of shard \"first\" was compiled for V79 and the file says V73"), std::string::npos)
      << text;
}

// Started by the test above, in a process that has had no device yet.
TEST(WrongChip, DISABLED_Child) {
  const char* const path = std::getenv(kFileVariable);
  ASSERT_NE(path, nullptr);
  const auto artifact = Artifact::open(path);
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  ThreadPool pool(1);
  const auto program = load_program(*artifact, pool, test::tiny_options());
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().code, ErrorCode::kCorrupt);
  std::printf("%s\n", program.error().message.c_str());
}

}  // namespace other_chips_test
}  // namespace tandem::qnn
