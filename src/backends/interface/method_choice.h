// Which method the next call of a prompt takes. The run time calls by this rule, and estimates add up calls by it.
#pragma once

#include <cstdint>
#include <span>

namespace tandem::ir {

// The method for the next call when `remaining` tokens wait: the longest as often as they fill it, then the shortest
// that holds the rest, padded. A call costs what its weights cost to read, and padding costs next to nothing: an NPU's
// call with 128 tokens takes less than two with 32, and a CPU skips rows that are padding. `methods` have a member
// `tokens`, ascending from 1.
template <typename Method>
const Method& choose_method(std::span<const Method> methods, int64_t remaining) {
  for (const Method& method : methods) {
    if (method.tokens >= remaining) return method;
  }
  return methods.back();
}

}  // namespace tandem::ir
