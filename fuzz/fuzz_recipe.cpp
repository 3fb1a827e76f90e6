// Recipes from hostile JSON: an error or a recipe that survives being written and read again, and answers for any name.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "quant/recipe.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)tandem::Glob::compile(text);
  const auto recipe = tandem::Recipe::from_json(text);
  if (!recipe.ok()) {
    if (recipe.error().message.empty()) std::abort();
    return 0;
  }
  const auto again = tandem::Recipe::from_json(recipe->to_json());
  if (!again.ok() || !(*again == *recipe)) std::abort();
  const std::vector<std::string> names = {"embedding",          "head", "layers.0.attention.q",
                                          "layers.27.mlp.down", "",     std::string(text.substr(0, 64))};
  for (const std::string& name : names) (void)recipe->spec_for(name);
  (void)recipe->unmatched_rules(names);
  return 0;
}
