#include "deploy/deploy_plan.h"

#include <algorithm>
#include <set>

#include "artifact/reader.h"
#include "base/error.h"
#include "base/file_status.h"
#include "base/printable.h"
#include "compiler/backend_compiler.h"
#include "deploy/shell_quote.h"
#include "deploy/vendor_package.h"

namespace tandem {
namespace {

// What the Android build makes, relative to the working directory.
constexpr const char* kDefaultRuntimes[] = {"build/android-arm64/tandem-runner", "build/android-arm64/libtandem.so"};
// From Android 15 on, devices may have pages of this size.
constexpr uint64_t kAndroidPage = 16384;
// What every Android has for apps and programs, and Qualcomm's way to the DSP, which its devices have.
constexpr std::string_view kAndroidLibraries[] = {
    "libc.so",      "libm.so",      "libdl.so",     "liblog.so",          "libz.so",      "libandroid.so", "libEGL.so",
    "libGLESv2.so", "libGLESv3.so", "libvulkan.so", "libnativewindow.so", "libcdsprpc.so"};

// What a compiled file has for one of its targets.
struct TargetProgram {
  ArtifactHeader header;
  const BackendCompiler* compiler = nullptr;
  DeviceNeeds needs;
};

class Planner {
 public:
  explicit Planner(const DeployOptions& options) : options_(options) {}

  Result<DeployPlan> run() {
    TANDEM_TRY(add_model());
    TANDEM_TRY(add_runtime());
    TANDEM_TRY(add_vendor_files());
    TANDEM_TRY(check_names());
    TANDEM_TRY(add_checksums());
    describe();
    return std::move(plan_);
  }

 private:
  bool stopped() const { return options_.stop && options_.stop(); }
  void warn(std::string message) { plan_.manifest.warnings.push_back(std::move(message)); }

  void add(std::string name, std::string kind, std::string processor, FileContent content, bool is_program = false) {
    const uint64_t size = content.bytes().size();
    plan_.files.push_back({.entry = {.name = std::move(name),
                                     .size = size,
                                     .sha256 = {},
                                     .kind = std::move(kind),
                                     .processor = std::move(processor)},
                           .content = std::move(content),
                           .is_program = is_program});
  }

  Status add_model() {
    TANDEM_ASSIGN(const Artifact artifact, Artifact::open(options_.file));
    for (size_t i = 0; i < artifact.header().segments.size(); ++i) {
      if (stopped()) return cancelled("stopped");
      TANDEM_TRY(artifact.verify_segment(i));
      artifact.release_segment(i);
    }
    plan_.context = artifact.header().methods.front().context;
    for (size_t i = 0; i < artifact.program_count(); ++i) TANDEM_TRY(add_program(artifact.program(i).header()));
    TANDEM_ASSIGN(FileContent content, FileContent::map(options_.file));
    plan_.manifest.model = options_.file.filename().string();
    add(plan_.manifest.model, "model", "", std::move(content));
    return artifact.check();
  }

  // What a file has for one target.
  Status add_program(const ArtifactHeader& header) {
    const auto compilers = backend_compilers();
    const auto found = std::ranges::find(compilers, header.backend, &BackendCompiler::name);
    if (found == compilers.end()) {
      return unsupported("{} is for the back end {}, which this build of tandem does not have", options_.file.string(),
                         header.backend);
    }
    TANDEM_ASSIGN(DeviceNeeds needs, (*found)->device_needs(header));
    programs_.push_back({header, *found, std::move(needs)});
    return ok_status();
  }

  // Empty if none is given and none was built.
  Result<std::filesystem::path> find_runtime() const {
    if (!options_.runtime.empty()) return options_.runtime;
    for (const char* path : kDefaultRuntimes) {
      TANDEM_ASSIGN(const bool exists, regular_file_exists(path));
      if (exists) return std::filesystem::path(path);
    }
    return std::filesystem::path();
  }

