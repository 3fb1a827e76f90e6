// The static properties of each kind of op: its inputs, its outputs, and where it may appear. The verifier, the
// printer, the planners and the back ends' support checks read this table; graph.h says what each op computes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "ir/graph.h"

namespace tandem::ir {

// What an op reads at one of its inputs.
enum class InputKind : uint8_t {
  kNumbers,         // An activation: floats, or integers with one encoding.
  kNumbersOrCache,  // The same, or a cache that the graph only reads.
  kIndices,         // An input of i32 [tokens].
  kMask,            // An input of numbers that are added to scores.
  kEncodedMask,     // An input whose lowest value means -infinity.
  kWeight,          // A matrix of the artifact.
  kVector,          // A vector of the artifact.
  kCache,           // A state.
  kCacheScales,     // A state beside a cache.
};

// Whether dtype and encoding alone determine the values of the input's elements.
constexpr bool is_numbers(InputKind kind) {
  return kind == InputKind::kNumbers || kind == InputKind::kNumbersOrCache || kind == InputKind::kMask;
}

// In which of the two forms of graphs (graph.h) an op appears.
enum class OpForm : uint8_t {
  kDynamic,  // Where caches are updated in place.
  kStatic,   // In fixed graphs, whose new rows are outputs.
  kBoth,
};

// The kinds of an op's inputs, in order.
struct InputList {
  static constexpr size_t kCapacity = 7;
  std::array<InputKind, kCapacity> kinds = {};
  size_t count = 0;

  constexpr InputList(std::initializer_list<InputKind> list) {
    for (const InputKind kind : list) kinds[count++] = kind;
  }
};

// The maximum number of inputs of a variadic op.
inline constexpr size_t kMaxRepeatedInputs = 256;

struct OpInfo {
  OpKind kind;
  std::string_view name;
  InputList inputs;
  size_t optional_inputs = 0;  // How many of the last inputs may be absent.
  bool repeats = false;        // The last input may repeat, up to kMaxRepeatedInputs in all.
  size_t outputs = 1;
  bool looks_across_tokens = false;  // Otherwise row-wise: an output row depends on that row of the inputs alone.
  OpForm form = OpForm::kBoth;
  bool may_run_on_host = false;  // The CPU computes it in the mapped file, whatever the back end (on_host).

  constexpr size_t min_inputs() const { return inputs.count - optional_inputs; }
  constexpr size_t max_inputs() const { return repeats ? kMaxRepeatedInputs : inputs.count; }
  constexpr InputKind input(size_t i) const { return inputs.kinds[i < inputs.count ? i : inputs.count - 1]; }
  constexpr bool is_dynamic() const { return form != OpForm::kStatic; }
  constexpr bool is_static() const { return form != OpForm::kDynamic; }
};

// Of a known kind.
const OpInfo& op_info(OpKind kind);

}  // namespace tandem::ir
