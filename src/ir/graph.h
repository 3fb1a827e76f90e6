// The graph: typed tensors and the ops between them. One graph is one method of one model: every shape is fixed.
//
// A graph is a list of ops in the order they run. Each activation is written by exactly one op before it is read. Rows
// are tokens: an activation is [tokens, width], or, inside attention, [heads, tokens, width].
//
// Attention comes in two forms. A back end that updates its cache in place has StoreKv and Attention, which look across
// tokens through the state tensors. A back end with fixed graphs (compiler/passes/expand_attention.cpp) has MatMul,
// AddMask and Softmax over the cache's slots followed by the call's own rows; the new rows are outputs
// (PurposeKind::kNewKeys, kNewValues), and the run time writes them to their slots. Every other op is row-wise. Back
// ends rely on that to compute only the rows they need.
//
// An activation is f32, f16, or an integer with an encoding, to which its values are rounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "ir/purpose.h"
#include "numerics/weight_matrix.h"

namespace tandem::ir {

// How a tensor's stored numbers map to values. The numeric values are stored in artifacts: only append.
enum class EncodingKind : uint8_t {
  kPlain = 0,          // Floats and indices: the stored number is the value.
  kPerTensor = 1,      // value = scale * (number - zero_point)
  kDynamicPerRow = 2,  // Each row of the last axis has a scale and a minimum beside it, set when the row is written.
};
inline constexpr int kEncodingKindCount = 3;

struct Encoding {
  EncodingKind kind = EncodingKind::kPlain;
  float scale = 1.0f;
  int32_t zero_point = 0;

  bool operator==(const Encoding&) const = default;
};

enum class TensorRole : uint8_t {
  kActivation = 0,  // Made and used inside the graph.
  kInput = 1,       // Given by the caller.
  kOutput = 2,      // Returned to the caller; may also be read inside.
  kState = 3,       // Lives in the session; read and updated in place.
  kWeight = 4,      // A matrix in the artifact, in its own format.
  kVector = 5,      // Plain f32 numbers in the artifact: norm weights, biases, rotary frequencies.
};
inline constexpr int kTensorRoleCount = 6;

using TensorId = int32_t;

struct Tensor {
  std::string name;  // Unique in the graph. Weights and vectors are found in the artifact by it.
  TensorRole role = TensorRole::kActivation;
  DType dtype = DType::kF32;  // kF32 for a weight, whatever its format.
  std::vector<int64_t> shape = {};
  Encoding encoding = {};
  // Of a weight, once the recipe is applied.
  WeightFormat format = WeightFormat::kF32;
  int block = 0;
  Purpose purpose = {};
  // For a part of a tensor that a pass has split: the whole tensor's name. It shares that tensor's encoding.
  std::string part_of = {};

