#include "backends/qnn/compile/npu_options.h"

#include <algorithm>

#include "backends/qnn/api/power.h"
#include "base/error.h"

namespace tandem {
namespace {

constexpr int64_t kMaxMemoryGb = 1 << 20;

// "gqa+kv", or "gqa+kv,sha+k" for decode and for prefill.
Status read_attention(std::string_view text, NpuOptions& options) {
  const size_t comma = text.find(',');
  if (std::ranges::count(text, ',') > 1) {
    return invalid_argument("`attention` takes one form, or two: for decode and for prefill");
  }
  TANDEM_ASSIGN(options.decode_attention, parse_attention_form(text.substr(0, comma)));
  options.prefill_attention = options.decode_attention;
  if (comma != std::string_view::npos) {
    TANDEM_ASSIGN(options.prefill_attention, parse_attention_form(text.substr(comma + 1)));
  }
  return ok_status();
}

constexpr int64_t kMaxHvxThreads = 16;

Status check_profile_name(std::string_view name) {
  auto profile = qnn::parse_performance_profile(name);
  return profile.ok() ? ok_status() : Status(std::move(profile).error());
}

constexpr OptionSpec kSpecs[] = {
    {.name = "emulator",
     .kind = OptionKind::kFlag,
     .help = "For Qualcomm's x86 library: weights are not shared",
     .default_value = "false"},
    {.name = "unshared",
     .kind = OptionKind::kFlag,
     .help = "Each method has its own copy of the weights",
     .default_value = "false"},
    {.name = "soc", .help = "A chip of your own, described by this JSON (docs/targets.md)", .value_name = "FILE"},
    {.name = "vtcm-mb",
     .kind = OptionKind::kCount,
     .help = "MB of the NPU's fast memory that graphs may use; default: all of the chip's",
     .least = 1,
     .most = kMaxVtcmMb},
    {.name = "hvx-threads",
     .kind = OptionKind::kCount,
     .help = "Threads of the NPU's vector units; default: Qualcomm's choice",
     .least = 1,
     .most = kMaxHvxThreads},
    {.name = "optimization-level",
     .kind = OptionKind::kCount,
     .help = "How long Qualcomm's compiler optimizes: 2 or 3 (1 computes wrongly)",
     .default_value = "3",
     .least = 2,
     .most = 3},
    {.name = "signed-pd",
     .kind = OptionKind::kFlag,
     .help = "The file runs in a signed process on the NPU's DSP unless the app says otherwise",
     .default_value = "false"},
    {.name = "profile",
     .help = "How fast the NPU is clocked unless the app says otherwise: burst, sustained, balanced, power_saver",
     .check = check_profile_name},
    {.name = "shards", .kind = OptionKind::kCount, .help = "So many binaries; default: as sizes ask for", .least = 1},
    {.name = "attention",
     .help = "How decode and prefill compute attention, such as gqa+kv,sha+k; default: what is fastest",
     .value_name = "FORM[,FORM]"},
    {.name = "estimate",
     .kind = OptionKind::kFlag,
     .help = "Print how fast Qualcomm's compiler expects the methods to be (a simulation). For a chip that it cannot "
             "simulate, all is compiled again for a relative of it",
     .default_value = "false"},
    {.name = "estimate-json", .help = "Write the estimates to this JSON; implies the estimates"},
    {.name = "tune-graphs",
     .kind = OptionKind::kFlag,
     .help = "Compile one layer in many variants first, and take what Qualcomm's compiler expects to be fastest; what "
             "was found is kept for the next time",
     .default_value = "false"},
    {.name = "tune-cache", .help = "Folder for what tuning found; default: tandem in XDG_CACHE_HOME or ~/.cache"},
    {.name = "trace",
     .kind = OptionKind::kFlag,
     .help = "Make hidden states outputs, so that `tandem eval` can compare layers",
     .default_value = "false"},
    {.name = "jobs",
     .kind = OptionKind::kCount,
     .help = "Shards compiled at a time; default: as cores and memory allow",
     .least = 1},
    {.name = "memory",
     .kind = OptionKind::kNumber,
     .help = "GB that compiling may take; default: 7, or less where there is less",
     .most = kMaxMemoryGb},
    {.name = "qnn-libs",
     .help = "Folder of Qualcomm's libQnnHtp.so; default: TANDEM_QNN_LIBS, build/qnn, the Python package",
     .is_about_machine = true},
    {.name = "qnn-worker",
     .help = "The program tandem-qnn-worker; default: beside this program",
     .has_flag = false,
     .is_about_machine = true},
};

}  // namespace

std::span<const OptionSpec> npu_option_specs() { return kSpecs; }

namespace {

// With what the chip's file has; values that were given directly win.
Result<BackendOptions> with_chip(const BackendOptions& options, NpuOptions& parsed) {
  BackendOptions all = options;
  const auto soc = options.find("soc");
  if (soc == options.end()) return all;
  TANDEM_ASSIGN(parsed.chip, read_chip(soc->second));
  for (const auto& [name, value] : parsed.chip->settings) {
    if (Status status = check_option(*find_option(kSpecs, name), value); !status.ok()) {
      return with_context(std::move(status).error(), "{}", soc->second);
    }
    all.emplace(name, value);
  }
  return all;
}

}  // namespace

Result<NpuTarget> chosen_target(const Target& row, const NpuOptions& options) {
  NpuTarget target = options.chip ? options.chip->target : npu_target(row.name);
  if (options.chip && npu_target(row.name).arch != target.arch) {
    return invalid_argument("`target` is {}, a Hexagon V{}, and the chip of `soc` is a V{}; leave `target` out",
                            row.name, npu_target(row.name).arch, target.arch);
  }
  if (options.vtcm_mb > target.vtcm_mb) {
    return invalid_argument("`vtcm-mb` is {}, and {} has {} MB", options.vtcm_mb, target.name, target.vtcm_mb);
  }
  if (options.vtcm_mb > 0) target.vtcm_mb = options.vtcm_mb;
  return target;
}

Result<NpuOptions> parse_npu_options(const BackendOptions& options) {
  NpuOptions parsed;
  // The names first: a wrong one is a better reason than a file that cannot be read.
  TANDEM_TRY(check_options(kSpecs, options));
  TANDEM_ASSIGN(const BackendOptions all, with_chip(options, parsed));
  TANDEM_ASSIGN(const OptionValues values, OptionValues::read(kSpecs, all));
  parsed.vtcm_mb = static_cast<int>(values.count("vtcm-mb"));
  parsed.hvx_threads = static_cast<int>(values.count("hvx-threads"));
  parsed.optimization_level = static_cast<int>(values.count("optimization-level"));
  parsed.signed_pd = values.flag("signed-pd");
  parsed.profile = values.text("profile");
  parsed.emulator = values.flag("emulator");
  parsed.share_weights = !values.flag("unshared");
  parsed.shards = static_cast<int>(values.count("shards"));
  if (values.has("attention")) {
    if (Status status = read_attention(values.text("attention"), parsed); !status.ok()) {
      return with_context(std::move(status).error(), "`attention`");
    }
  }
  parsed.estimate_json = values.text("estimate-json");
  parsed.estimate = values.flag("estimate") || !parsed.estimate_json.empty();
  parsed.tune_graphs = values.flag("tune-graphs");
  parsed.tune_cache = values.text("tune-cache");
  parsed.trace = values.flag("trace");
  parsed.jobs = static_cast<int>(values.count("jobs"));
  parsed.memory = static_cast<uint64_t>(values.number("memory") * static_cast<double>(uint64_t{1} << 30));
  parsed.libraries = values.text("qnn-libs");
  parsed.worker = values.text("qnn-worker");
  if (values.has("attention") && parsed.tune_graphs) {
    return invalid_argument("`attention` says what `tune-graphs` would find out; leave one out");
  }
  if (!parsed.tune_cache.empty() && !parsed.tune_graphs) {
    return invalid_argument("`tune-cache` is for `tune-graphs`; leave it out");
  }
  return parsed;
}

}  // namespace tandem
