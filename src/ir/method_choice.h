// Which method the next call of a prompt takes. The run time calls by this rule, and estimates add up calls by it.
#pragma once

#include <cstdint>
#include <span>

namespace tandem::ir {

// The method for the next call when `remaining` tokens wait: the longest that they fill; if they fill none but the
// one-token method, the shortest that holds them all, padded. `methods` have a member `tokens`, ascending from 1.
template <typename Method>
const Method& choose_method(std::span<const Method> methods, int64_t remaining) {
  const Method* best = &methods.front();
  for (const Method& method : methods) {
    if (method.tokens <= remaining) best = &method;
  }
  if (best->tokens == 1 && remaining > 1 && methods.size() > 1) return methods[1];
  return *best;
}

}  // namespace tandem::ir
