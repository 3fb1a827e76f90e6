#include "cli/progress_bar.h"

#include <unistd.h>

#include "base/format.h"
#include "base/printable.h"
#include "cli/output.h"

namespace tandem {

using Clock = std::chrono::steady_clock;

// Longer ones would wrap, and \r only returns to the start of the last line.
constexpr size_t kMaxStage = 32;

ProgressBar::ProgressBar(bool quiet) : quiet_(quiet), terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressBar::update(const Progress& progress) {
  if (quiet_ || progress.total == 0) return;
  const Clock::time_point now = Clock::now();
  if (!started_) {
    started_ = true;
    start_ = now;
    first_done_ = progress.done;
  }
  const bool new_stage = progress.stage != stage_;
  stage_ = progress.stage;
  const double share = static_cast<double>(progress.done) / static_cast<double>(progress.total);
  if (!terminal_) {
    if (new_stage) note("[{:3.0f}%] {}", 100.0 * share, shortened(stage_, kMaxStage * 4));
    return;
  }
  using namespace std::chrono_literals;
  if (drawn_ && !new_stage && now - last_drawn_ < 100ms) return;
  last_drawn_ = now;
  drawn_ = true;
  std::string left;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (elapsed > 0.5 && progress.done > first_done_) {
    const double speed = static_cast<double>(progress.done - first_done_) / elapsed;
    left = format_seconds(static_cast<double>(progress.total - progress.done) / speed) + " left";
  }
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(share * kWidth);
  write_stderr(str_format("\r\033[K[{:#<{}}{:.<{}}] {:3.0f}%  {}  {}", "", filled, "", kWidth - filled, 100.0 * share,
                          shortened(printable(stage_), kMaxStage), left));
}

void ProgressBar::finish() {
  if (!drawn_) return;
  write_stderr("\r\033[K");
  drawn_ = false;
}

std::string format_bytes(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (value >= 1e9) return str_format("{:.2f} GB", value / 1e9);
  if (value >= 1e6) return str_format("{:.1f} MB", value / 1e6);
  if (value >= 1e3) return str_format("{:.0f} KB", value / 1e3);
  return str_format("{} bytes", bytes);
}

std::string format_seconds(double seconds) {
  if (seconds < 1.0) return str_format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60.0) return str_format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  return str_format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace tandem
