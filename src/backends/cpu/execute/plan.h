// The static plan of a method on the CPU: the offset of every activation in one arena, which ops run together, and how
// much scratch they need. Made once when an artifact is loaded; running it allocates nothing.
#pragma once

#include <cstdint>
#include <vector>

#include "artifact/reader.h"
#include "backends/cpu/kernels/kernels.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::cpu {

// Where a tensor's numbers are while the plan runs.
struct Buffer {
  enum class Kind : uint8_t {
    kNone,      // Never touched as memory (weights have `matrix`).
    kArena,     // At `offset` bytes in the context's arena.
    kBinding,   // In the caller's buffer of tensor `binding`.
    kConstant,  // A vector in the mapped artifact.
    kLocal,     // Written and read within one kRows step: at `offset` bytes in the thread's scratch, for kRowsTogether
                // rows.
  };
  Kind kind = Kind::kNone;
  uint64_t offset = 0;
  ir::TensorId binding = -1;
  const float* constant = nullptr;
};

// Ops that run between two barriers.
struct Step {
  enum class Kind : uint8_t {
    kRows,       // Row-wise ops: a thread takes a few rows through all of them.
    kLinear,     // Linear layers that read the same input; `gated`: two such layers, followed by the product of their
                 // outputs, one of them through an activation function; `added`: one layer, followed by the sum of its
                 // output and that tensor.
    kAttention,  // One op.
    kMask,       // One op.
  };
  Kind kind = Kind::kRows;
  std::vector<uint32_t> ops;  // Indices into the graph. kRows may have none.
  bool tail = false;        // After the last op that looks across tokens: only the rows the caller reads are computed.
  bool gated = false;       // kLinear
  ir::TensorId added = -1;  // kLinear
  int64_t quantizes = -1;   // kRows: the linear layer whose input is quantized at the end of this step, or -1.
  int64_t row_cost = 0;     // kRows: elements of one row, in all ops.
};

struct MethodPlan {
  const ir::Graph* graph = nullptr;
  std::vector<Buffer> buffers;         // By TensorId.
  std::vector<PackedMatrix> matrices;  // By TensorId; of weights.
  std::vector<bool> is_keys;           // By TensorId: a key cache, whose layout differs from a value cache's.
  std::vector<Step> steps;
  ir::TensorId positions = -1;  // The input that says which rows are padding, or -1.
  uint64_t arena_bytes = 0;
  // Shared by all linear layers with quantized input, after the arena's activations.
  uint64_t quantized_offset = 0;  // For calls whose quantized values the kernels read row by row.
  uint64_t scales_offset = 0;
  uint64_t arranged_offset = 0;     // The quantized values in the kernels' layout.
  uint64_t mask_end_offset = 0;     // int64 per token: one past the last visible slot.
  uint64_t plain_slots_offset = 0;  // int64 per token: the number of leading slots whose mask is 0.
  uint64_t window_mask_offset = 0;  // f32 [tokens, context], if a layer has a window.
  // Bytes per thread. Only one kind is in use at a time: `scratch` is the size of the largest.
  uint64_t group_quantized_offset = 0;  // Quantized rows of a group, after the local tensors of a kRows step.
  uint64_t linear_scratch = 0;
  uint64_t gate_scratch =
      0;  // Behind linear_scratch: what a task computes of a gate; as much again for the other layer.
  uint64_t scratch = 0;
  // The step of the LM head and the ops that follow it, if the argmax can be found without storing logits; else -1. A
  // task has kHeadRows floats of scratch for it, after linear_scratch.
  int64_t lm_head_step = -1;
  std::vector<uint32_t> lm_head_ops;
  // Steps up to the one that writes the final norm's output, if that is an output of the method and what follows it
  // gives logits alone; else all. Calls that read no logits run only these.
  size_t steps_to_hidden = 0;
};

// At most this many rows go through the ops of a kRows step together: few enough to stay in a core's L1 cache from op
// to op.
inline constexpr int64_t kRowsTogether = 4;
// Outputs of a gate that a task computes at a time: 128 KB, the same for the other layer, and the weights fit into the
// L2 cache together.
inline constexpr int64_t kGateFloats = 1 << 15;

// Logits that a task computes at a time when only the argmax is wanted: they stay in the L1 cache.
inline constexpr int64_t kHeadPanels = 32;
inline constexpr int64_t kHeadRows = kHeadPanels * kPanelRows;

// At most this many tokens of a prefill share one attention task: enough to reuse each converted tile of the cache.
// Half as many after a short past, because all tokens of a task read every slot that the last of them sees.
inline constexpr int64_t kAttentionTokens = 128;

// Sets lm_head_step, lm_head_ops and their scratch, once all else is planned (argmax.cpp).
void find_lm_head(MethodPlan& plan);

// Sets steps_to_hidden, once the ops are grouped.
void find_hidden_step(MethodPlan& plan);

// The graph must be verified and belong to the artifact; both must outlive the plan.
Result<MethodPlan> make_plan(const ir::Graph& graph, const Artifact& artifact, const KernelTable& kernels);

}  // namespace tandem::cpu
