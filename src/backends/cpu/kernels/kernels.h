// The CPU's kernels: pure functions over plain pointers, one table per instruction set, chosen once at run time.
//
// Every variant of a function gives the same result as the portable one: exactly for integers; for floats up to the
// rounding of a different order of additions. Within one table, a token's result never depends on how many other tokens
// are in the call: prefill and decode agree to the bit.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"
#include "numerics/fake_quant.h"
#include "tandem/status.h"
#include "weight_layout/packed_matrix.h"

namespace tandem::cpu {

// Rows of activations as int8, one scale per row: x ~ scale * q, q in -127..127.
struct QuantizedRows {
  // [rows, stride], zero from cols up to the padded cols of the weight. Not read where `arranged` is set.
  const int8_t* values = nullptr;
  int64_t stride = 0;             // A multiple of kColAlign.
  const float* scales = nullptr;  // [rows]
  // The same values in the table's QuantizedLayout, if it has one for this number of tokens.
  const uint8_t* arranged = nullptr;
};

// The layout in which linear() reads the activations of many tokens. They are arranged once for all matrices and tasks
// that share an input.
inline constexpr int64_t kMaxLayoutGroup = 16;
struct QuantizedLayout {
  // Tokens per group, an even number up to kMaxLayoutGroup; the last group may have fewer.
  int64_t group = 0;
  int64_t (*group_bytes)(int64_t padded_cols) = nullptr;  // A multiple of 64.
  // `tokens` <= group tokens into group_bytes() bytes.
  void (*arrange)(const int8_t* quantized, int64_t stride, int64_t tokens, int64_t padded_cols, uint8_t* out) = nullptr;
};

// What a linear layer computes: y[n, row] = sum over cols x[n, col] * w[row, col] (+ bias[row]) (+ added[n, row]), for
// all n tokens and the rows of panels [panel_begin, panel_end). Rows past w.rows are never written.
struct LinearTask {
  const PackedMatrix* weight = nullptr;
  int64_t panel_begin = 0;
  int64_t panel_end = 0;
  int64_t tokens = 0;
  const float* x = nullptr;  // Float formats: [tokens, x_stride].
  int64_t x_stride = 0;
  QuantizedRows quantized;  // kI8, kLpbq4.
  const float* bias = nullptr;
  const float* added =
      nullptr;         // [tokens, y_stride], may be y. Behind the bias, and rounded like an addition of its own.
  float* y = nullptr;  // [tokens, y_stride]
  int64_t y_stride = 0;
  uint8_t* scratch = nullptr;  // linear_scratch_bytes() of this thread, 64-byte aligned.
};

// Keys or values of one KV head: `slots` rows of `dim` numbers, in the layout of kv_layout.h.
struct KvHead {
  DType dtype = DType::kF32;  // kF32, kF16 or kU8
  void* data = nullptr;       // slots * dim numbers
  int64_t slots = 0;
  float* scale_and_min = nullptr;  // kU8: [slots, 2]; value = scale * q + min, set when the row is stored.
};

// Slots that attention processes at a time: those whose weights share a scale.
inline constexpr int64_t kAttentionTile = kWeightRun;

// Attention of the query heads that share one KV head, for a run of tokens. out = softmax(cap(q.k * scale) + mask) . v
struct AttentionTask {
  const float* q = nullptr;  // Query (token t, group member g) is at q + t * q_stride + g * dim.
  int64_t q_stride = 0;
  float* out = nullptr;  // Laid out like q.
  int64_t out_stride = 0;
  int64_t tokens = 0;
  int64_t group = 1;  // Query heads per KV head.
  int64_t dim = 0;
  KvHead k;
  KvHead v;  // Of the same dtype.
  bool quantized =
      false;  // kU8: integer arithmetic, with queries and weights quantized (numerics/fake_quant.h). Otherwise float.
  int64_t slots = 0;  // Slots [0, slots) are read, in tiles of kAttentionTile.
  // The tile to begin with; the first tile follows the last. The order of tiles decides the rounding of sums, so a ring
  // buffer gives the bits of a full cache if its oldest tile comes first.
  int64_t first_tile = 0;
  // [tokens, mask_stride]; 0 visible, -infinity masked, other values are added. Null: all slots are visible.
  const float* mask = nullptr;
  int64_t mask_stride = 0;
  // [tokens]: the mask of the first plain_slots[t] slots is 0 and need not be read. May be null.
  const int64_t* plain_slots = nullptr;
  float scale = 1.0f;
  float softcap = 0.0f;      // 0: none.
  float* scratch = nullptr;  // attention_scratch_floats() floats, 64-byte aligned.
};

struct KernelTable {
  std::string_view isa;  // As in TANDEM_ISA, see below.

