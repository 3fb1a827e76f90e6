// A progress bar with the time left, on standard error if that is a terminal; a line per stage otherwise.
#pragma once

#include <chrono>
#include <string>

#include "base/progress.h"

namespace tandem {

class ProgressBar {
 public:
  explicit ProgressBar(bool quiet = false);
  ~ProgressBar() { finish(); }

  void update(const Progress& progress);
  // Removes the bar, so that other output can follow.
  void finish();

 private:
  bool quiet_;
  bool terminal_;
  bool drawn_ = false;
  std::string stage_;
  uint64_t first_done_ = 0;  // What was already done at the first update does not count for the speed.
  bool started_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_drawn_;
};

// "1.2 GB", "345 MB", "12 KB"
std::string format_bytes(uint64_t bytes);
// "1:05", "12 s"
std::string format_seconds(double seconds);

}  // namespace tandem
