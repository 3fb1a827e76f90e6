// What an NPU cannot do, and what a recipe means on one. docs/targets.md has the rules.
#pragma once

#include <string>
#include <vector>

#include "backends/qnn/compile/npu_options.h"
#include "compiler/backend_compiler.h"

namespace tandem {

// Resolves `recipe` for an NPU: the KV format if none was given, the LM head's format and rescoring, weights that a
// block does not divide. `notes` reports what was changed.
Status apply_npu_rules(const TargetRequest& request, const NpuOptions& npu, Recipe& recipe,
                       std::vector<std::string>& notes);

// Whether activations are f16 (true) or integers with encodings.
bool computes_in_f16(const Recipe& recipe);
// Whether the CPU looks up the embedding: a 16-bit table in the graph would be too large, or the CPU needs the rows
// anyway, to rescore logits.
bool embedding_on_host(const ModelPlan& plan, const Recipe& recipe);

}  // namespace tandem