  // Linear layers, by weight format.
  void (*linear)(const LinearTask& task);
  // Bytes of scratch that linear() needs for a matrix and a number of tokens.
  uint64_t (*linear_scratch_bytes)(const PackedMatrix& weight, int64_t tokens);
  // The layout that linear() wants for the activations of this many tokens; null: as quantize_rows() leaves them.
  const QuantizedLayout* (*quantized_layout)(int64_t tokens);
  // Quantizes floats; writes zeros from cols to stride. An all-zero row gets scale 0. NaN or infinity gives scale NaN
  // (so that it stays visible in the result).
  void (*quantize_rows)(const float* x, int64_t x_stride, int64_t rows, int64_t cols, int8_t* quantized, int64_t stride,
                        float* scales);
  // The same in 16 bits, as two int8 rows and two scales per row: the upper halves, whose scale is 255 times as large,
  // then the lower halves (numerics/fake_quant.h). x ~ the sum of both.
  void (*quantize_rows_int16)(const float* x, int64_t x_stride, int64_t rows, int64_t cols, int8_t* quantized,
                              int64_t stride, float* scales);

  // Rows of `dim` floats. y may be x. weight_offset is added to each weight (Gemma's 1 + w).
  void (*rms_norm)(const float* x, int64_t rows, int64_t dim, const float* weight, float weight_offset, float eps,
                   float* y);
  void (*layer_norm)(const float* x, int64_t rows, int64_t dim, const float* weight, const float* bias, float eps,
                     float* y);

  // Element-wise; y may be an input.
  void (*add)(const float* a, const float* b, int64_t count, float* y);
  void (*mul)(const float* a, const float* b, int64_t count, float* y);
  void (*scale)(const float* x, float factor, int64_t count, float* y);
  void (*silu)(const float* x, int64_t count, float* y);
  void (*gelu_tanh)(const float* x, int64_t count, float* y);
  void (*silu_mul)(const float* gate, const float* up, int64_t count, float* y);
  void (*gelu_tanh_mul)(const float* gate, const float* up, int64_t count, float* y);
  void (*softcap)(const float* x, float cap, int64_t count, float* y);

  // Rotates the first 2 * half entries of each of `heads` heads of `dim` entries of one token; the others are copied.
  // Half-split pairs (i, i + half), or interleaved pairs (2i, 2i + 1). y may be x.
  void (*rope)(const float* x, int64_t heads, int64_t dim, int64_t half, const float* cos, const float* sin,
               bool interleaved, float* y);

  // Multiplies each of `heads` heads of `dim` (a power of two) entries by Sylvester's matrix over sqrt(dim). The same
  // sums in the same order on every instruction set. y may be x.
  void (*hadamard)(const float* x, int64_t heads, int64_t dim, float* y);

  // Stores one row of `dim` floats as row `slot` of a KV head.
  void (*store_key)(const float* row, int64_t dim, int64_t slot, const KvHead& head);
  void (*store_value)(const float* row, int64_t dim, int64_t slot, const KvHead& head);
  void (*attention)(const AttentionTask& task);
  uint64_t (*attention_scratch_floats)(int64_t tokens, int64_t group, int64_t dim);

  // Multiplies int8 numbers in registers, as linear() does at best, for `rounds` rounds. Returns the number of
  // multiplications and additions.
  int64_t (*multiply_int8)(int64_t rounds);
  // Index of the largest; the lowest index on ties; NaN never wins. 0 if all are NaN, or count is 0.
  int64_t (*argmax)(const float* x, int64_t count);
};

// All tables that this build has and this CPU can run, slowest first.
std::span<const KernelTable* const> available_kernels();
// The fastest, or the one named by the environment variable TANDEM_ISA:
//   any CPU      "portable"
//   x86-64       "avx2", "avxvnni", "avx512vnni", "amx"
//   64-bit ARM   "neon" (every one), "dotprod" (with sdot), "i8mm" (with smmla too)
// An unknown or unsupported name is an error that lists the available ones.
Result<const KernelTable*> choose_kernels();
const KernelTable& portable_kernels();

}  // namespace tandem::cpu
