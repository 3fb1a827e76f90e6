// Runs the steps of a plan once.
#pragma once

#include "backends/cpu/execute/plan.h"
#include "backends/interface/program.h"
#include "base/thread_pool.h"

namespace tandem::cpu {

class StepRunner {
 public:
  StepRunner(const MethodPlan& plan, const KernelTable& kernels, ThreadPool& pool, const Bindings& bindings,
             uint8_t* arena, uint8_t* scratch, uint64_t scratch_per_thread)
      : plan_(plan),
        graph_(*plan.graph),
        kernels_(kernels),
        pool_(pool),
        bindings_(bindings),
        arena_(arena),
        scratch_(scratch),
        scratch_per_thread_(scratch_per_thread) {}

  Status run();

 private:
  // Rows that a step computes.
  struct Rows {
    int64_t begin = 0;
    int64_t count = 0;
    uint8_t* local = nullptr;  // Memory for tensors local to the step; for a group of rows, its quantized values.
  };

  // Identifies a window's mask by slot; the layers of one model mostly share it.
  struct WindowMask {
    int64_t window = 0;
    int64_t slots = 0;
    ir::TensorId mask = -1;
    int64_t first_row = 0;
    int64_t rows = 0;
    bool operator==(const WindowMask&) const = default;
  };

  Status check_bindings();
  Status run_step(const Step& step, Rows rows);
  void linear(const Step& step, Rows rows);
  // The LM head and the ops that follow it, for one row: only the index of the largest logit is kept (argmax.cpp).
  int32_t argmax_token(Rows rows);
  // The number of tasks into which this many panels are split.
  int64_t linear_tasks(int64_t panels, int64_t cols, int64_t rows) const;
  void gated_linear(const Step& step, Rows rows, const QuantizedRows& input);
  // The rows of panels [begin, end) of a layer. `y` is where the first of them goes for the first token; `added`
  // likewise points to what is added to it, or is null.
  void linear_panels(const ir::Op& op, int64_t begin, int64_t end, Rows rows, const QuantizedRows& input, int thread,
                     float* y, int64_t y_stride, const float* added = nullptr);
  void attention(const ir::Op& op, Rows rows);
  Status mask_to_float(const ir::Op& op);
  void find_mask_ends(const float* mask);
  void fill_window_mask(const ir::Op& op, Rows rows);

  // Row-wise ops (row_ops.cpp).
  Status check_rows(const Step& step, Rows rows) const;
  void run_rows(const Step& step, Rows rows);
  void row_op(const ir::Op& op, Rows rows);
  void quantize(const ir::Op& op, Rows rows, Rows group, Rows part);
  void arrange(const ir::Op& op, const QuantizedLayout& order, Rows rows, Rows group);
  void norm(const ir::Op& op, Rows rows);
  void elementwise(const ir::Op& op, Rows rows);
  void rope_table(const ir::Op& op, Rows rows);
  void rope(const ir::Op& op, Rows rows);
  void hadamard(const ir::Op& op, Rows rows);
  void embedding(const ir::Op& op, Rows rows);
  void store_kv(const ir::Op& op, Rows rows);
  void convert(const ir::Op& op, Rows rows);

  // The result of quantize() for an input of this many rows, for the layer `op` and those that share its input.
  QuantizedRows quantized(const ir::Op& op, int64_t rows) const;
  void* memory(ir::TensorId id) const;
  float* floats(ir::TensorId id) const { return static_cast<float*>(memory(id)); }
  // From the first of these rows.
  float* floats(ir::TensorId id, Rows rows) const {
    const Buffer& buffer = plan_.buffers[static_cast<size_t>(id)];
    if (buffer.kind == Buffer::Kind::kLocal) return reinterpret_cast<float*>(rows.local + buffer.offset);
    return floats(id) + rows.begin * graph_.at(id).shape[1];
  }
  const int32_t* indices(ir::TensorId id) const { return static_cast<const int32_t*>(memory(id)); }
  uint8_t* scratch(int thread) const { return scratch_ + scratch_per_thread_ * static_cast<uint64_t>(thread); }
  const PackedMatrix& weight_of(const ir::Op& op) const { return plan_.matrices[static_cast<size_t>(op.inputs[1])]; }
  // Quantized rows per token: int16 inputs have two.
  static int64_t rows_per_token(const ir::Op& op) { return op.attributes.int16_input ? 2 : 1; }
  KvHead kv_head(ir::TensorId cache, ir::TensorId scales, int64_t head) const;

  const MethodPlan& plan_;
  const ir::Graph& graph_;
  const KernelTable& kernels_;
  ThreadPool& pool_;
  const Bindings& bindings_;
  uint8_t* arena_;
  uint8_t* scratch_;
  uint64_t scratch_per_thread_;
  int64_t active_ = 0;              // Tokens that are not padding.
  ir::TensorId mask_ends_of_ = -1;  // The mask whose ends are in the arena now.
  WindowMask window_mask_of_;       // The one that is in the arena now.
};

}  // namespace tandem::cpu
