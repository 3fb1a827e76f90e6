// tandem targets: what a compile can be for.
#include <CLI/CLI.hpp>

#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "compiler/targets.h"

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
    if (json) {
      Json item = {
          {"name", t.name}, {"backend", t.backend}, {"weights", weights}, {"kv", kv}, {"description", t.description}};
      if (t.is_npu()) {
        item["soc_model"] = t.soc_model;
        item["hexagon"] = t.arch;
        item["vtcm_mb"] = t.vtcm_mb;
        item["shares_weights"] = t.shares_weights;
        item["estimate_of"] = estimated_as(t).name;
      }
      list.push_back(std::move(item));
      continue;
    }
    show("{}  ({} back end)", t.name, t.backend);
    show("  {}", t.description);
    if (t.is_npu()) {
      show("  SoC {}, Hexagon V{}, {} MB of VTCM; prefill and decode {}", t.soc_model, t.arch, t.vtcm_mb,
           t.shares_weights ? "share weights" : "cannot share weights: use --mode kv or --unshared");
    }
    show("  weights: {}", weights);
    show("  KV cache: {}{}", kv, t.updates_cache_in_place ? ", updated in place" : "");
    if (t.is_npu()) {
      const Target& simulated = estimated_as(t);
      show("  estimates: {}", t.is_simulated ? "of the chip itself"
                                             : str_format("of a relative, {} (V{})", simulated.name, simulated.arch));
    }
  }
  if (json) {
    show_json(list, 2);
  } else {
    show_line("");
    show("NPUs: a graph has at most {} MB, a shard {} MB; docs/targets.md has the rules.", kNpuGraphLimit >> 20,
         kNpuShardLimit >> 20);
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
