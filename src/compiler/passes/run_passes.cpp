#include <span>

#include "base/error.h"
#include "compiler/passes/passes.h"
#include "ir/verifier.h"

namespace tandem {

Status run_passes(ir::Graph& graph, const PassContext& context, const DumpCallback& dump) {
  struct Pass {
    std::string_view name;
    Status (*run)(ir::Graph&, const PassContext&);
  };
  static constexpr Pass kInPlace[] = {
      {"share_tied_lm_head", share_tied_lm_head},
      {"rotate_keys", rotate_keys},  // Before caches get their formats.
      {"assign_weight_formats", assign_weight_formats},
      {"shorten_window_caches", shorten_window_caches},
      {"set_cache_format", set_cache_format},
      {"set_io_dtypes", set_io_dtypes},
      {"fuse_gated_activation", fuse_gated_activation},
  };
  // Formats and encodings are set together at the end: integer weights need inputs with encodings.
  static constexpr Pass kStatic[] = {
      {"split_bias", split_bias},
      {"expand_silu", expand_silu},
      {"rotate_keys", rotate_keys},  // While attention is one op.
      {"expand_attention", expand_attention},
      {"resolve_outputs", resolve_outputs},
      {"place_embedding", place_embedding},
      {"set_encodings", set_encodings},
      {"rescore_logits", rescore_logits},
  };
  const std::span<const Pass> passes = context.form != nullptr ? std::span<const Pass>(kStatic) : kInPlace;
  if (dump) dump("build", graph);
  for (const Pass& pass : passes) {
    TANDEM_TRY(pass.run(graph, context));
    if (dump) dump(pass.name, graph);
    if (Status status = ir::verify(graph); !status.ok()) {
      return internal_error("after the pass {}: {}", pass.name, status.error().message);
    }
  }
  return ok_status();
}

}  // namespace tandem
