// The compiler's passes, one per file, in the order they run. Each turns a graph into an equivalent one, or applies a
// part of the recipe to it. `tandem compile --dump-ir` prints the graph after each.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "compiler/passes/attention_form.h"
#include "ir/graph.h"
#include "models/model_plan.h"
#include "quant/encoding_table.h"
#include "quant/recipe.h"
#include "tandem/status.h"

namespace tandem {

// What a back end with fixed graphs needs (ir/graph.h describes the two forms of attention).
struct StaticForm {
  AttentionForms attention;
  bool fold_mask = false;          // The softmax adds the mask.
  bool trace = false;              // The hidden state after each layer becomes an output.
  bool embedding_on_host = false;  // Looked up by the CPU.
  // Without a value, activations stay f32, for calibration. Otherwise each gets its encoding; with kF16 all become f16.
  enum class Numbers { kFloat32, kFloat16, kEncoded } numbers = Numbers::kFloat32;
  const EncodingTable* encodings = nullptr;
};

struct PassContext {
  const ModelPlan& plan;
  const Recipe& recipe;
  ir::Encoding logits_encoding = {};  // For integer logits: from calibration.
  const StaticForm* form = nullptr;   // Null: caches are updated in place.
  int64_t most_tokens = 0;            // Of the methods that share the caches; 0: this is the only one.
};

// Writes the recipe's format of a weight into its tensor.
inline void set_weight_format(ir::Tensor& weight, const WeightSpec& spec) {
  weight.format = spec.format;
  weight.block = spec.format == WeightFormat::kLpbq4 ? spec.block : 0;
}

// The name in recipes of the linear layer with this weight: a shared table that is multiplied with is the LM head.
inline std::string_view linear_layer_name(const ir::Tensor& weight) {
  return weight.purpose.kind == ir::PurposeKind::kEmbedding ? "head" : std::string_view(weight.name);
}

// A model with tied embeddings whose embedding and LM head have the same format keeps one copy of them.
Status share_tied_lm_head(ir::Graph& graph, const PassContext& context);
// Queries and keys are rotated before they meet (transforms.rotate_keys): keys with outliers in a few channels lose
// less in a cache of few bits.
Status rotate_keys(ir::Graph& graph, const PassContext& context);
// Weights get the formats that the recipe assigns, and linear layers with integer weights round their input. No layer's
// activations may be open (choose_activations.h).
Status assign_weight_formats(ir::Graph& graph, const PassContext& context);
// Caches of layers with a window keep only the window and the rows that a call adds.
Status shorten_window_caches(ir::Graph& graph, const PassContext& context);
// Caches get the recipe's dtype; u8 caches get scales beside them.
Status set_cache_format(ir::Graph& graph, const PassContext& context);
// The mask and the logits get the recipe's dtypes.
Status set_io_dtypes(ir::Graph& graph, const PassContext& context);
// silu(gate) * up becomes one op.
Status fuse_gated_activation(ir::Graph& graph, const PassContext& context);

// ---- For fixed graphs ----

// A linear layer's bias becomes a separate op.
Status split_bias(ir::Graph& graph, const PassContext& context);
// silu(x) becomes x * sigmoid(x).
Status expand_silu(ir::Graph& graph, const PassContext& context);
// StoreKv and Attention become products over the cache and the call's own rows, which become outputs. The form
// (form.attention) says how heads are split.
Status expand_attention(ir::Graph& graph, const PassContext& context);
// The logits are written by the op that computes them, and traces (form.trace) become outputs.
Status resolve_outputs(ir::Graph& graph, const PassContext& context);
// The embedding is marked for the CPU (form.embedding_on_host).
Status place_embedding(ir::Graph& graph, const PassContext& context);
// Activations, inputs, outputs and caches get their dtypes and encodings (form.numbers).
Status set_encodings(ir::Graph& graph, const PassContext& context);
// The CPU recomputes the largest logits of an LM head in few bits (recipe.rescore).
Status rescore_logits(ir::Graph& graph, const PassContext& context);

// Called with the pass's name and the graph after it ("build" before the first).
using DumpCallback = std::function<void(std::string_view pass, const ir::Graph& graph)>;

// Runs the passes for the context's form, verifying the graph after each.
Status run_passes(ir::Graph& graph, const PassContext& context, const DumpCallback& dump);

}  // namespace tandem
