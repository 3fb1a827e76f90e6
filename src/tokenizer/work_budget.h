// Bounds the time and memory that a tokenizer spends on a text, whatever its file says.
//
// Every stage (added tokens, normalizers, pre-tokenizers, the model) charges what it does to the budget of the call:
// about one unit per byte that it reads or writes. All stages share one budget, so that many steps, long pieces and
// patterns that backtrack endlessly have one common bound: kWorkPerByte units per byte of the text.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

class WorkBudget {
 public:
  // The pipelines of real models take about ten units per byte, and a few hundred where compatibility forms make a text
  // ten times as long. At one to three nanoseconds a unit, this is two microseconds per byte at worst.
  static constexpr uint64_t kWorkPerByte = 1024;
  static constexpr uint64_t kWorkPerCall = 1u << 20;
  // A byte that is kept until the end of the call counts as this many units, which bounds the memory too.
  static constexpr uint64_t kWorkPerKeptByte = 16;
  static constexpr uint64_t kWorkPerKeptString = 32;

  explicit WorkBudget(size_t text_bytes, uint64_t per_call = kWorkPerCall)
      : left_(kWorkPerByte * uint64_t{text_bytes} + per_call) {}

  // False if that exceeds what is left.
  bool spend(uint64_t units) {
    if (units > left_) {
      left_ = 0;
      return false;
    }
    left_ -= units;
    return true;
  }
  // For a string that is kept until the end of the call.
  bool keep(uint64_t bytes) {
    return spend(bytes <= left_ / kWorkPerKeptByte ? bytes * kWorkPerKeptByte + kWorkPerKeptString : left_ + 1);
  }
  uint64_t left() const { return left_; }

 private:
  uint64_t left_;
};

}  // namespace tandem
