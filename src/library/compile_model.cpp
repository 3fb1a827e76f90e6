// Converts the options of include/tandem/compile.h to the compiler's.
#include "base/error.h"
#include "base/guarded.h"
#include "compiler/compile.h"
#include "tandem/compile.h"
#include "tandem/mapping_guard.h"

namespace tandem {
namespace {

template <typename T, typename Parse>
Status set_if_given(std::string_view field, const std::string& text, const Parse& parse, T& value) {
  if (text.empty()) return ok_status();
  auto parsed = parse(text);
  if (!parsed.ok()) return with_context(std::move(parsed).error(), "`{}`", field);
  value = std::move(parsed).value();
  return ok_status();
}

Status set_calibration(const CalibrationSettings& given, CalibrationOptions& calibration) {
  if (!given.file.empty() && !given.prompt.empty()) {
    return invalid_argument("give `calibration.file` or `calibration.prompt`, not both");
  }
  if (given.samples < 1 || given.length < 1) {
    return invalid_argument("`calibration.samples` and `calibration.length` must be at least 1");
  }
  calibration.file = given.file;
  calibration.task = given.task;
  calibration.prompt = given.prompt;
  calibration.samples = given.samples;
  calibration.length = given.length;
  calibration.import_encodings = given.import_encodings;
  calibration.export_encodings = given.export_encodings;
  calibration.report = given.report;
  calibration.method_given = !given.range.empty();
  return set_if_given("calibration.range", given.range, parse_range_method, calibration.method);
}

Status set_prefill(const CompileModelOptions& given, CompileOptions& options) {
  if (given.decode_only) {
    if (!given.prefill.empty()) return invalid_argument("`prefill` makes no sense with `decode_only`; leave one out");
    options.prefill.clear();
  } else if (!given.prefill.empty()) {
    options.prefill = given.prefill;
    options.prefill_exact = true;
  }
  return ok_status();
}

Result<CompileOptions> to_compile_options(const CompileModelOptions& given) {
  CompileOptions options;
  constexpr int kMaxThreads = 1024;
  if (given.threads < 0 || given.threads > kMaxThreads) {
    return invalid_argument("{} threads make no sense; give `threads` as 1 to {}, or 0 for all cores", given.threads,
                            kMaxThreads);
  }
  if (given.context < 0)
    return invalid_argument("a context of {} makes no sense; give `context` as 1 or more", given.context);
  options.target = given.target.empty() ? default_target(given.backend) : given.target;
  options.context = given.context;
  options.threads = given.threads;
  options.config_name = given.config;
  options.force = given.force;
  options.other_inputs = {given.recipe};  // Unless it is a preset.
  TANDEM_ASSIGN(options.recipe, Recipe::load(given.recipe));
  TANDEM_TRY(set_if_given("kv", given.kv, parse_kv_format, options.kv));
  TANDEM_TRY(set_if_given("activations", given.activations, parse_activation_format, options.activations));
  TANDEM_TRY(set_if_given("head", given.head, parse_weight_spec, options.head));
  if (given.rescore < -1 || given.rescore > kMaxRescore) {
    return invalid_argument("`rescore` is {}; give 0 to {}, or -1 for what the recipe says", given.rescore,
                            kMaxRescore);
  }
  if (given.rescore >= 0) options.rescore = given.rescore;
  TANDEM_TRY(set_if_given("tune", given.tune, parse_tune, options.tune));
  if (!(given.bits >= 0.0)) return invalid_argument("`bits` is {}; give 4.125 to 8, or 0", given.bits);
  if (given.bits > 0.0) options.bits = given.bits;
  TANDEM_TRY(set_prefill(given, options));
  TANDEM_TRY(set_calibration(given.calibration, options.calibration));
  options.backend = given.backend;
  if (given.progress) {
    options.progress = [&](const Progress& p) { given.progress({p.stage, p.done, p.total}); };
  }
  options.stop = given.stop;
  options.log = Log(given.log, given.log_level);
  return options;
}

}  // namespace

Result<CompiledModel> compile_model(const std::filesystem::path& checkpoint, const std::filesystem::path& output,
                                    const CompileModelOptions& given) {
  return guarded([&]() -> Result<CompiledModel> {
    TANDEM_ASSIGN(const CompileOptions options, to_compile_options(given));
    TANDEM_ASSIGN(CompileReport report, compile(checkpoint, output, options));
    CompiledModel model;
    model.file_bytes = report.file_size;
    model.weight_bytes = report.weight_bytes;
    model.parameters = report.parameters;
    model.context = report.context;
    model.methods = std::move(report.methods);
    model.weight_sqnr_db = report.sqnr_db;
    model.warnings = std::move(report.warnings);
    for (CompileReport& program : report.programs) {
      model.programs.push_back(
          {std::move(program.target), program.program_bytes, program.shared_bytes, std::move(program.methods)});
    }
    return model;
  });
}

Status guard_compiler_mappings() { return guard_file_mappings(); }

}  // namespace tandem
