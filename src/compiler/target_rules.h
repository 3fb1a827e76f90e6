// What a target cannot do is refused before work starts, with the rule and the way out. docs/targets.md has the rules.
#pragma once

#include <string>
#include <vector>

#include "compiler/compile.h"
#include "compiler/targets.h"
#include "models/model_plan.h"

namespace tandem {

// Settles `recipe` for the target: the KV format if nobody gave one, the head's format and rescoring, weights that a
// block does not divide. What was changed is told in `notes`.
Status apply_target_rules(const Target& target, const ModelPlan& plan, const CompileOptions& options,
                          const std::vector<int64_t>& prefill, Recipe& recipe, std::vector<std::string>& notes);

// Whether activations are f16 (true) or integers with encodings, on an NPU.
bool computes_in_f16(const Recipe& recipe);
// Whether an NPU's compile leaves the embedding to the CPU: a table in 16 bits of its own would be too large, or the
// CPU needs the rows anyway, to rescore logits.
bool embedding_on_host(const ModelPlan& plan, const Recipe& recipe);

}  // namespace tandem
