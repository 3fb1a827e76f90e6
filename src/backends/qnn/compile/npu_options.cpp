#include "backends/qnn/compile/npu_options.h"

#include <algorithm>

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

constexpr OptionSpec kSpecs[] = {
    {.name = "emulator",
     .kind = OptionKind::kFlag,
     .help = "For Qualcomm's x86 library: weights are not shared",
     .default_value = "false"},
    {.name = "unshared",
     .kind = OptionKind::kFlag,
     .help = "Each method has its own copy of the weights",
     .default_value = "false"},
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

Result<NpuOptions> parse_npu_options(const BackendOptions& options) {
  TANDEM_ASSIGN(const OptionValues values, OptionValues::read(kSpecs, options));
  NpuOptions parsed;
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
