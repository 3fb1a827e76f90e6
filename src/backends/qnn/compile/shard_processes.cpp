#include "backends/qnn/compile/shard_processes.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <thread>

#include "backends/interface/method_memory.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "compiler/work_folder.h"

extern char** environ;

namespace tandem {
namespace {

constexpr const char* kWorkerName = "tandem-qnn-worker";
constexpr int kPollMilliseconds = 100;
constexpr uint64_t kResultLimit = uint64_t{16} << 20;
constexpr size_t kLogTail = 400;

// Our end of a worker's output, closed when it goes.
class Pipe {
 public:
  Status open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return io_error("no pipe to a worker ({})", std::strerror(errno));
    read_ = ends[0];
    write_ = ends[1];
    // Otherwise a silent worker could not be stopped.
    if (::fcntl(read_, F_SETFL, O_NONBLOCK) != 0) return io_error("no pipe to a worker ({})", std::strerror(errno));
    return ok_status();
  }
  ~Pipe() {
    if (read_ >= 0) ::close(read_);
    close_write();
  }
  Pipe() = default;
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_write() {
    if (write_ >= 0) ::close(write_);
    write_ = -1;
  }
  int read_end() const { return read_; }
  int write_end() const { return write_; }

 private:
  int read_ = -1;
  int write_ = -1;
};

// A worker's file descriptors. The first error is kept: a worker started despite it would write to our own output.
class SpawnActions {
 public:
  SpawnActions() = default;
  ~SpawnActions() {
    if (is_open_) ::posix_spawn_file_actions_destroy(&actions_);
  }
  SpawnActions(const SpawnActions&) = delete;
  SpawnActions& operator=(const SpawnActions&) = delete;

  void open(int descriptor, const char* path, int flags) {
    if (error_ == 0) error_ = ::posix_spawn_file_actions_addopen(&actions_, descriptor, path, flags, 0644);
  }
  void copy(int from, int to) {
    if (error_ == 0) error_ = ::posix_spawn_file_actions_adddup2(&actions_, from, to);
  }
  // 0, or the error's number.
  int spawn(pid_t* child, const char* program, const char* const* arguments) const {
    if (error_ != 0) return error_;
    return ::posix_spawn(child, program, &actions_, nullptr, const_cast<char* const*>(arguments), environ);
  }

 private:
  posix_spawn_file_actions_t actions_;
  int error_ = ::posix_spawn_file_actions_init(&actions_);
  const bool is_open_ = error_ == 0;
};

struct Process {
  size_t task = 0;
  pid_t pid = -1;
  Pipe output;
  std::string line;
  uint64_t memory = 0;
};

std::string tail_of(const std::filesystem::path& path) {
  auto text = read_text_file(path, kResultLimit);
  if (!text.ok() || text->empty()) return {};
  std::string tail = text->size() > kLogTail ? text->substr(text->size() - kLogTail) : *text;
  while (!tail.empty() && tail.back() == '\n') tail.pop_back();
  for (char& c : tail) c = c == '\n' ? ' ' : c;
  return tail;
}

class Pool {
 public:
  Pool(const std::vector<WorkerTask>& tasks, const WorkerOptions& options,
       const std::function<Status(size_t, const ShardResult&)>& done)
      : tasks_(tasks), options_(options), done_(done) {}
  ~Pool() { kill_all(); }

  Status run() {
    size_t next = 0;
    while (next < tasks_.size() || !running_.empty()) {
      if (options_.stop && options_.stop()) {
        kill_all();
        return cancelled("stopped; the same command goes on where it was");
      }
      while (next < tasks_.size() && failure_.ok() && has_room(tasks_[next])) {
        Status started = start(next);
        if (!started.ok()) failure_ = std::move(started);
        ++next;
      }
      if (running_.empty()) break;
      listen();
      reap();
    }
    return failure_;
  }

 private:
  std::filesystem::path file_of(size_t task, const char* suffix) const {
    return WorkFolder::shard_job_path(options_.folder, task, suffix);
  }

