#include "deploy/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/error.h"

extern char** environ;

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMilliseconds = 20;
constexpr int kGraceMilliseconds = 1000;  // Between asking a program to end and ending it.
constexpr size_t kOutputLimit = size_t{16} << 20;

// One of a program's outputs.
class OutputPipe {
 public:
  OutputPipe() = default;
  ~OutputPipe() {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  OutputPipe(const OutputPipe&) = delete;
  OutputPipe& operator=(const OutputPipe&) = delete;

  Status open() {
    if (::pipe2(ends_, O_CLOEXEC) != 0 || ::fcntl(ends_[0], F_SETFL, O_NONBLOCK) != 0) {
      return io_error("no pipe to another program ({})", std::strerror(errno));
    }
    return ok_status();
  }
  void close_write_end() {
    ::close(ends_[1]);
    ends_[1] = -1;
  }
  int read_end() const { return is_open_ ? ends_[0] : -1; }
  int write_end() const { return ends_[1]; }

  // What is there now.
  void read_to(std::string& text) {
    char buffer[16384];
    ssize_t count = 0;
    while (is_open_ && (count = ::read(ends_[0], buffer, sizeof(buffer))) > 0) {
      text.append(buffer, std::min(static_cast<size_t>(count), kOutputLimit - std::min(kOutputLimit, text.size())));
    }
    if (count == 0) is_open_ = false;
  }

 private:
  int ends_[2] = {-1, -1};
  bool is_open_ = true;
};

// Our own handlers and ignored signals are not for the program.
class SpawnAttributes {
 public:
  SpawnAttributes() {
    if (error_ != 0) return;
    sigset_t all, none;
    sigfillset(&all);
    sigemptyset(&none);
    for (const int status :
         {::posix_spawnattr_setsigdefault(&attributes_, &all), ::posix_spawnattr_setsigmask(&attributes_, &none),
          ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK)}) {
      if (error_ == 0) error_ = status;
    }
  }
  ~SpawnAttributes() {
    if (is_made_) ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;

  int error() const { return error_; }
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
  int error_ = ::posix_spawnattr_init(&attributes_);
  const bool is_made_ = error_ == 0;
};

class ChildFiles {
 public:
  ~ChildFiles() {
    if (is_made_) ::posix_spawn_file_actions_destroy(&actions_);
  }
  ChildFiles() = default;
  ChildFiles(const ChildFiles&) = delete;
  ChildFiles& operator=(const ChildFiles&) = delete;

  void set(const OutputPipe& output, const OutputPipe& errors) {
    if (error_ == 0) error_ = ::posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (error_ == 0) error_ = ::posix_spawn_file_actions_adddup2(&actions_, output.write_end(), STDOUT_FILENO);
    if (error_ == 0) error_ = ::posix_spawn_file_actions_adddup2(&actions_, errors.write_end(), STDERR_FILENO);
  }
  int error() const { return error_; }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
  int error_ = ::posix_spawn_file_actions_init(&actions_);
  const bool is_made_ = error_ == 0;
};

class RunningProcess {
 public:
  ~RunningProcess() { end(); }
  RunningProcess() = default;
  RunningProcess(const RunningProcess&) = delete;
  RunningProcess& operator=(const RunningProcess&) = delete;

  Status start(const std::string& program, const std::vector<std::string>& arguments) {
    TANDEM_TRY(output_.open());
    TANDEM_TRY(errors_.open());
    std::vector<const char*> texts = {program.c_str()};
    for (const std::string& argument : arguments) texts.push_back(argument.c_str());
    texts.push_back(nullptr);
    ChildFiles files;
    files.set(output_, errors_);
    const SpawnAttributes attributes;
    int error = files.error() != 0 ? files.error() : attributes.error();
    if (error == 0) {
      error = ::posix_spawn(&pid_, program.c_str(), files.get(), attributes.get(),
                            const_cast<char* const*>(texts.data()), environ);
    }
    if (error != 0) {
      pid_ = -1;
      return io_error("{} cannot be started ({})", program, std::strerror(error));
    }
    output_.close_write_end();
    errors_.close_write_end();
    return ok_status();
  }

  // Waits a little for output or the end. A program may leave another one behind that keeps the pipes open, as adb does
  // with its server: the end of the program counts, not the end of the pipes.
  bool step(ProcessResult& result) {
    pollfd polled[] = {{output_.read_end(), POLLIN, 0}, {errors_.read_end(), POLLIN, 0}};
    // A program closes its outputs just before it ends.
    const bool is_ending = polled[0].fd < 0 && polled[1].fd < 0;
    ::poll(polled, 2, is_ending ? 1 : kPollMilliseconds);
    int status = 0;
    const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
    output_.read_to(result.output);
    errors_.read_to(result.errors);
    if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
    pid_ = -1;
    result.signal = ended > 0 && WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    result.exit_code = ended > 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return true;
  }

  void end() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGTERM);
    const auto deadline = Clock::now() + std::chrono::milliseconds(kGraceMilliseconds);
    int status = 0;
    while (Clock::now() < deadline) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_ || (ended < 0 && errno != EINTR)) {
        pid_ = -1;
        return;
      }
      ::usleep(10'000);
    }
    ::kill(pid_, SIGKILL);
    while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  OutputPipe output_;
  OutputPipe errors_;
};

}  // namespace

Result<ProcessResult> run_process(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                                  const ProcessOptions& options) {
  RunningProcess process;
  TANDEM_TRY(process.start(program.string(), arguments));
  const auto begin = Clock::now();
  ProcessResult result;
  while (!process.step(result)) {
    if (options.stop && options.stop()) {
      process.end();
      return cancelled("stopped; the same command goes on where it was");
    }
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (options.timeout_seconds > 0 && seconds > options.timeout_seconds) {
      process.end();
      return io_error("{} did not end within {:.0f} seconds", program.string(), options.timeout_seconds);
    }
  }
  return result;
}

}  // namespace tandem