  bool operator==(const Tensor&) const = default;
};

// The numeric values are stored in artifacts: only append.
enum class OpKind : uint8_t {
  kEmbedding = 0,     // (tokens i32[N], table[V, D]) -> [N, D]
  kLinear = 1,        // (x[N, K], weight[M, K], bias[M]?) -> [N, M]
  kRmsNorm = 2,       // (x, weight[group]) -> like x; over groups of weight's length inside a row
  kLayerNorm = 3,     // (x, weight[D], bias[D]) -> like x
  kAdd = 4,           // (a, b, also [H, N, P]) -> like a
  kMul = 5,           // (a, b) -> like a
  kScale = 6,         // (x) -> x * factor
  kSilu = 7,          // (x)
  kGeluTanh = 8,      // (x)
  kSiluMul = 9,       // (gate, up) -> silu(gate) * up
  kGeluTanhMul = 10,  // (gate, up) -> gelu(gate) * up
  kSoftcap = 11,      // (x, also [H, N, P]) -> factor * tanh(x / factor)
  kRopeTable = 12,  // (positions i32[N], inverse_frequency[R]) -> cos[N, R], sin[N, R], both times factor. With a third
                    // input long_frequency[R]: (rows i32[N], ...), where row C + p is position p with those
  kRope = 13,       // (x[N, heads * head_dim], cos, sin) -> like x; rotates the first 2R entries of each head
  kStoreKv = 14,    // (x[N, kv_heads * head_dim], positions, cache state[G, S, D][, scale state]): row n to slot
                    // positions[n] modulo S
  kAttention = 15,  // (q, k cache, v cache, mask f32[N, C], positions[, k scales, v scales]) -> like q
  kMaskToFloat = 16,  // (mask of any dtype) -> f32; the lowest value is -infinity
  kConvert = 17,      // (x f32) -> another dtype by the output's encoding, rounded to nearest even and saturated
  kSplitHeads = 18,   // (x[N, heads * head_dim]) -> [heads, N, head_dim]
  kJoinHeads = 19,    // (x[heads, N, head_dim]) -> [N, heads * head_dim]
  kAppendRows = 20,   // (cache state[G, C, D], rows[G, N, D]) -> [G, C + N, D]; all of one dtype and encoding
  kMatMul = 21,     // (a[H, N, K], b[G, P, K] if transpose_b, else b[G, K, P]) -> [H, N, P]; H / G heads share one of b
  kAddMask = 22,    // (scores[H, N, C + N], mask input[N, C + N]) -> like scores
  kSoftmax = 23,    // (x[H, N, P]) -> softmax(factor * x) over the last axis
  kSigmoid = 24,    // (x)
  kAddVector = 25,  // (x[N, W], vector[W]) -> like x
  kConcat = 26,     // (x0[N, W0], x1[N, W1], ...) -> [N, W0 + W1 + ...]; also [H, N, P]: along the last axis
  kQuantizedAttention =
      27,               // Attention over caches in u8, with queries and weights quantized too: numerics/fake_quant.h
  kSlice = 28,          // (x) -> the part of x along `axis` from `begin` on, as long as the output is
  kMaskedSoftmax = 29,  // (scores, mask) -> Softmax of AddMask, whose sum is not rounded
  kRescore = 30,   // (logits[N, V], x[N, K], table[V, K]) -> like logits; the `candidates` largest of each row become
                   // softcap(factor * x . table), the first ones where logits tie; by the CPU (on_host)
  kHadamard = 31,  // (x[N, heads * head_dim]) -> like x; each head times Sylvester's matrix of 2^k = head_dim, which is
                   // orthogonal with the factor 1 / sqrt(head_dim)
};
inline constexpr int kOpKindCount = 32;  // ir/op_table.h has a row for each.
constexpr bool is_attention(OpKind kind) { return kind == OpKind::kAttention || kind == OpKind::kQuantizedAttention; }

// Attributes of an op; each kind reads the ones named for it and leaves the rest at their defaults.
struct OpAttributes {
  float eps = 0.0f;            // Norms.
  float weight_offset = 0.0f;  // RmsNorm: added to each weight (1 for Gemma).
  float factor = 1.0f;         // Scale, Softcap; the factor of cos and sin (RopeTable), of scores (Attention and
                               // softmaxes), of products (Rescore).
  float softcap = 0.0f;        // Attention: cap on the scores before the mask; Rescore: on the logits; 0 for none.
  int64_t head_dim = 0;        // Rope, StoreKv, Attention, SplitHeads, Hadamard.
  bool interleaved = false;    // Rope: pairs (2i, 2i + 1) instead of (i, i + R).
  // Attention: position j is seen from position p only if p - j < window; 0 for no limit. With a window the caches may
  // have fewer slots than the context has positions, but at least window + N - 1: no call overwrites what it reads.
  int64_t window = 0;
  bool quantize_input = false;  // Linear: x is quantized to int8 with a scale per row before the product.
  bool transpose_b = false;     // MatMul.
  bool on_host = false;         // Embedding, Rescore: by the CPU, in the mapped file, whatever the back end.
  bool int16_input = false;     // Linear with quantize_input: to 16 bits instead of 8 (numerics/fake_quant.h).
  int32_t axis = 0;             // Slice.
  int64_t begin = 0;            // Slice.
  int64_t candidates = 0;       // Rescore.

  bool operator==(const OpAttributes&) const = default;
};

struct Op {
  OpKind kind = OpKind::kAdd;
  std::vector<TensorId> inputs;
  std::vector<TensorId> outputs;
  OpAttributes attributes;

  bool operator==(const Op&) const = default;
};

struct Graph {
  std::string name;     // "decode", "prefill_32"
  int64_t tokens = 0;   // Tokens per call.
  int64_t context = 0;  // Slots of the KV cache.
  std::vector<Tensor> tensors;
  std::vector<Op> ops;

  TensorId add(Tensor tensor);
  // Removes tensors that no op uses, except inputs, outputs and states. Ids change.
  void remove_unused_tensors();
  std::optional<TensorId> find(std::string_view name) const;
  // The first tensor of the purpose; of that role, where one is given.
  std::optional<TensorId> find(PurposeKind kind, std::optional<TensorRole> role = std::nullopt) const;
  std::optional<TensorId> find(const Purpose& purpose) const;
  const Tensor& at(TensorId id) const { return tensors[static_cast<size_t>(id)]; }
  Tensor& at(TensorId id) { return tensors[static_cast<size_t>(id)]; }

  bool operator==(const Graph&) const = default;
};

// Sets every tensor's purpose from its name (purpose_from_name): for files without purposes, and for graphs built by
// hand.
Status set_purposes_from_names(Graph& graph);

std::string_view op_kind_name(OpKind kind);          // "linear"
std::string_view tensor_role_name(TensorRole role);  // "weight"
std::string_view encoding_kind_name(EncodingKind kind);

// Elements of the tensor; shapes in a verified graph never overflow.
int64_t element_count_of(const Tensor& tensor);

}  // namespace tandem::ir
