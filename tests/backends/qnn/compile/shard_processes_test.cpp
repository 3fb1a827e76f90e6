// Workers that end well, badly, or not at all. They are shell scripts here; resume_npu_test.cpp has the real one.
#include "backends/qnn/compile/shard_processes.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <fstream>

#include "backends/qnn/compile/npu_support.h"
#include "base/format.h"

namespace tandem {
namespace shard_processes_test {

class Workers : public testing::Test {
 protected:
  Workers() {
    ShardResult result;
    result.size = 1234;
    test::write_file(folder_ / "good.json", std::string_view(result.to_json()));
  }

  // `body` has $1 (the job), $2 (where the result goes) and $good (a result).
  Status run(const std::string& body, size_t tasks, WorkerOptions options = {}) {
    options.worker = test::write_script(folder_ / "worker", "good=" + (folder_ / "good.json").string() +
                                                                "\nfolder=" + folder_.path().string() + "\n" + body);
    options.folder = folder_.path();
    std::vector<WorkerTask> list(tasks);
    for (size_t i = 0; i < tasks; ++i) {
      list[i].job.shard.name = "layers." + std::to_string(i) + "-" + std::to_string(i);
      list[i].expected_memory = 100;
    }
    if (options.memory == 0) options.memory = 100 * tasks;
    return run_workers(list, options, [&](size_t task, const ShardResult& result) -> Status {
      EXPECT_EQ(result.size, 1234u);
      done_.push_back(task);
      return done_status_;
    });
  }
  std::string error_of(const std::string& body, size_t tasks = 1, WorkerOptions options = {}) {
    const Status status = run(body, tasks, std::move(options));
    EXPECT_FALSE(status.ok());
    if (status.ok()) return {};
    EXPECT_EQ(status.error().message.find('\n'), std::string::npos);
    return status.error().message;
  }

  const test::TempFolder folder_;
  std::vector<size_t> done_;
  Status done_status_;
};

constexpr const char* kGood = "cp \"$good\" \"$2\"\n";

TEST_F(Workers, LinesAreStagesOrMessagesForTheLog) {
  WorkerOptions options;
  std::vector<std::string> stages, messages;
  options.progress = [&](const std::string&, const std::string& stage) { stages.push_back(stage); };
  options.log = Log([&](LogLevel level, std::string_view message) {
    messages.push_back(str_format("{} {}", log_level_name(level), message));
  });
  const std::string said = log_line(LogLevel::kWarning, "two\nlines") + "\n" + log_line(LogLevel::kInfo, "too fine");
  ASSERT_TRUE(run("printf '%s\\n' lowering '" + said + "' finalizing\n" + kGood, 1, options).ok());
  EXPECT_EQ(stages, (std::vector<std::string>{"lowering", "finalizing"}));
  EXPECT_EQ(messages, std::vector<std::string>{"warning layers.0-0: two lines"});
}

TEST_F(Workers, EveryTaskIsFinishedOnce) {
  WorkerOptions options;
  options.jobs = 3;
  ASSERT_TRUE(run(kGood, 7, options).ok());
  std::ranges::sort(done_);
  EXPECT_EQ(done_, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6}));
  EXPECT_TRUE(run(kGood, 0).ok());
}

TEST_F(Workers, TellWhatTheyDo) {
  WorkerOptions options;
  std::vector<std::string> stages;
  options.progress = [&](const std::string& shard, const std::string& stage) { stages.push_back(shard + " " + stage); };
  ASSERT_TRUE(run("echo one; echo two; echo stray >&2\n" + std::string(kGood), 1, options).ok());
  EXPECT_EQ(stages, (std::vector<std::string>{"layers.0-0 one", "layers.0-0 two"}));
}

// With SIGCHLD ignored, as a parent may leave it: children cannot be waited for, so only their results count.
TEST_F(Workers, FinishWhereChildrenAreNotReported) {
  ::signal(SIGCHLD, SIG_IGN);
  EXPECT_TRUE(run(kGood, 3).ok());
  EXPECT_EQ(done_.size(), 3u);
  EXPECT_NE(error_of("exit 0\n").find("layers.0-0 cannot be waited for"), std::string::npos);
  ::signal(SIGCHLD, SIG_DFL);
}

// A folder that only one of them can create shows whether two ran at the same time.
constexpr const char* kAlone =
    "mkdir \"$folder/alone\" || exit 9\nsleep 0.1\nrmdir \"$folder/alone\"\ncp \"$good\" \"$2\"\n";

TEST_F(Workers, RunOneAtATimeIfTold) {
  WorkerOptions options;
  options.jobs = 1;
  EXPECT_TRUE(run(kAlone, 3, options).ok());
  options.jobs = 3;
  EXPECT_HAS(error_of(kAlone, 3, options), "was not compiled") << "the test would not notice";
}

