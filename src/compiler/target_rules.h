// What a target cannot do is refused before work starts, with the rule and a remedy. The rules are those of the
// target's back end; their common part is here. docs/targets.md has them all.
#pragma once

#include <string>
#include <vector>

#include "compiler/backend_compiler.h"

namespace tandem {

// Options that the target's back end does not have are refused; then its own rules resolve `recipe`.
Status apply_target_rules(const TargetRequest& request, Recipe& recipe, std::vector<std::string>& notes);

// ---- For back ends that compute what the recipe says ----

// Applies the CompileOptions that override the recipe.
void override_recipe(const CompileOptions& options, Recipe& recipe);
// Refuses weight formats and KV caches that the target's row does not have, and options of static encodings, which such
// back ends do not use. Calibration data is accepted where something reads it: for open activations, for
// tuning, and for a budget of bits.
Status check_plain_target(const TargetRequest& request, const Recipe& recipe);

}  // namespace tandem