  bool has_room(const WorkerTask& task) const {
    if (running_.empty()) return true;
    uint64_t used = task.expected_memory;
    for (const auto& process : running_) used += process->memory;
    return static_cast<int>(running_.size()) < options_.jobs && used <= options_.memory;
  }

  Status start(size_t task) {
    TANDEM_TRY(write_file_atomically(file_of(task, ".job.json"), tasks_[task].job.to_json()));
    std::error_code ignored;
    std::filesystem::remove(file_of(task, ".result.json"), ignored);
    std::filesystem::remove(file_of(task, ".log"), ignored);
    auto process = std::make_unique<Process>();
    process->task = task;
    process->memory = tasks_[task].expected_memory;
    TANDEM_TRY(process->output.open());
    const std::string log = file_of(task, ".log").string();
    SpawnActions actions;
    // Stages come through the pipe; all other output goes to a log.
    actions.open(STDIN_FILENO, "/dev/null", O_RDONLY);
    actions.copy(process->output.write_end(), STDOUT_FILENO);
    actions.open(STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW);
    const std::string program = options_.worker.string(), job = file_of(task, ".job.json").string(),
                      result = file_of(task, ".result.json").string();
    const char* const arguments[] = {program.c_str(), job.c_str(), result.c_str(), nullptr};
    const int error = actions.spawn(&process->pid, program.c_str(), arguments);
    if (error != 0) return io_error("{} cannot be started ({})", program, std::strerror(error));
    process->output.close_write();
    running_.push_back(std::move(process));
    return ok_status();
  }

  void listen() {
    std::vector<pollfd> polled;
    for (const auto& process : running_) polled.push_back({process->output.read_end(), POLLIN, 0});
    // If polling fails it must not spin; available output is read in any case.
    if (::poll(polled.data(), polled.size(), kPollMilliseconds) < 0) ::usleep(1000);
    for (const auto& process : running_) read_lines(*process);
  }

  void read_lines(Process& process) {
    char buffer[4096];
    ssize_t count = 0;
    while ((count = ::read(process.output.read_end(), buffer, sizeof(buffer))) > 0) {
      for (const char c : std::string_view(buffer, static_cast<size_t>(count))) {
        if (c != '\n') {
          process.line += c;
          continue;
        }
        handle_line(tasks_[process.task].name(), process.line);
        process.line.clear();
      }
    }
    // A worker that has closed its output is about to end: do not spin until it has.
    if (count == 0) ::usleep(1000);
  }

  void handle_line(const std::string& shard, const std::string& line) const {
    if (const auto message = parse_log_line(line)) {
      options_.log.write(message->level, shard + ": " + std::string(message->message));
    } else if (options_.progress) {
      options_.progress(shard, line);
    }
  }

  void reap() {
    for (size_t i = 0; i < running_.size();) {
      int status = 0;
      const pid_t ended = ::waitpid(running_[i]->pid, &status, WNOHANG);
      if (ended == 0 || (ended < 0 && errno == EINTR)) {
        ++i;
        continue;
      }
      const int error = ended < 0 ? errno : 0;
      const size_t task = running_[i]->task;
      running_.erase(running_.begin() + static_cast<int64_t>(i));
      Status finished = error == 0 ? finish(task, status) : lost(task, error);
      if (!finished.ok() && failure_.ok()) failure_ = std::move(finished);
    }
  }

  // Its exit status may be unknown, for instance if our parent ignores SIGCHLD. A result is written last and whole.
  Status lost(size_t task, int error) {
    if (read_text_file(file_of(task, ".result.json"), kResultLimit).ok()) return finish(task, 0);
    return internal_error(
        "the process that compiled the shard {} cannot be waited for ({}); run the same command again",
        tasks_[task].name(), std::strerror(error));
  }

