// Attention: rotary embedding, heads, caches, scores.
#include <algorithm>

#include "backends/qnn/api/version_rules.h"
#include "backends/qnn/lower/graph_lowering.h"
#include "base/error.h"

namespace tandem::qnn {
namespace {

constexpr int kArchWithWrongMatMul = 69;
constexpr uint32_t kTileRows = 16;
constexpr uint32_t kPadWithConstant = 0;

// The largest magnitude that a u16 encoding holds.
float largest(const TensorType& type) {
  return type.encoding->scale * static_cast<float>(std::max(-type.encoding->offset, 65535 + type.encoding->offset));
}

// A slice along one axis.
I32Values slice_ranges(const Shape& shape, size_t axis, uint32_t begin, uint32_t end) {
  I32Values ranges{{dim(static_cast<int64_t>(shape.size())), 3}, {}};
  for (size_t i = 0; i < shape.size(); ++i) {
    ranges.values.push_back(static_cast<int32_t>(i == axis ? begin : 0));
    ranges.values.push_back(static_cast<int32_t>(i == axis ? end : shape[i]));
    ranges.values.push_back(1);
  }
  return ranges;
}

}  // namespace

// Two tables of the whole context, computed now, and a Gather in each call. Gather fails for indices outside the table:
// the run time gives padding the position 0.
Status GraphLowering::rope_table() {
  std::vector<const std::vector<float>*> frequencies;
  for (size_t i = 1; i < op_->inputs.size(); ++i) {
    TANDEM_ASSIGN(const std::vector<float>* frequency, vector(i));
    frequencies.push_back(frequency);
  }
  TANDEM_ASSIGN(const RopeTables tables,
                make_rope_tables(out(0), out(1), frequencies, op_->attributes.factor, graph_.context));
  const Layout indices = values_.io_layout(in_id());
  TANDEM_ASSIGN(const TensorRef positions, values_.get(in_id(), indices));
  Layout rows = indices;
  rows.shape.push_back(dim(width(out())));
  for (size_t i = 0; i < 2; ++i) {
    TANDEM_ASSIGN(const TensorRef table, constant(i == 0 ? tables.cos : tables.sin));
    TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(i), rows));
    TANDEM_TRY(emitter_.node("Gather", {table, positions}, y, {{"axis", int32_t{0}}}));
  }
  return {};
}

// The op needs [1, heads, N, d]; with [1, N, heads, d] it runs, and is wrong. Rope made of slices and products is
// miscompiled after an RmsNorm.
Status GraphLowering::rope() {
  const int64_t heads = width(in()) / op_->attributes.head_dim;
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  const bool takes_type = !type.is_float() || rotary_embedding_takes_floats(htp_version());
  if ((graph_.tokens == 1 || !takes_type) && !op_->attributes.interleaved) return rope_by_parts(heads);
  if (!takes_type) {
    return unsupported("fp16 with rotary embeddings in neighbouring pairs needs QAIRT 2.48 or later; use `recipe` w8");
  }
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), values_.heads(in_id(), heads)));
  const auto table = [&](size_t i) {
    return values_.get(in_id(i), {1, {1, dim(in(i).shape[0]), dim(in(i).shape[1])}});
  };
  TANDEM_ASSIGN(const TensorRef cos, table(1));
  TANDEM_ASSIGN(const TensorRef sin, table(2));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), values_.heads(out_id(), heads)));
  std::vector<NodeParam> params;
  if (op_->attributes.interleaved) params.push_back({"interleaved", true});
  const int64_t rotated = 2 * width(in(1));
  if (rotated != op_->attributes.head_dim) params.push_back({"rotary_embedding_dim", dim(rotated)});
  return emitter_.node("RotaryEmbedding", {x, cos, sin}, y, std::move(params));
}

