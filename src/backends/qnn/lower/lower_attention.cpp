// Attention: rotary embedding, heads, caches, scores.
#include "backends/qnn/lower/graph_lowering.h"
#include "base/error.h"

namespace tandem::qnn {
namespace {

constexpr int kArchWithWrongMatMul = 69;
constexpr uint32_t kTileRows = 16;
constexpr uint32_t kPadWithConstant = 0;

}  // namespace

// Two tables of the whole context, computed now, and a Gather in each call. Gather fails for indices that are not
// there: the run time gives padding the position 0.
Status GraphLowering::rope_table() {
  std::vector<const std::vector<float>*> frequencies;
  for (size_t i = 1; i < op_->inputs.size(); ++i) {
    TANDEM_ASSIGN(const std::vector<float>* frequency, vector(i));
    frequencies.push_back(frequency);
  }
  TANDEM_ASSIGN(const RopeTables tables,
                make_rope_tables(out(0), out(1), frequencies, op_->attributes.factor, graph_.context));
  const Layout indices = values_.border(in_id());
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

// The op wants [1, heads, N, d]; with [1, N, heads, d] it runs, and is wrong. Rope made of slices and products is
// miscompiled behind an RmsNorm.
Status GraphLowering::rope() {
  const int64_t heads = width(in()) / op_->attributes.head_dim;
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

Status GraphLowering::split_heads() {
  const int64_t heads = out().shape[0];
  const Layout apart = values_.heads(in_id(), heads);
  // Where the heads are not apart yet, the encoding is changed first: a cache's codes are smaller.
  return reencode(in_id(), out_id(), values_.has(in_id(), apart) ? apart : values_.rows(in_id()));
}

Status GraphLowering::join_heads() { return reencode(in_id(), out_id(), values_.with_last(in_id(), width(in()))); }

Status GraphLowering::append_rows() {
  TANDEM_ASSIGN(const TensorRef cache, values_.get(in_id(0), values_.border(in_id(0))));
  TANDEM_ASSIGN(const TensorRef rows, values_.get(in_id(1), values_.border(in_id(1))));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), values_.border(out_id())));
  return emitter_.node("Concat", {cache, rows}, y, {{"axis", uint32_t{2}}});
}

// Heads that share a matrix are rows of one product: nothing is repeated.
Status GraphLowering::matmul() {
  const int64_t heads = in(0).shape[0], groups = in(1).shape[0], tokens = in(0).shape[1];
  TANDEM_ASSIGN(const TensorType type, type_of(in(0)));
  const Layout rows = values_.grouped(in_id(0), heads, groups), results = values_.grouped(out_id(), heads, groups);
  TANDEM_ASSIGN(const TensorRef a, values_.get(in_id(0), rows));
  TANDEM_ASSIGN(const TensorRef b, values_.get(in_id(1), values_.border(in_id(1))));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), results));
  std::vector<NodeParam> params;
  if (op_->attributes.transpose_b) params.push_back({"transpose_in1", true});
  const bool fills_tiles = tokens % 4 == 0 && tokens >= 8;
  if (target()->context()->device()->arch() != kArchWithWrongMatMul || type.is_float() || fills_tiles) {
    return emitter_.node("MatMul", {a, b}, y, std::move(params));
  }
  // V69 multiplies wrongly, with nothing right in the result, where several matrices are multiplied at once and the
  // rows, or the tokens that they were made of, are fewer than 8 or no multiple of 4. Rows of zeros fill them up.
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
  const auto end = [&](size_t i) { return static_cast<int32_t>(results.shape[i]); };
  return emitter_.node("StridedSlice", {product}, y,
                       {{"ranges", I32Values{{4, 3}, {0, end(0), 1, 0, end(1), 1, 0, end(2), 1, 0, end(3), 1}}}});
}

Status GraphLowering::add_mask() {
  // One row of mask fits any layout of the scores; several are the same for every head.
  const Layout layout = in(0).shape[1] == 1 ? values_.with_last(in_id(0), width(in(0))) : values_.border(in_id(0));
  TANDEM_ASSIGN(const TensorRef scores, values_.get(in_id(0), layout));
  TANDEM_ASSIGN(const TensorRef mask, values_.get(in_id(1), values_.border(in_id(1))));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node("ElementWiseAdd", {scores, mask}, y);
}

Status GraphLowering::softmax() {
  const Layout layout = values_.with_last(in_id(), width(in()));
  TANDEM_ASSIGN(const TensorRef x, values_.get(in_id(), layout));
  TANDEM_ASSIGN(const TensorRef y, values_.define(out_id(), layout));
  return emitter_.node("Softmax", {x}, y,
                       {{"axis", static_cast<uint32_t>(layout.shape.size() - 1)}, {"beta", op_->attributes.factor}});
}

}  // namespace tandem::qnn