  Status finish(size_t task, int status) {
    const std::string& shard = tasks_[task].name();
    if (WIFSIGNALED(status)) {
      const std::string said = tail_of(file_of(task, ".log"));
      return internal_error(
          "the process that compiled the shard {} was ended by signal {} ({}){}; what is finished is kept: run the "
          "same command again, with more `shards` if memory was short{}{}",
          shard, WTERMSIG(status), ::strsignal(WTERMSIG(status)),
          WTERMSIG(status) == SIGKILL ? ", perhaps for want of memory" : ", most likely inside QNN's library",
          said.empty() ? "" : "; it said: ", said);
    }
    auto text = read_text_file(file_of(task, ".result.json"), kResultLimit);
    if (!text.ok() || WEXITSTATUS(status) != 0) {
      const std::string said = tail_of(file_of(task, ".log"));
      Error error = internal_error("the shard {} was not compiled: {}", shard,
                                   said.empty() ? str_format("exit status {}", WEXITSTATUS(status)) : said);
      if (WEXITSTATUS(status) == kWorkerRefused) error.code = ErrorCode::kCorrupt;
      return error;
    }
    auto result = ShardResult::from_json(*text);
    if (!result.ok()) return with_context(std::move(result).error(), "the result of the shard {}", shard);
    return done_(task, *result);
  }

  void kill_all() {
    for (const auto& process : running_) ::kill(process->pid, SIGKILL);
    for (const auto& process : running_) {
      int status = 0;
      while (::waitpid(process->pid, &status, 0) < 0 && errno == EINTR) {
      }
    }
    running_.clear();
  }

  const std::vector<WorkerTask>& tasks_;
  const WorkerOptions& options_;
  const std::function<Status(size_t, const ShardResult&)>& done_;
  std::vector<std::unique_ptr<Process>> running_;
  Status failure_;
};

}  // namespace

Status run_workers(const std::vector<WorkerTask>& tasks, const WorkerOptions& options,
                   const std::function<Status(size_t task, const ShardResult& result)>& done) {
  return Pool(tasks, options, done).run();
}

Status run_longest_first(const std::vector<WorkerTask>& tasks, const WorkerOptions& options,
                         const std::function<Status(size_t task, const ShardResult& result)>& done) {
  std::vector<size_t> order(tasks.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater<>(), [&](size_t i) { return tasks[i].expected_memory; });
  std::vector<WorkerTask> sorted;
  for (const size_t i : order) sorted.push_back(tasks[i]);
  return run_workers(sorted, options,
                     [&](size_t task, const ShardResult& result) { return done(order[task], result); });
}

Status run_tasks(std::vector<WorkerTask> tasks, const NpuOptions& npu, const CompileOptions& compile,
                 WorkerOptions options, const std::function<Status(size_t task, const ShardResult& result)>& done) {
  options.stop = compile.stop;
  options.log = compile.log;
  options.memory = npu.memory != 0 ? npu.memory : std::min(kDefaultNpuMemory, machine_memory() / 10 * 8);
  const int cores =
      compile.threads > 0 ? compile.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  options.jobs = npu.jobs > 0 ? npu.jobs : cores;
  const int at_a_time = std::max(1, std::min(options.jobs, static_cast<int>(tasks.size())));
  for (WorkerTask& task : tasks) {
    task.job.threads = std::max(1, cores / at_a_time);
    task.job.log_level = compile.log.finest();
  }
  return run_longest_first(tasks, options, done);
}

Result<std::filesystem::path> find_worker(const std::filesystem::path& given) {
  std::error_code error;
  std::filesystem::path path = given;
  if (path.empty()) {
    path = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / kWorkerName;
    // An app may be anywhere; the worker is then installed together with the library.
    Dl_info library = {};
    if (::access(path.c_str(), X_OK) != 0 && ::dladdr(kWorkerName, &library) != 0 && library.dli_fname != nullptr) {
      // lib/, or one below it for this processor alone, as on Debian.
      const std::filesystem::path folder = std::filesystem::path(library.dli_fname).parent_path();
      for (const char* programs : {"../bin", "../../bin"}) {
        const auto installed = folder / programs / kWorkerName;
        if (::access(installed.c_str(), X_OK) == 0) return installed.lexically_normal();
      }
    }
  }
  if (::access(path.c_str(), X_OK) == 0) return path;
  return not_found(
      "{} is not there, and NPU targets need it; install {} or build it (make build does), or give its path as the "
      "back-end option qnn-worker",
      path.string(), kWorkerName);
}

}  // namespace tandem
