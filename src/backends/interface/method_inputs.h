// Finds the inputs of a method by their purposes (ir/purpose.h) and fills them for a call.
// Their names:
//
//   tokens         i32 [N]
//   positions      i32 [N]; -1 for padding
//   mask           [N, C], or [N, C + N] where the call's own rows follow the cache's slots
//   window_mask.W  the same for layers that see the last W positions only
//   rope_rows.L    i32 [N]: rows of a rotary table that has two halves of C rows. The first half is for sequences of up
//                  to L tokens, the second for longer ones (the length counts, not the position).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/interface/io_conversion.h"
#include "backends/interface/program.h"
#include "tandem/status.h"

namespace tandem::ir {

struct MaskInput {
  TensorId id = -1;
  int64_t window = 0;  // 0: all positions.
  MaskValues values;
};

struct MethodInputs {
  TensorId tokens = -1;
  TensorId positions = -1;
  std::vector<MaskInput> masks;
  // Columns of the masks. C of them: the method stores its rows before it reads them. N more: it sees the cache as
  // it was before the call, followed by its own rows.
  int64_t mask_columns = 0;
  TensorId rope_rows = -1;
  int64_t rope_limit = 0;  // L of rope_rows.L.

  // Refuses unknown inputs, and known ones whose shape or dtype is wrong.
  static Result<MethodInputs> read(const Graph& graph);
};

// What such inputs are called, for people.
std::string window_mask_name(int64_t window);
std::string rope_rows_name(int64_t limit);

// The tokens of one call. The rest of the method's rows are padding.
struct CallTokens {
  std::span<const int32_t> tokens;
  int64_t position = 0;  // Of the first.
  bool is_long = false;  // Whether the sequence they belong to has more than `rope_limit` tokens.
};
void fill_inputs(const Graph& graph, const MethodInputs& inputs, const CallTokens& call, const Bindings& bindings);

}  // namespace tandem::ir
