// Devices. A process works for one architecture, so the others are tested by starting this program again.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "qnn_api/qnn_support.h"
#include "support/temp_folder.h"

extern char** environ;

namespace tandem::qnn {
namespace {

using test::says;

struct Target {
  const char* name;
  const char* soc;
};

class QnnArchitectures : public ::testing::TestWithParam<Target> {};

TEST_P(QnnArchitectures, DeviceOpsAndBinariesInAProcessOfItsOwn) {
  TANDEM_NEEDS_QNN();
  const tandem::test::TempFolder folder;
  const std::string log = (folder / "log.txt").string();
  posix_spawn_file_actions_t actions;
  ASSERT_EQ(::posix_spawn_file_actions_init(&actions), 0);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_CREAT | O_WRONLY, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::string program = "/proc/self/exe";
  std::string filter = "--gtest_filter=QnnOps*:*QnnLinear*:QnnGraph*";
  std::array<char*, 3> arguments = {program.data(), filter.data(), nullptr};
  ::setenv(test::kSocVariable, GetParam().soc, 1);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  ::unsetenv(test::kSocVariable);
  ::posix_spawn_file_actions_destroy(&actions);
  ASSERT_EQ(failed, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  const auto bytes = tandem::test::read_file(log);
  const std::string text(bytes.begin(), bytes.end());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << text;
  EXPECT_EQ(text.find("SKIPPED"), std::string::npos) << text;
  EXPECT_NE(text.find("[ measured ] " + std::string(GetParam().name)), std::string::npos) << text;
  for (size_t at = 0; (at = text.find("[ measured ]", at)) != std::string::npos; ++at) {
    std::printf("%s\n", text.substr(at, text.find('\n', at) - at).c_str());
  }
}

// V79 is what the tests of this process work for.
INSTANTIATE_TEST_SUITE_P(All, QnnArchitectures,
                         ::testing::Values(Target{"V73", "43"}, Target{"V75", "57"}, Target{"V81", "87"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(QnnDevice, MistakesAreRefused) {
  TANDEM_NEEDS_QNN();
  ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  const auto& device = test::qnn_device().value();
  const auto create = [&](const DeviceOptions& options) { return Device::create(device->backend(), options); };
  EXPECT_TRUE(says(create({}).error(), {"told which SoC"}));
  EXPECT_TRUE(says(create({.soc_model = 69, .arch = 77}).error(), {"does not know", "V77"}));
  EXPECT_TRUE(says(create({.soc_model = 69, .arch = 73}).error(), {"has the architecture V79, not V73"}));
  EXPECT_TRUE(says(create({.soc_model = 69, .arch = 79, .vtcm_mb = 0}).error(), {"VTCM"}));
  const uint32_t other = device->arch() == 73 ? 57 : 43;
  EXPECT_TRUE(says(create({.soc_model = other, .arch = known_arch(other)}).error(), {"use another process"}));
  EXPECT_TRUE(says(create({.soc_model = 4000, .arch = device->arch()}).error(), {"does not know this SoC"}));
  EXPECT_TRUE(create({.soc_model = test::test_soc(), .arch = device->arch()}).ok());
}

TEST(QnnDevice, ManyCyclesDoNotGrow) {
  TANDEM_NEEDS_QNN();
  ASSERT_TRUE(test::qnn_device().ok()) << test::qnn_device().error().message;
  for (int i = 0; i < 50; ++i) {
    auto context = Context::create(test::qnn_device().value(), {});
    ASSERT_TRUE(context.ok()) << context.error().message;
  }
}

TEST(QnnDevice, ObjectsMayBeDroppedInAnyOrder) {
  TANDEM_NEEDS_QNN();
  std::shared_ptr<const Context> context;
  std::shared_ptr<Graph> graph;
  {
    auto backend = Backend::create(test::qnn_library().value());
    ASSERT_TRUE(backend.ok()) << backend.error().message;
    auto device = Device::create(*backend, {.soc_model = test::test_soc(), .arch = known_arch(test::test_soc())});
    ASSERT_TRUE(device.ok()) << device.error().message;
    auto created = Context::create(*device, {});
    ASSERT_TRUE(created.ok()) << created.error().message;
    auto built = Graph::create(*created, "graph");
    ASSERT_TRUE(built.ok()) << built.error().message;
    context = *created;
    graph = *built;
  }
  context.reset();
  const auto x = graph->add_tensor(make_input("x", DataType::kFixedU8, {8}, ScaleOffset{1, 0}));
  EXPECT_TRUE(x.ok()) << x.error().message;
}

}  // namespace
}  // namespace tandem::qnn
