#include "backends/qnn/api/known_traps.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "backends/qnn/api/graph.h"
#include "backends/qnn/api/version_rules.h"
#include "base/error.h"

namespace tandem::qnn {
namespace {

constexpr int32_t kExactU8Offset = -128;

constexpr int kArchWithWrongMatMul = 69;

// Movers: ops that copy quantized values unchanged, whatever the encodings say. (Concat is not one: it requantizes.)
constexpr std::array<std::string_view, 4> kMovers = {"Transpose", "Reshape", "StridedSlice", "Gather"};

bool same_encoding(const abi::Tensor& a, const abi::Tensor& b) {
  const abi::QuantizeParams& left = a.body.quantize;
  const abi::QuantizeParams& right = b.body.quantize;
  if (a.body.dtype != b.body.dtype || left.definition != right.definition) return false;
  if (left.definition != abi::Definition::kDefined) return true;
  if (left.kind != right.kind) return false;
  // Other kinds are for weights, which no mover reads.
  if (left.kind != abi::QuantizationKind::kScaleOffset) return true;
  return left.scale_offset.scale == right.scale_offset.scale && left.scale_offset.offset == right.scale_offset.offset;
}

bool is_float(const abi::Tensor& tensor) {
  return tensor.body.dtype == DataType::kFloat16 || tensor.body.dtype == DataType::kFloat32;
}

// Several matrices at once, with rows that do not fill the tiles. (One matrix is wrong in some graphs and right in
// others, which cannot be seen here: the lowering fills up its rows too.)
bool has_ragged_rows(const abi::TensorBody& left) {
  if (left.rank < 3) return false;
  uint64_t matrices = 1;
  for (uint32_t i = 0; i + 2 < left.rank; ++i) matrices *= left.dimensions[i];
  const uint32_t rows = left.dimensions[left.rank - 2];
  return matrices > 1 && (rows < 8 || rows % 4 != 0);
}

}  // namespace

Status check_known_traps(const NodeSpec& node, std::span<const abi::Tensor> inputs,
                         std::span<const abi::Tensor> outputs, int arch, const abi::Version& htp) {
  if (inputs.empty() || outputs.empty()) return {};
  const abi::TensorBody& first = inputs[0].body;
  if (std::ranges::find(kMovers, node.type) != kMovers.end()) {
    for (const abi::Tensor& output : outputs) {
      if (!same_encoding(inputs[0], output)) {
        return unsupported("op {}: HTP's {} copies codes unscaled, so output {} needs the type and encoding of {}",
                           node.name, node.type, output.body.name, first.name);
      }
    }
  }
  if (node.type == "MatMul" && inputs.size() > 1 && first.dtype == DataType::kFixedU16 &&
      (inputs[1].body.dtype == DataType::kFixedS8 || inputs[1].body.dtype == DataType::kFixedS16)) {
    return unsupported("op {}: HTP has no MatMul of u16 and signed numbers; make the second operand u8 or u16",
                       node.name);
  }
  // With any other offset the operand is requantized on the way, symmetrically: errors of 70 to 190 steps of the output
  // instead of 0.8 (V79, K = 64).
  if (node.type == "MatMul" && inputs.size() > 1 && first.dtype == DataType::kFixedU16 &&
      inputs[1].body.dtype == DataType::kFixedU8 && inputs[1].body.quantize.scale_offset.offset != kExactU8Offset) {
    return unsupported("op {}: HTP multiplies u8 exactly around code 128 only; give {} the offset {} instead of {}",
                       node.name, inputs[1].body.name, kExactU8Offset, inputs[1].body.quantize.scale_offset.offset);
  }
  // Right are 8, 12, 16, 24, 28, 32, 36 ... rows; with 1, 2, 4, 7, 9, 14, 15, 17 nothing in the result is, on V69
  // alone, if the rows come from another op. The same happens to rows that a Reshape makes of such a number of tokens,
  // which cannot be seen here: the lowering fills them up.
  if (node.type == "MatMul" && arch == kArchWithWrongMatMul && first.dtype == DataType::kFixedU16 &&
      has_ragged_rows(first)) {
    return unsupported(
        "op {}: V69 multiplies several u16 matrices at once wrongly with {} rows; pad them to 8, 12, 16 ...", node.name,
        first.dimensions[first.rank - 2]);
  }
  // Where a beta has to be given, the lowering gives zeros.
  if (node.type == "RmsNorm" && inputs.size() > 2 && is_float(inputs[0]) && !rms_norm_needs_beta(htp)) {
    return unsupported("op {}: HTP's RmsNorm in float ignores its beta; add it with another op", node.name);
  }
  return {};
}

}  // namespace tandem::qnn