  Status add_runtime() {
    TANDEM_ASSIGN(const std::filesystem::path path, find_runtime());
    if (path.empty()) {
      warn(
          "there is no program or library that runs the file among these files; an app has its own, otherwise give one "
          "with `runtime`");
      return ok_status();
    }
    TANDEM_ASSIGN(FileContent content, FileContent::map(path));
    TANDEM_ASSIGN(const ElfInfo elf, read_elf(content.bytes(), path.string()));
    TANDEM_TRY(content.check());
    if (elf.machine != kElfMachineArm64 || !elf.is_64_bit) {
      return unsupported("{} is for {}, and phones need 64-bit ARM; give a program or library for them with `runtime`",
                         path.string(), machine_name(elf.machine));
    }
    plan_.system = system_of(elf);
    if (plan_.system == DeviceSystem::kAndroid && elf.page_size < kAndroidPage) {
      warn(str_format("{} is linked for pages of {} bytes, and devices whose pages have 16384 cannot load it",
                      path.string(), elf.page_size));
    }
    system_from_ = path.string();
    if (elf.is_program) plan_.program = path.filename().string();
    needed_.emplace_back(path.string(), elf);
    add(path.filename().string(), "runtime", "arm64", std::move(content), elf.is_program);
    return ok_status();
  }

  // An option that a file has no use for is refused.
  Status check_packages() const {
    for (const auto& package : options_.packages) {
      const std::string& name = package.first;
      if (std::ranges::any_of(programs_, [&](const TargetProgram& p) { return p.needs.option == name; })) continue;
      return invalid_argument("{} is for {} and needs no files of a vendor; leave out `{}`", options_.file.string(),
                              plan_.manifest.target, name);
    }
    return ok_status();
  }

  Status add_vendor_files() {
    std::vector<std::string> backends;
    for (const TargetProgram& program : programs_) {
      plan_.targets.push_back(program.header.target);
      if (std::ranges::find(backends, program.header.backend) == backends.end()) {
        backends.push_back(program.header.backend);
      }
    }
    plan_.manifest.target = str_join(plan_.targets, ",");
    plan_.manifest.backend = str_join(backends, ",");
    plan_.needs_chip = std::ranges::none_of(programs_, [](const TargetProgram& p) { return p.needs.files.empty(); });
    TANDEM_TRY(check_packages());
    for (const TargetProgram& program : programs_) {
      if (!program.needs.files.empty()) TANDEM_TRY(add_files_of(program));
    }
    return ok_status();
  }

  Status add_files_of(const TargetProgram& program) {
    const DeviceNeeds& needs = program.needs;
    const auto given = options_.packages.find(needs.option);
    if (given == options_.packages.end()) {
      std::vector<std::string> names;
      for (const DeviceFile& file : needs.files) names.push_back(file.name);
      return invalid_argument("{} is for {} and needs {} on the device; give them with `{}`: {}",
                              options_.file.string(), program.header.target, str_join(names, ", "), needs.option,
                              needs.remedy);
    }
    TANDEM_ASSIGN(const VendorPackage package, VendorPackage::open(given->second));
    std::vector<DeviceFileContent> contents;
    for (const DeviceFile& file : needs.files) {
      TANDEM_ASSIGN(const FileContent* const content, add_vendor_file(package, file, needs.remedy));
      contents.push_back({file.name, content->bytes()});
    }
    TANDEM_ASSIGN(const DeviceVersions versions, program.compiler->check_device_files(program.header, contents));
    plan_.manifest.library_found = versions.found;
    plan_.manifest.library_needed = versions.needed;
    for (const std::string& warning : versions.warnings) warn(warning);
    for (const auto& variable : needs.environment) {
      if (std::ranges::find(environment_, variable) == environment_.end()) environment_.push_back(variable);
    }
    return add_needed(package, needs.files.front().folders);
  }

  // Its content in the plan, where it may be for an earlier target already.
  Result<const FileContent*> add_vendor_file(const VendorPackage& package, const DeviceFile& file,
                                             const std::string& remedy) {
    const auto has_name = [&](const PlannedFile& planned) {
      return planned.entry.kind == "vendor" && planned.entry.name == file.name;
    };
    if (const auto found = std::ranges::find_if(plan_.files, has_name); found != plan_.files.end()) {
      return &found->content;
    }
    auto found = package.read(file);
    if (!found.ok()) {
      Error error = std::move(found).error();
      error.message += "; " + remedy;
      return error;
    }
    TANDEM_TRY(check_system(*found, file));
    add(file.name, "vendor", file.processor == DeviceProcessor::kArm64 ? "arm64" : "hexagon",
        std::move(found->content));
    return &plan_.files.back().content;
  }

