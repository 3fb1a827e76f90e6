// tandem targets: lists the targets that a model can be compiled for.
#include <CLI/CLI.hpp>

#include "base/json.h"
#include "cli/commands.h"
#include "cli/flag_names.h"
#include "compiler/backend_compiler.h"

namespace tandem {
namespace targets_command {

template <typename List, typename Name>
std::string joined(const List& list, Name&& name) {
  std::string text;
  for (const auto& item : list) text += (text.empty() ? "" : ", ") + std::string(name(item));
  return text;
}

void run(bool json) {
  Json list = Json::array();
  for (const Target& t : targets()) {
    const std::string weights = joined(t.weight_formats, weight_format_name), kv = joined(t.kv_dtypes, dtype_name);
    const TargetDetails details = compiler_of(t).details(t);
    if (json) {
      Json item = {
          {"name", t.name}, {"backend", t.backend}, {"weights", weights}, {"kv", kv}, {"description", t.description}};
      item.update(details.json);
      list.push_back(std::move(item));
      continue;
    }
    show("{}  ({} back end)", t.name, t.backend);
    show("  {}", t.description);
    if (!details.hardware.empty()) show("  {}", with_flags(details.hardware));
    show("  weights: {}", weights);
    show("  KV cache: {}", kv);
    if (!details.estimates.empty()) show("  estimates: {}", details.estimates);
  }
  if (json) {
    show_json(list, 2);
    return;
  }
  for (const BackendCompiler* compiler : backend_compilers()) {
    const std::string footnote = compiler->footnote();
    if (footnote.empty()) continue;
    show_line("");
    show("{}", footnote);
  }
}

}  // namespace targets_command

void add_targets_command(CLI::App& app) {
  using namespace targets_command;
  CLI::App* command = app.add_subcommand("targets", "List what a compile can be for");
  command->footer("Example:\n  tandem targets");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] { run(*json); });
}

}  // namespace tandem
