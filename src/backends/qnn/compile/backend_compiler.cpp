// The QNN back end's compiler: Snapdragon's NPUs, their options and rules, their files.
#include "compiler/backend_compiler.h"

#include <algorithm>

#include "backends/qnn/compile/compile_npu.h"
#include "backends/qnn/compile/device_libraries.h"
#include "backends/qnn/compile/npu_options.h"
#include "backends/qnn/compile/npu_rules.h"
#include "backends/qnn/compile/npu_targets.h"
#include "base/format.h"

namespace tandem::qnn {
namespace {

// Each length is a graph to be compiled.
constexpr int64_t kLongestDefaultPrefill = 128;

class QnnCompiler final : public BackendCompiler {
 public:
  std::string_view name() const override { return "qnn"; }

  std::vector<Target> targets() const override { return {npu_targets().begin(), npu_targets().end()}; }

  TargetDetails details(const Target& target) const override {
    const NpuTarget& npu = npu_target(target.name);
    const NpuTarget& simulated = estimated_as(npu);
    TargetDetails details;
    details.hardware =
        str_format("SoC {}, Hexagon V{}, {} MB of VTCM; prefill and decode {}", npu.soc_model, npu.arch, npu.vtcm_mb,
                   npu.shares_weights ? "share weights" : "cannot share weights: use `decode_only` or `unshared`");
    details.estimates =
        npu.is_simulated ? "of the chip itself" : str_format("of a relative, {} (V{})", simulated.name, simulated.arch);
    details.json = {{"soc_model", npu.soc_model},
                    {"hexagon", npu.arch},
                    {"vtcm_mb", npu.vtcm_mb},
                    {"shares_weights", npu.shares_weights},
                    {"estimate_of", simulated.name}};
    return details;
  }

  std::string footnote() const override {
    return str_format("NPUs: a graph has at most {} MB, a shard {} MB; docs/targets.md has the rules.",
                      kNpuGraphLimit >> 20, kNpuShardLimit >> 20);
  }

  std::string_view target_of_device(uint32_t soc_model) const override {
    const auto found = std::ranges::find(npu_targets(), soc_model, &NpuTarget::soc_model);
    return found == npu_targets().end() ? std::string_view() : found->name;
  }

  std::span<const OptionSpec> options() const override { return npu_option_specs(); }
  std::string_view target_group() const override { return "NPU targets"; }

  std::string_view implied_target(const BackendOptions& options) const override {
    const auto soc = options.find("soc");
    if (soc == options.end()) return {};
    const auto chip = read_chip(soc->second);  // If it cannot be read, check_options() says why.
    const auto found =
        chip.ok() ? std::ranges::find(npu_targets(), chip->target.arch, &NpuTarget::arch) : npu_targets().begin();
    return found->name;
  }

  Status check_options(const BackendOptions& options) const override {
    auto parsed = parse_npu_options(options);
    return parsed.ok() ? ok_status() : Status(std::move(parsed).error());
  }

  ObeyedOptions obeyed_options() const override { return {.rescore = true, .encodings = true}; }

  int64_t longest_default_prefill() const override { return kLongestDefaultPrefill; }

  std::vector<ExtraOutput> extra_outputs(const BackendOptions& options) const override {
    const auto path = options.find("estimate-json");
    if (path == options.end()) return {};
    return {{path->second, "a file of estimates", is_estimate_file}};
  }

  Status resolve_recipe(const TargetRequest& request, Recipe& recipe, std::vector<std::string>& notes) const override {
    TANDEM_ASSIGN(const NpuOptions npu, parse_npu_options(own_options(this->options(), request.options.backend)));
    return apply_npu_rules(request, npu, recipe, notes);
  }

  Status compile(CompileJob& job) const override {
    TANDEM_ASSIGN(const NpuOptions npu, parse_npu_options(own_options(this->options(), job.options().backend)));
    return compile_for_npu(job, npu);
  }

  Result<DeviceNeeds> device_needs(const ArtifactHeader& header) const override { return libraries_needed(header); }
  Result<DeviceVersions> check_device_files(const ArtifactHeader& header,
                                            std::span<const DeviceFileContent> files) const override {
    return check_libraries(header, files);
  }
  std::span<const OptionSpec> deploy_options() const override { return library_source_options(); }
};

}  // namespace

const BackendCompiler& backend_compiler() {
  static const QnnCompiler instance;
  return instance;
}

}  // namespace tandem::qnn
