// tandem-qnn-worker JOB.json RESULT.json: compiles one shard for an NPU and ends. Started by `tandem compile`, not by
// people (backends/qnn/compile/shard_job.h).
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "backends/qnn/api/log.h"
#include "backends/qnn/compile/shard_job.h"
#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/program_start.h"
#include "base/try.h"
#include "compiler/work_folder.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace {

constexpr uint64_t kJobLimit = uint64_t{16} << 20;

Status run(const char* job_path, const char* result_path, int stages) {
  TANDEM_ASSIGN(const std::string text, read_text_file(job_path, kJobLimit));
  TANDEM_ASSIGN(const ShardJob job, ShardJob::from_json(text));
  const auto stage = [&](std::string_view name) {
    const std::string line = std::string(name) + "\n";
    // The reader may be gone; then there is nobody to report to.
    const ssize_t ignored = ::write(stages, line.data(), line.size());
    (void)ignored;
  };
  const auto say = [&](LogLevel level, std::string_view message) { stage(log_line(level, message)); };
  const qnn::OpenLog log(Log(say, job.log_level));
  TANDEM_ASSIGN(const ShardResult result, run_shard_job(job, stage));
  return write_file_atomically(result_path, result.to_json());
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  if (!tandem::reserve_standard_descriptors()) return 1;
  tandem::ignore_write_signals();
  if (argc != 3) {
    std::fputs("usage: tandem-qnn-worker JOB.json RESULT.json (`tandem compile --target ...` starts it)\n", stderr);
    return 2;
  }
  // Dies with the compile that started it, even if that is killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Ctrl-C in a terminal, its end, or a service manager's stop reach all processes of the group: the one that started
  // us decides, and ends us with SIGKILL.
  for (const int signal : {SIGINT, SIGHUP, SIGTERM}) ::signal(signal, SIG_IGN);
  // The library prints to standard output now and then: that goes to the log, and stages to where it was.
  const int stages = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  if (stages < 0 || ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    std::fprintf(stderr, "standard output cannot be moved (%s)\n", std::strerror(errno));
    return 1;
  }
  tandem::Status status = tandem::guard_file_mappings();
  if (status.ok()) status = tandem::run(argv[1], argv[2], stages);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return tandem::comes_again(status.error().code) ? tandem::kWorkerRefused : 1;
}
