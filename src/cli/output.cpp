#include "cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/format.h"
#include "base/printable.h"
#include "cli/flag_names.h"

namespace tandem {
namespace {

constexpr int kPatienceMilliseconds = 1000;

int g_output_error = 0;  // errno of the first write to standard output that failed.

bool wrote(bool success) {
  if (!success && g_output_error == 0) g_output_error = errno != 0 ? errno : EIO;
  return g_output_error == 0;
}

}  // namespace

void write_stderr(std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return;
    pollfd slow{STDERR_FILENO, POLLOUT, 0};  // The terminal is non-blocking: wait, but not forever.
    if (::poll(&slow, 1, kPatienceMilliseconds) == 0) return;
  }
}

void note_line(std::string_view line) { write_stderr(printable_message(line) + "\n"); }
void note_error(std::string_view message) { write_stderr("error: " + printable_message(with_flags(message)) + "\n"); }
void warn(std::string_view message) { write_stderr("warning: " + printable_message(with_flags(message)) + "\n"); }

void note_log(LogLevel level, std::string_view message) {
  if (level <= LogLevel::kWarning) return warn(message);
  note_line(str_format("{}: {}", log_level_name(level), message));
}

bool write_stdout(std::string_view text) {
  if (output_failed()) return false;
  errno = 0;
  return wrote(std::fwrite(text.data(), 1, text.size(), stdout) == text.size());
}

bool flush_stdout() {
  if (output_failed()) return false;
  errno = 0;
  return wrote(std::fflush(stdout) == 0 && std::ferror(stdout) == 0);
}

bool show_line(std::string_view line) { return write_stdout(printable_message(line) + "\n"); }

bool show_json(const Json& json, int indent) { return write_stdout(printable_json(dump_json(json, indent)) + "\n"); }

bool show_data(std::string_view text) { return write_stdout(stdout_is_terminal() ? printable_lines(text) : text); }

bool stdout_is_terminal() {
  static const bool terminal = isatty(STDOUT_FILENO) == 1;
  return terminal;
}

bool output_failed() { return g_output_error != 0; }

void check_output() {
  flush_stdout();
  if (!output_failed()) return;
  if (g_output_error == EPIPE) throw CLI::RuntimeError(kReaderGone);
  note_error(str_format("the output cannot be written ({})", std::strerror(g_output_error)));
  throw CLI::RuntimeError(1);
}

}  // namespace tandem