// Rope from products: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin. In [1, N, heads, d], row by row: with heads before
// rows it is miscompiled after an RmsNorm.
Status GraphLowering::rope_by_parts(int64_t heads) {
  TANDEM_ASSIGN(const TensorType type, type_of(in()));
  TANDEM_ASSIGN(const TensorType result_type, type_of(out()));
  const uint32_t half = dim(width(in(1))), size = dim(op_->attributes.head_dim), rows = dim(graph_.tokens);
  const Layout layout = values_.split(in_id(), heads);
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout));
  TANDEM_ASSIGN(const TensorRef cos, values_.get(in_id(1), {1, {1, rows, 1, half}}));
  TANDEM_ASSIGN(const TensorRef sin, values_.get(in_id(2), {1, {1, rows, 1, half}}));
  const auto shape = [&](uint32_t last) { return Shape{1, rows, dim(heads), last}; };
  const auto part = [&](const char* name, uint32_t begin, uint32_t end) -> Result<TensorRef> {
    TANDEM_ASSIGN(const TensorRef y, between(name, type, shape(end - begin)));
    TANDEM_TRY(emitter_.node("StridedSlice", {x}, y, {{"ranges", slice_ranges(layout.shape, 3, begin, end)}}));
    return y;
  };
  // No product is beyond that of the largest numbers.
  TensorType product_type = type;
  if (!type.is_float()) {
    TANDEM_ASSIGN(const TensorType cos_type, type_of(in(1)));
    TANDEM_ASSIGN(const TensorType sin_type, type_of(in(2)));
    const float most = largest(type) * std::max(largest(cos_type), largest(sin_type));
    product_type = {DataType::kFixedU16, encoding_for_range(DataType::kFixedU16, -most, most)};
  }
  const auto combine = [&](const char* name, std::string_view op, const TensorType& as, TensorRef a,
                           TensorRef b) -> Result<TensorRef> {
    TANDEM_ASSIGN(const TensorRef y, between(name, as, shape(half)));
    TANDEM_TRY(emitter_.node(op, {a, b}, y));
    return y;
  };
  TANDEM_ASSIGN(const TensorRef x1, part("x1", 0, half));
  TANDEM_ASSIGN(const TensorRef x2, part("x2", half, 2 * half));
  TANDEM_ASSIGN(const TensorRef x1_cos, combine("x1_cos", "ElementWiseMultiply", product_type, x1, cos));
  TANDEM_ASSIGN(const TensorRef x2_sin, combine("x2_sin", "ElementWiseMultiply", product_type, x2, sin));
  TANDEM_ASSIGN(const TensorRef x2_cos, combine("x2_cos", "ElementWiseMultiply", product_type, x2, cos));
  TANDEM_ASSIGN(const TensorRef x1_sin, combine("x1_sin", "ElementWiseMultiply", product_type, x1, sin));
  TANDEM_ASSIGN(const TensorRef y1, combine("y1", "ElementWiseSubtract", result_type, x1_cos, x2_sin));
  TANDEM_ASSIGN(const TensorRef y2, combine("y2", "ElementWiseAdd", result_type, x2_cos, x1_sin));
  std::vector<TensorRef> parts = {y1, y2};
  if (2 * half < size) {
    TANDEM_ASSIGN(const TensorRef rest, part("rest", 2 * half, size));
    parts.push_back(rest);
  }
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), values_.split(out_id(), heads)));
  return emitter_.node("Concat", std::move(parts), y, {{"axis", uint32_t{3}}});
}

// The result saturates at the ends of the input's encoding, whatever its own is: calibration makes the input's wide
// enough for both (compiler/calibration/calibrate.cpp).
Status GraphLowering::hadamard() {
  const int64_t size = op_->attributes.head_dim;
  TANDEM_ASSIGN(const TensorType from, type_of(in()));
  TANDEM_ASSIGN(const TensorType to, type_of(out()));
  if (from.dtype != DataType::kFixedU16 || to.dtype != DataType::kFixedU16) {
    return unsupported("HTP rotates heads of 16-bit integers only; take \"r3\" out of the recipe");
  }
  const int64_t heads = width(in()) / size;
  const Layout apart = values_.heads(in_id(), heads);
  // No MatMul can be created behind one head in [1, 1, N, d]; behind [1, N, 1, d] it can.
  const Layout layout = heads > 1 && values_.has(in_id(), apart) ? apart : values_.split(in_id(), heads);
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node("HadamardTransform", {x}, y);
}

Status GraphLowering::split_heads() {
  const int64_t heads = out().shape[0];
  // One row is the same in all layouts.
  if (graph_.tokens == 1) return reencode(in_id(), out_id(), values_.with_last(in_id(), op_->attributes.head_dim));
  const Layout apart = values_.heads(in_id(), heads);
  // Where the heads are not split yet, the encoding is changed first: a cache's values are smaller.
  return reencode(in_id(), out_id(), values_.has(in_id(), apart) ? apart : values_.rows(in_id()));
}

Status GraphLowering::join_heads() { return reencode(in_id(), out_id(), values_.with_last(in_id(), width(in()))); }

Status GraphLowering::append_rows() {
  TANDEM_ASSIGN(const TensorRef cache, values_.get(in_id(0), values_.io_layout(in_id(0))));
  TANDEM_ASSIGN(const TensorRef rows, values_.get(in_id(1), values_.io_layout(in_id(1))));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), values_.io_layout(out_id())));
  return emitter_.node("Concat", {cache, rows}, y, {{"axis", uint32_t{2}}});
}

