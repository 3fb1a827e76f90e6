#include "backends/qnn/compile/chip_file.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "backends/qnn/api/backend.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxFileBytes = uint64_t{64} << 10;
constexpr size_t kMaxName = 64;

constexpr std::string_view kKeys[] = {"name",   "base",        "soc_model",          "hexagon",   "vtcm_mb",
                                      "limits", "hvx_threads", "optimization_level", "signed_pd", "profile"};
constexpr std::string_view kLimitKeys[] = {"graph_mb", "binary_mb"};

Status check_chip_keys(const Json& object, std::span<const std::string_view> known, std::string_view where) {
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    return invalid_argument("the key \"{}\"{} is unknown; these are known: {}", key, where, str_join(known, ", "));
  }
  return ok_status();
}

Result<std::optional<int64_t>> chip_number(const Json& object, std::string_view key, int64_t least, int64_t most) {
  TANDEM_ASSIGN(const std::optional<int64_t> value, json_int(object, key));
  if (value && (*value < least || *value > most)) {
    return invalid_argument("\"{}\" is {}; give a whole number from {} to {}", key, *value, least, most);
  }
  return value;
}

bool is_chip_name(std::string_view text) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !text.empty() && text.size() <= kMaxName && std::ranges::all_of(text, fits);
}

// The row that fills what the file leaves out: the one it names, or that of the same chip.
Result<const NpuTarget*> base_of(const Json& json, const std::optional<int64_t>& soc_model) {
  TANDEM_ASSIGN(const std::optional<std::string> base, json_string(json, "base"));
  const auto rows = npu_targets();
  const auto found = base
                         ? std::ranges::find(rows, *base, &NpuTarget::name)
                         : std::ranges::find(rows, static_cast<uint32_t>(soc_model.value_or(0)), &NpuTarget::soc_model);
  if (found != rows.end()) return &*found;
  if (base) return invalid_argument("\"base\" is \"{}\", which is no NPU target; `tandem targets` lists them", *base);
  return nullptr;
}

Status check_chip_arch(int64_t arch, uint32_t soc_model) {
  const auto known = qnn::known_archs();
  if (std::ranges::find(known, arch) == known.end()) {
    return unsupported("\"hexagon\" is {}, an architecture that tandem does not support; these are supported: {}", arch,
                       str_join(known, ", "));
  }
  const int right = qnn::known_arch(soc_model);
  if (right == 0 || right == arch) return ok_status();
  return invalid_argument("\"hexagon\" is {}, and the SoC number {} has the architecture V{}", arch, soc_model, right);
}

Status read_chip_limits(const Json& json, NpuTarget& target) {
  const auto found = json.find("limits");
  if (found == json.end()) return ok_status();
  if (!found->is_object()) return invalid_argument("\"limits\" is no object");
  TANDEM_TRY(check_chip_keys(*found, kLimitKeys, " of \"limits\""));
  constexpr auto kMostMb = static_cast<int64_t>(kNpuGraphLimit >> 20);
  TANDEM_ASSIGN(const std::optional<int64_t> graph, chip_number(*found, "graph_mb", 1, kMostMb));
  TANDEM_ASSIGN(const std::optional<int64_t> binary, chip_number(*found, "binary_mb", 1, kMostMb));
  if (graph) target.graph_limit = static_cast<uint64_t>(*graph) << 20;
  if (binary) target.binary_limit = static_cast<uint64_t>(*binary) << 20;
  // Nothing is planned beyond what the chip is said to load.
  target.usual_limit = std::min({target.usual_limit, target.graph_limit, target.binary_limit});
  return ok_status();
}

// As options, whose own specs say which values are possible.
Status read_chip_settings(const Json& json, BackendOptions& settings) {
  for (const auto& [key, option] :
       {std::pair("hvx_threads", "hvx-threads"), {"optimization_level", "optimization-level"}}) {
    TANDEM_ASSIGN(const std::optional<int64_t> value, json_int(json, key));
    if (value) settings[option] = str_format("{}", *value);
  }
  TANDEM_ASSIGN(const std::optional<bool> signed_pd, json_bool(json, "signed_pd"));
  if (signed_pd) settings["signed-pd"] = *signed_pd ? "true" : "false";
  TANDEM_ASSIGN(const std::optional<std::string> profile, json_string(json, "profile"));
  if (profile) settings["profile"] = *profile;
  return ok_status();
}

}  // namespace

Result<ChipFile> parse_chip(std::string_view text) {
  TANDEM_ASSIGN(const Json json, parse_json(text, "the description of a chip"));
  if (!json.is_object()) return invalid_argument("the description of a chip is no JSON object");
  TANDEM_TRY(check_chip_keys(json, kKeys, ""));
  constexpr int64_t kMostNumber = std::numeric_limits<uint16_t>::max();
  TANDEM_ASSIGN(const std::optional<int64_t> soc_model, chip_number(json, "soc_model", 1, kMostNumber));
  TANDEM_ASSIGN(const std::optional<int64_t> arch, chip_number(json, "hexagon", 1, 999));
  TANDEM_ASSIGN(const std::optional<int64_t> vtcm_mb, chip_number(json, "vtcm_mb", 1, kMaxVtcmMb));
  TANDEM_ASSIGN(const NpuTarget* const base, base_of(json, soc_model));
  if (base == nullptr && (!soc_model || !arch || !vtcm_mb)) {
    return invalid_argument("\"{}\" is missing; give it, or a \"base\": an NPU target that is like this chip",
                            !soc_model ? "soc_model"
                            : !arch    ? "hexagon"
                                       : "vtcm_mb");
  }
  const uint32_t number_of_chip = soc_model ? static_cast<uint32_t>(*soc_model) : base->soc_model;
  const int64_t chosen_arch = arch ? *arch : base->arch;
  TANDEM_TRY(check_chip_arch(chosen_arch, number_of_chip));
  ChipFile chip;
  TANDEM_ASSIGN(const std::optional<std::string> name, json_string(json, "name"));
  chip.name = name ? *name : str_format("soc{}", number_of_chip);
  if (!is_chip_name(chip.name)) {
    return invalid_argument("\"name\" is \"{}\"; use up to {} letters, digits, \"-\", \"_\" and \".\"", chip.name,
                            kMaxName);
  }
  if (std::ranges::find(npu_targets(), chip.name, &NpuTarget::name) != npu_targets().end()) {
    return invalid_argument("\"name\" is \"{}\", the name of a target that there is; use another one", chip.name);
  }
  chip.target = make_npu_target(number_of_chip, static_cast<int>(chosen_arch),
                                vtcm_mb ? static_cast<int>(*vtcm_mb) : base->vtcm_mb);
  chip.target.description = "a chip of the user's";
  TANDEM_TRY(read_chip_limits(json, chip.target));
  TANDEM_TRY(read_chip_settings(json, chip.settings));
  return chip;
}

Result<ChipFile> read_chip(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const std::string text, read_text_file(path, kMaxFileBytes));
  auto chip = parse_chip(text);
  if (!chip.ok()) return with_context(std::move(chip).error(), "{}", path.string());
  return chip;
}

}  // namespace tandem
