#include "compiler/passes/attention_form.h"

#include <array>

#include "base/error.h"

namespace tandem {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"mha", "gqa", "sha"};

}  // namespace

std::string attention_form_name(const AttentionForm& form) {
  std::string name(kNames[static_cast<size_t>(form.heads)]);
  if (form.keys_apart || form.values_apart) name += "+";
  if (form.keys_apart) name += "k";
  if (form.values_apart) name += "v";
  return name;
}

std::vector<AttentionForm> all_attention_forms() {
  std::vector<AttentionForm> forms;
  for (size_t heads = 0; heads < kNames.size(); ++heads) {
    for (const bool keys : {false, true}) {
      for (const bool values : {false, true}) forms.push_back({static_cast<AttentionForm::Heads>(heads), keys, values});
    }
  }
  return forms;
}

Result<AttentionForm> parse_attention_form(std::string_view name) {
  for (const AttentionForm& form : all_attention_forms()) {
    if (attention_form_name(form) == name) return form;
  }
  return invalid_argument(
      "\"{}\" is no form of attention; give mha, gqa or sha, with +k, +v or +kv behind it where the cache is "
      "multiplied apart",
      name);
}

}  // namespace tandem