// Heads that share a matrix are rows of one product: nothing is repeated.
Status GraphLowering::matmul() {
  const int64_t heads = in(0).shape[0], groups = in(1).shape[0], tokens = in(0).shape[1];
  TANDEM_ASSIGN(const TensorType type, type_of(in(0)));
  const Layout rows = values_.grouped(in_id(0), heads, groups), results = values_.grouped(out_id(), heads, groups);
  TANDEM_ASSIGN(const TensorRef a, values_.get(in_id(0), rows));
  TANDEM_ASSIGN(const TensorRef b, values_.get(in_id(1), values_.io_layout(in_id(1))));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), results));
  std::vector<NodeParam> params;
  if (op_->attributes.transpose_b) params.push_back({"transpose_in1", true});
  const bool fills_tiles = tokens % 4 == 0 && tokens >= 8;
  if (target()->context()->device()->arch() != kArchWithWrongMatMul || type.is_float() || fills_tiles) {
    return emitter_.node("MatMul", {a, b}, y, std::move(params));
  }
  // V69 multiplies wrongly, with nothing right in the result, where the rows, or the tokens that they were made of, are
  // fewer than 8 or no multiple of 4: always if several matrices are multiplied at once, with one matrix from some 32
  // cached tokens on. Rows of zeros fill them up.
  const uint32_t count = rows.shape[2], filled = (count / kTileRows + 1) * kTileRows;
  Shape padded_shape = rows.shape, product_shape = results.shape;
  padded_shape[2] = product_shape[2] = filled;
  TANDEM_ASSIGN(const TensorType result_type, type_of(out()));
  TANDEM_ASSIGN(const TensorRef padded, between("padded", type, padded_shape));
  TANDEM_ASSIGN(const TensorRef product, between("product", result_type, product_shape));
  TANDEM_TRY(emitter_.node("Pad", {a}, padded,
                           {{"scheme", kPadWithConstant},
                            {"pad_amount", U32Values{{4, 2}, {0, 0, 0, 0, 0, filled - count, 0, 0}}},
                            {"pad_constant_value", in(0).encoding.zero_point}}));
  TANDEM_TRY(emitter_.node("MatMul", {padded, b}, product, std::move(params)));
  return emitter_.node("StridedSlice", {product}, y, {{"ranges", slice_ranges(results.shape, 2, 0, count)}});
}

// Heads of [1, heads, N, d], or of [1, 1, heads, d] where there is one row; columns of any layout that has them last.
Status GraphLowering::slice() {
  const bool by_heads = in().shape.size() == 3 && op_->attributes.axis == 0;
  Layout from, to;
  size_t axis = 0;
  if (by_heads) {
    const bool one_row = graph_.tokens == 1;
    from = one_row ? values_.grouped(in_id(), in().shape[0], 1) : values_.io_layout(in_id());
    to = one_row ? values_.grouped(out_id(), out().shape[0], 1) : values_.io_layout(out_id());
    axis = one_row ? 2 : 1;
  } else {
    from = values_.with_last(in_id(), width(in()));
    to = from;
    to.shape.back() = dim(width(out()));
    axis = from.shape.size() - 1;
  }
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), from));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), to));
  const uint32_t begin = dim(op_->attributes.begin), end = begin + to.shape[axis];
  return emitter_.node("StridedSlice", {x}, y, {{"ranges", slice_ranges(from.shape, axis, begin, end)}});
}

// One row of mask fits any layout of the scores; several are the same for every head.
Layout GraphLowering::score_layout() const {
  return in(0).shape[1] == 1 ? values_.with_last(in_id(0), width(in(0))) : values_.io_layout(in_id(0));
}

Status GraphLowering::add_mask() {
  const Layout layout = score_layout();
  TANDEM_ASSIGN(const TensorRef scores, values_.get(in_id(0), layout));
  TANDEM_ASSIGN(const TensorRef mask, values_.get(in_id(1), values_.io_layout(in_id(1))));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node("ElementWiseAdd", {scores, mask}, y);
}

// An addition and a Softmax that the compiler makes one op of (lower.cpp asks it to). Where it does not, the sum is in
// an encoding that holds all there can be.
Status GraphLowering::masked_softmax() {
  const Layout layout = score_layout();
  TANDEM_ASSIGN(TensorType sum, type_of(in(0)));
  if (!sum.is_float()) {
    TANDEM_ASSIGN(const TensorType mask_type, type_of(in(1)));
    const auto low = [](const ScaleOffset& e) { return e.scale * static_cast<float>(e.offset); };
    const float high = sum.encoding->scale * static_cast<float>(65535 + sum.encoding->offset);
    sum.encoding =
        encoding_for_range(DataType::kFixedU16, low(*sum.encoding) + low(*mask_type.encoding), std::max(high, 0.0f));
  }
  TANDEM_ASSIGN(const TensorRef scores, values_.get(in_id(0), layout));
  TANDEM_ASSIGN(const TensorRef mask, values_.get(in_id(1), values_.io_layout(in_id(1))));
  TANDEM_ASSIGN(const TensorRef masked, between("masked", sum, layout.shape));
  TANDEM_TRY(emitter_.node("ElementWiseAdd", {scores, mask}, masked));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node("Softmax", {masked}, y, softmax_params(layout));
}

std::vector<NodeParam> GraphLowering::softmax_params(const Layout& layout) const {
  return {{"axis", static_cast<uint32_t>(layout.shape.size() - 1)}, {"beta", op_->attributes.factor}};
}

Status GraphLowering::softmax() {
  const Layout layout = values_.with_last(in_id(), width(in()));
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node("Softmax", {x}, y, softmax_params(layout));
}

}  // namespace tandem::qnn
