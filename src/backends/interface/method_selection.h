// The policy that selects the method of a prompt's next call. The run time follows it, and estimates add up its calls.
#pragma once

#include <cstdint>
#include <span>

namespace tandem::ir {

// The method for the next call when `remaining` tokens wait: the longest as long as they fill it, then the shortest
// that holds the rest, padded. A call costs as much as reading its weights, and padding costs next to nothing: one NPU
// call with 128 tokens takes less time than two with 32, and a CPU skips padding rows. `methods` have a member
// `tokens`, ascending from 1.
template <typename Method>
const Method& choose_method(std::span<const Method> methods, int64_t remaining) {
  for (const Method& method : methods) {
    if (method.tokens >= remaining) return method;
  }
  return methods.back();
}

}  // namespace tandem::ir
