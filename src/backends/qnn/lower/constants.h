// Constants: matrices that several graphs use, quantized once and added to each; vectors, loaded once and turned into
// small constants where an op needs them; rotary tables.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backends/qnn/lower/emitter.h"
#include "backends/qnn/lower/lower.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::qnn {

// How an op reads a weight.
struct MatrixUse {
  const ir::Tensor* weight = nullptr;
  // An embedding's table has rows of the output's dtype and encoding. Without: a 1x1 Conv2d's weights.
  const ir::Tensor* rows_like = nullptr;

  // The constant's name in a graph.
  std::string name() const { return rows_like == nullptr ? weight->name : weight->name + "#table"; }
  bool is_same_constant(const MatrixUse& other) const;
};

// The loaded matrix, checked against the graph.
Status check_matrix(const ir::Tensor& weight, const WeightMatrix& matrix);
// [V, D], a block of rows at a time.
Result<TensorSpec> make_table(const MatrixUse& use, const WeightMatrix& matrix);
// [1, 1, K, M]. Consumes the matrix and frees what it does not need: only one copy of the quantized values is left. The
// result borrows from `matrix`.
Result<TensorSpec> make_conv2d(const MatrixUse& use, WeightMatrix& matrix);

// Each vector is loaded once.
class VectorCache {
 public:
  explicit VectorCache(const LoweringWeights& weights) : weights_(weights) {}
  Result<const std::vector<float>*> get(const ir::Tensor& vector);

 private:
  const LoweringWeights& weights_;
  std::map<std::string, std::vector<float>, std::less<>> vectors_;
};

// A constant beside activations of `like`'s type: f16, or u16 with the encoding of its own range.
TensorSpec make_constant(std::string name, const TensorType& like, Shape shape, std::span<const float> values);
// One number, exactly.
TensorSpec make_scalar(std::string name, const TensorType& like, float value);

// cos and sin of every position of the context for each set of frequencies, one set under another:
// [sets * context, R], in the dtypes and encodings of `cos` and `sin`.
struct RopeTables {
  TensorSpec cos;
  TensorSpec sin;
};
Result<RopeTables> make_rope_tables(const ir::Tensor& cos, const ir::Tensor& sin,
                                    std::span<const std::vector<float>* const> frequencies, float factor,
                                    int64_t context);

}  // namespace tandem::qnn
