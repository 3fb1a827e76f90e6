// Durations and memory of a compile's stages.
#pragma once

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/peak_memory.h"
#include "compiler/compile.h"

namespace tandem {

// One stage after another, written into a report when they end.
class StageTimer {
 public:
  explicit StageTimer(CompileReport& report) : report_(report) {}

  void begin(std::string name) {
    end();
    name_ = std::move(name);
    start_ = Clock::now();
  }
  void end() {
    if (name_.empty()) return;
    report_.stages.push_back({name_, seconds_since(start_), peak_memory()});
    name_.clear();
  }

 private:
  CompileReport& report_;
  std::string name_;
  Clock::time_point start_;
};

}  // namespace tandem