TEST_F(Workers, RunOneAtATimeIfMemoryIsShort) {
  WorkerOptions options;
  options.jobs = 3;
  options.memory = 199;
  EXPECT_TRUE(run(kAlone, 3, options).ok());
  options.memory = 1;
  EXPECT_TRUE(run(kAlone, 2, options).ok()) << "one is always started";
}

TEST_F(Workers, ACrashNamesTheShardAndTheSignal) {
  std::string message = error_of("echo the last words >&2; kill -SEGV $$\n");
  EXPECT_HAS(message, "layers.0-0");
  EXPECT_HAS(message, "signal 11");
  EXPECT_HAS(message, "the last words");
  EXPECT_HAS(message, "what is finished is kept");
  message = error_of("kill -KILL $$\n");
  EXPECT_HAS(message, "signal 9");
  EXPECT_HAS(message, "memory");
}

TEST_F(Workers, AnErrorIsPassedOn) {
  EXPECT_HAS(error_of("echo 'there is no such layer' >&2; exit 1\n"), "layers.0-0 was not compiled: there is no such");
  EXPECT_HAS(error_of("exit 3\n"), "exit status 3");
  EXPECT_HAS(error_of("exit 0\n"), "layers.0-0") << "it ends well and leaves no result";
  const std::string message = error_of("echo '{\"size\": \"large\"}' > \"$2\"\n");
  EXPECT_HAS(message, "layers.0-0");
  EXPECT_HAS(message, "size");
}

// An old result must not be mistaken for that of a worker that made none.
TEST_F(Workers, AnOldResultDoesNotCount) {
  ASSERT_TRUE(run(kGood, 1).ok());
  EXPECT_HAS(error_of("exit 0\n"), "layers.0-0");
}

TEST_F(Workers, WhatRunsBesideAFailureIsWaitedFor) {
  WorkerOptions options;
  options.jobs = 2;
  const std::string message =
      error_of("case $1 in *shard000*) exit 1;; esac\nsleep 0.5\n" + std::string(kGood), 5, options);
  EXPECT_HAS(message, "layers.0-0");
  EXPECT_EQ(done_, std::vector<size_t>{1}) << "task 1 ran already; nothing more was started";
}

TEST_F(Workers, AnErrorOfTheCallerEndsIt) {
  done_status_ = Error{ErrorCode::kIo, "the disk is full"};
  WorkerOptions options;
  options.jobs = 1;
  EXPECT_HAS(error_of(kGood, 3, options), "the disk is full");
  EXPECT_EQ(done_.size(), 1u);
}

TEST_F(Workers, AStopEndsThemAtOnce) {
  WorkerOptions options;
  options.jobs = 2;
  const auto pids = [&] {
    std::vector<int> list;
    std::ifstream file(folder_ / "pids");
    for (int pid; file >> pid;) list.push_back(pid);
    return list;
  };
  options.stop = [&] { return pids().size() == 2; };
  const auto start = std::chrono::steady_clock::now();
  const Status status = run("echo $$ >> \"$folder/pids\"\nexec sleep 60\n", 3, options);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kCancelled);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  ASSERT_EQ(pids().size(), 2u);
  for (const int pid : pids()) EXPECT_FALSE(test::process_exists(pid));
}

// More than a pipe holds, and a line that never ends.
TEST_F(Workers, MayTalkALot) {
  WorkerOptions options;
  size_t lines = 0;
  options.progress = [&](const std::string&, const std::string&) { ++lines; };
  ASSERT_TRUE(run("seq 50000\nprintf 'without an end'\n" + std::string(kGood), 1, options).ok());
  EXPECT_EQ(lines, 50000u);
}

TEST_F(Workers, AProgramThatIsNone) {
  const auto absent = find_worker(folder_ / "absent");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kNotFound);
  EXPECT_HAS(absent.error().message, "absent");
  EXPECT_HAS(absent.error().message, "make build");
  test::write_file(folder_ / "text", "hello");
  std::filesystem::permissions(folder_ / "text", std::filesystem::perms::owner_read);
  EXPECT_FALSE(find_worker(folder_ / "text").ok());
  EXPECT_TRUE(find_worker(TANDEM_WORKER).ok());
  WorkerTask task;
  WorkerOptions options;
  options.worker = folder_ / "text";
  options.folder = folder_.path();
  const Status status = run_workers({task}, options, [](size_t, const ShardResult&) { return ok_status(); });
  ASSERT_FALSE(status.ok());
  EXPECT_HAS(status.error().message, "cannot be started");
}

}  // namespace shard_processes_test
}  // namespace tandem
