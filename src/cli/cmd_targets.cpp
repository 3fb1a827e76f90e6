// tandem targets: what a compile can be for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "cli/commands.h"
#include "compiler/targets.h"

namespace tandem {
namespace {

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
    if (json) {
      list.push_back(
          {{"name", t.name}, {"backend", t.backend}, {"weights", weights}, {"kv", kv}, {"description", t.description}});
    } else {
      fmt::print("{}  ({} back end)\n  {}\n  weights: {}\n  KV cache: {}{}\n", t.name, t.backend, t.description,
                 weights, kv, t.updates_cache_in_place ? ", updated in place" : "");
    }
  }
  if (json) fmt::print("{}\n", dump_json(list, 2));
}

}  // namespace

void add_targets_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("targets", "List what a compile can be for");
  command->footer("Example:\n  tandem targets");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "As JSON");
  command->callback([json] { run(*json); });
}

}  // namespace tandem
