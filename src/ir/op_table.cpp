#include "ir/op_table.h"

namespace tandem::ir {
namespace {

using Kind = OpKind;
using In = InputKind;

constexpr std::array<OpInfo, kOpKindCount> kOps = {{
    {.kind = Kind::kEmbedding, .name = "embedding", .inputs = {In::kIndices, In::kWeight}, .may_run_on_host = true},
    {.kind = Kind::kLinear, .name = "linear", .inputs = {In::kNumbers, In::kWeight, In::kVector}, .optional_inputs = 1},
    {.kind = Kind::kRmsNorm, .name = "rms_norm", .inputs = {In::kNumbers, In::kVector}},
    {.kind = Kind::kLayerNorm, .name = "layer_norm", .inputs = {In::kNumbers, In::kVector, In::kVector}},
    {.kind = Kind::kAdd, .name = "add", .inputs = {In::kNumbers, In::kNumbers}},
    {.kind = Kind::kMul, .name = "mul", .inputs = {In::kNumbers, In::kNumbers}},
    {.kind = Kind::kScale, .name = "scale", .inputs = {In::kNumbers}},
    {.kind = Kind::kSilu, .name = "silu", .inputs = {In::kNumbers}, .form = OpForm::kDynamic},
    {.kind = Kind::kGeluTanh, .name = "gelu_tanh", .inputs = {In::kNumbers}},
    {.kind = Kind::kSiluMul, .name = "silu_mul", .inputs = {In::kNumbers, In::kNumbers}, .form = OpForm::kDynamic},
    {.kind = Kind::kGeluTanhMul,
     .name = "gelu_tanh_mul",
     .inputs = {In::kNumbers, In::kNumbers},
     .form = OpForm::kDynamic},
    {.kind = Kind::kSoftcap, .name = "softcap", .inputs = {In::kNumbers}},
    {.kind = Kind::kRopeTable,
     .name = "rope_table",
     .inputs = {In::kIndices, In::kVector, In::kVector},
     .optional_inputs = 1,
     .outputs = 2},
    {.kind = Kind::kRope, .name = "rope", .inputs = {In::kNumbers, In::kNumbers, In::kNumbers}},
    {.kind = Kind::kStoreKv,
     .name = "store_kv",
     .inputs = {In::kNumbers, In::kIndices, In::kCache, In::kCacheScales},
     .optional_inputs = 1,
     .outputs = 0,
     .looks_across_tokens = true,
     .form = OpForm::kDynamic},
    {.kind = Kind::kAttention,
     .name = "attention",
     .inputs = {In::kNumbers, In::kCache, In::kCache, In::kNumbers, In::kIndices, In::kCacheScales, In::kCacheScales},
     .optional_inputs = 2,
     .looks_across_tokens = true,
     .form = OpForm::kDynamic},
    {.kind = Kind::kMaskToFloat, .name = "mask_to_float", .inputs = {In::kEncodedMask}, .form = OpForm::kDynamic},
    {.kind = Kind::kConvert, .name = "convert", .inputs = {In::kNumbers}},
    {.kind = Kind::kSplitHeads, .name = "split_heads", .inputs = {In::kNumbers}, .form = OpForm::kStatic},
    {.kind = Kind::kJoinHeads, .name = "join_heads", .inputs = {In::kNumbers}, .form = OpForm::kStatic},
    {.kind = Kind::kAppendRows,
     .name = "append_rows",
     .inputs = {In::kCache, In::kNumbers},
     .looks_across_tokens = true,
     .form = OpForm::kStatic},
    {.kind = Kind::kMatMul,
     .name = "matmul",
     .inputs = {In::kNumbers, In::kNumbersOrCache},
     .looks_across_tokens = true,
     .form = OpForm::kStatic},
    {.kind = Kind::kAddMask, .name = "add_mask", .inputs = {In::kNumbers, In::kMask}, .form = OpForm::kStatic},
    {.kind = Kind::kSoftmax, .name = "softmax", .inputs = {In::kNumbers}, .form = OpForm::kStatic},
    {.kind = Kind::kSigmoid, .name = "sigmoid", .inputs = {In::kNumbers}, .form = OpForm::kStatic},
    {.kind = Kind::kAddVector, .name = "add_vector", .inputs = {In::kNumbers, In::kVector}, .form = OpForm::kStatic},
    {.kind = Kind::kConcat, .name = "concat", .inputs = {In::kNumbers}, .repeats = true, .form = OpForm::kStatic},
    {.kind = Kind::kQuantizedAttention,
     .name = "quantized_attention",
     .inputs = {In::kNumbers, In::kCache, In::kCache, In::kNumbers, In::kIndices, In::kCacheScales, In::kCacheScales},
     .looks_across_tokens = true,
     .form = OpForm::kDynamic},
    {.kind = Kind::kSlice, .name = "slice", .inputs = {In::kNumbers}, .form = OpForm::kStatic},
    {.kind = Kind::kMaskedSoftmax,
     .name = "masked_softmax",
     .inputs = {In::kNumbers, In::kMask},
     .form = OpForm::kStatic},
    {.kind = Kind::kRescore,
     .name = "rescore",
     .inputs = {In::kNumbers, In::kNumbers, In::kWeight},
     .form = OpForm::kStatic,
     .may_run_on_host = true},
    {.kind = Kind::kHadamard, .name = "hadamard", .inputs = {In::kNumbers}},
}};

constexpr bool ops_are_in_order() {
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (kOps[i].kind != static_cast<OpKind>(i) || kOps[i].name.empty()) return false;
  }
  return true;
}
static_assert(ops_are_in_order(), "a row stands at the place of its kind");

}  // namespace

const OpInfo& op_info(OpKind kind) { return kOps[static_cast<size_t>(kind)]; }

}  // namespace tandem::ir
