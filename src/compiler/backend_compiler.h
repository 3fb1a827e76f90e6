// A back end's compiler: its targets, its options, its rules, and how it writes a file. compile() knows back ends only
// through this interface. It belongs to the compiler half: nothing that runs files links it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/interface/options.h"
#include "base/json.h"
#include "compiler/compile.h"
#include "compiler/device_files.h"
#include "compiler/targets.h"
#include "models/model_plan.h"

namespace tandem {

class CompileJob;
struct ArtifactHeader;

// What `tandem targets` shows for a target in addition to its row; empty where there is nothing.
struct TargetDetails {
  std::string hardware;
  std::string estimates;
  Json json = Json::object();
};

// A file that a compile writes in addition to the compiled one.
struct ExtraOutput {
  std::filesystem::path path;
  std::string_view kind;                                          // "a file of estimates"
  std::function<bool(const std::filesystem::path&)> may_replace;  // Whether the existing file is of this kind.
};

// A request to compile.
struct TargetRequest {
  const Target& target;
  const ModelPlan& plan;
  const CompileOptions& options;
  const std::vector<int64_t>& prefill;  // Tokens of the prefill methods.
};

// Which of the CompileOptions that only some back ends obey a back end obeys. It refuses the others, unless another
// target of the same file obeys them.
struct ObeyedOptions {
  bool activations = false;
  bool rescore = false;    // In the recipe too.
  bool encodings = false;  // And all that belongs to calibrating them.
};

class BackendCompiler {
 public:
  virtual ~BackendCompiler() = default;
  // As in the header of files.
  virtual std::string_view name() const = 0;
  virtual std::vector<Target> targets() const = 0;
  virtual TargetDetails details(const Target&) const { return {}; }
  // The text of `tandem targets` below the table.
  virtual std::string footnote() const { return {}; }
  // The target whose chip has this number from its vendor; "" if there is none.
  virtual std::string_view target_of_device(uint32_t) const { return {}; }

  // The options of CompileOptions::backend that it accepts, and the name of its targets as a group: "NPU targets".
  virtual std::span<const OptionSpec> options() const { return {}; }
  virtual std::string_view target_group() const { return {}; }
  // The target that some option asks for, where the user names none; "" if there is no such option.
  virtual std::string_view implied_target(const BackendOptions&) const { return {}; }
  // Whether the options are compatible, before anything is opened. They are among options().
  virtual Status check_options(const BackendOptions& options) const {
    return tandem::check_options(this->options(), options);
  }
  virtual ObeyedOptions obeyed_options() const { return {}; }
  // Longer prefill methods are omitted unless the user requests them.
  virtual int64_t longest_default_prefill() const { return std::numeric_limits<int64_t>::max(); }
  virtual std::vector<ExtraOutput> extra_outputs(const BackendOptions&) const { return {}; }

  // Refuses what the target cannot do, with the rule and a remedy, and resolves what the recipe leaves to the target.
  // `notes` reports what was changed.
  virtual Status resolve_recipe(const TargetRequest& request, Recipe& recipe,
                                std::vector<std::string>& notes) const = 0;
  // Selects the passes, plans and writes the file.
  virtual Status compile(CompileJob& job) const = 0;

  // The vendor's files that a device needs beside a compiled file of this back end.
  virtual Result<DeviceNeeds> device_needs(const ArtifactHeader&) const { return DeviceNeeds{}; }
  // Refuses files that do not belong together, or that are older than the compiled file needs. They are of the right
  // processors already.
  virtual Result<DeviceVersions> check_device_files(const ArtifactHeader&, std::span<const DeviceFileContent>) const {
    return DeviceVersions{};
  }
  // The options that say where they come from.
  virtual std::span<const OptionSpec> deploy_options() const { return {}; }
};

// The compilers in this build, in the order of the CMake option TANDEM_BACKENDS; generated (backends/backends.cmake).
std::span<const BackendCompiler* const> backend_compilers();
// The back end of a row of targets().
const BackendCompiler& compiler_of(const Target& target);

}  // namespace tandem
