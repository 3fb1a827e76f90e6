// Everything that the command line prints goes through here.
//
// Standard error is for people: progress, metrics, warnings, errors. A failed write to it never affects a command's
// result. Standard output has results: one that cannot be written ends the command.
// Lines are escaped and shortened (printable_message() in base/printable.h), because names in them come from untrusted
// files.
#pragma once

#include <string_view>

#include "base/format.h"
#include "base/json.h"
#include "tandem/log.h"

namespace tandem {

// Unescaped, to standard error: our own text, such as a progress bar.
void write_stderr(std::string_view text);
// One line on standard error.
void note_line(std::string_view line);
template <typename... Args>
void note(FormatString<Args...> format, const Args&... args) {
  note_line(str_format(format, args...));
}
// "error: …" and "warning: …", with flags instead of fields (flag_names.h).
void note_error(std::string_view message);
void warn(std::string_view message);

// The library's log. Its errors are warnings to the user: the command may still succeed, and reports its own failure.
void note_log(LogLevel level, std::string_view message);

// Unescaped, to standard output. False if this or an earlier write failed.
bool write_stdout(std::string_view text);
// Flushes the buffer.
bool flush_stdout();
// One line on standard output; newlines in its arguments are escaped.
bool show_line(std::string_view line);
template <typename... Args>
bool show(FormatString<Args...> format, const Args&... args) {
  return show_line(str_format(format, args...));
}
bool show_json(const Json& json, int indent = -1);
// Text that is itself the result, such as an answer: to a terminal without control sequences (newlines and tabs stay),
// to a file or a pipe byte for byte.
bool show_data(std::string_view text);
bool stdout_is_terminal();

// Whether something could not be written to standard output.
bool output_failed();
// Ends the command if so, as fail() does: quietly if the reader is gone (`tandem … | head`), else with an error.
void check_output();
// The exit status of a command whose reader is gone, as in shells: 128 + SIGPIPE.
inline constexpr int kReaderGone = 141;

}  // namespace tandem