  // Libraries for Android and for other Linux systems have the same names and cannot replace each other.
  Status check_system(const VendorFile& file, const DeviceFile& wanted) {
    if (wanted.processor != DeviceProcessor::kArm64) return ok_status();
    needed_.emplace_back(wanted.name, file.elf);
    const DeviceSystem system = system_of(file.elf);
    if (system == DeviceSystem::kUnknown) return ok_status();
    if (plan_.system == DeviceSystem::kUnknown) {
      plan_.system = system;
      system_from_ = wanted.name;
    }
    if (system == plan_.system) return ok_status();
    const auto text = [](DeviceSystem s) { return s == DeviceSystem::kAndroid ? "Android" : "Linux"; };
    return unsupported("{} is for {} and {} for {}, by the C library that they use; give files for one system",
                       system_from_, text(plan_.system), wanted.name, text(system));
  }

  // What the libraries need in turn: from the package if it is there.
  Status add_needed(const VendorPackage& package, const std::vector<std::string>& folders) {
    for (const PlannedFile& file : plan_.files) seen_.insert(file.entry.name);
    for (size_t i = 0; i < needed_.size(); ++i) {  // It grows.
      const std::string user = needed_[i].first;
      for (const std::string& name : std::vector<std::string>(needed_[i].second.needed)) {
        if (std::ranges::find(kAndroidLibraries, name) != std::end(kAndroidLibraries)) continue;
        if (!is_plain_name(name) || !seen_.insert(name).second) continue;
        const DeviceFile file{.name = name, .processor = DeviceProcessor::kArm64, .folders = folders};
        TANDEM_ASSIGN(const bool has, package.has(file));
        if (has) {
          TANDEM_ASSIGN(VendorFile found, package.read(file));
          TANDEM_TRY(check_system(found, file));
          add(name, "vendor", "arm64", std::move(found.content));
        } else if (plan_.system == DeviceSystem::kAndroid) {
          warn(str_format("{} needs {}, which is neither a part of Android nor among these files", user,
                          printable_message(name)));
        }
      }
    }
    return ok_status();
  }

  Status check_names() const {
    std::set<std::string_view> names;
    for (const PlannedFile& file : plan_.files) {
      if (!is_plain_name(file.entry.name)) {
        return invalid_argument("\"{}\" cannot be the name of a deployed file; rename the file", file.entry.name);
      }
      if (!names.insert(file.entry.name).second) {
        return invalid_argument("two files of this deployment are named {}; rename one of them", file.entry.name);
      }
    }
    return ok_status();
  }

  Status add_checksums() {
    for (size_t i = 0; i < plan_.files.size(); ++i) {
      PlannedFile& file = plan_.files[i];
      if (options_.progress) options_.progress({"checksums", i, plan_.files.size()});
      TANDEM_ASSIGN(file.entry.sha256, sha256_of(file.content, options_.stop));
      plan_.manifest.files.push_back(file.entry);
    }
    return ok_status();
  }

  void describe() {
    Manifest& manifest = plan_.manifest;
    manifest.folder = options_.remote_folder;
    for (const auto& [name, pattern] : environment_) {
      std::string value = pattern;
      if (const size_t at = value.find("{}"); at != std::string::npos) value.replace(at, 2, options_.remote_folder);
      manifest.environment.emplace_back(name, std::move(value));
    }
    if (plan_.program.empty()) return;
    manifest.command = device_command(manifest, {"./" + plan_.program, "run", "./" + manifest.model, "-p", "Hello"});
  }

  const DeployOptions& options_;
  DeployPlan plan_;
  std::vector<TargetProgram> programs_;
  std::vector<std::pair<std::string, std::string>> environment_;
  std::vector<std::pair<std::string, ElfInfo>> needed_;  // Who needs what.
  std::set<std::string> seen_;                           // Libraries that are there, or known to be missing.
  std::string system_from_;
};

}  // namespace

Result<DeployPlan> plan_deployment(const DeployOptions& options) { return Planner(options).run(); }

}  // namespace tandem
