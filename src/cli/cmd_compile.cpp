// tandem compile: compiles a checkpoint into one file.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <memory>

#include "base/error.h"
#include "base/format.h"
#include "base/printable.h"
#include "cli/backend_flags.h"
#include "cli/commands.h"
#include "cli/estimate_table.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/validators.h"
#include "compiler/backend_compiler.h"
#include "compiler/compile.h"
#include "compiler/targets.h"
#include "ir/printer.h"
#include "tasks/task.h"

namespace tandem {
namespace compile_command {

struct Options {
  std::string checkpoint;
  std::string output;
  std::string target = std::string(default_target());
  std::string mode = "hybrid";
  std::vector<std::string> prefill;
  int64_t context = 0;
  std::string recipe = "w4";
  std::string kv;
  std::string activations;
  std::string head;
  std::string tune = "none";
  double bits = 0.0;
  int rescore = -1;
  std::string config = "config.json";
  int threads = 0;
  bool dump_ir = false;
  bool quiet = false;
  bool verbose = false;
  bool force = false;
  CalibrationOptions calibration;
  std::string calib_range;
  BackendFlags backend;
};

// Incompatible options are refused before anything is opened.
void check(const Options& o) {
  if (o.mode == "kv" && !o.prefill.empty()) refuse("--prefill makes no sense with --mode kv; leave one out");
  for (const BackendCompiler* compiler : backend_compilers()) {
    const Status status = compiler->check_options(own_options(compiler->options(), o.backend.options()));
    if (!status.ok()) refuse(status.error().message);
  }
  const CalibrationOptions& c = o.calibration;
  if (!c.file.empty() && !c.prompt.empty()) refuse("give --calib or --calib-prompt, not both");
  if (!c.task.empty() && c.file.empty()) refuse("--calib-task says how to read --calib; give that as well");
}

CompileOptions to_compile_options(const Options& o) {
  CompileOptions options;
  options.force = o.force;
  options.other_inputs = {o.recipe};  // Unless it is a preset.
  options.target = o.target;
  options.context = o.context;
  options.threads = o.threads;
  options.config_name = o.config;
  options.recipe = value_or_fail(Recipe::load(o.recipe));
  if (!o.kv.empty()) options.kv = value_or_fail(parse_kv_format(o.kv));
  if (!o.activations.empty()) options.activations = value_or_fail(parse_activation_format(o.activations));
  if (!o.head.empty()) options.head = value_or_fail(parse_weight_spec(o.head));
  if (o.rescore >= 0) options.rescore = o.rescore;
  options.tune = value_or_fail(parse_tune(o.tune));
  if (o.bits > 0.0) options.bits = o.bits;
  options.calibration = o.calibration;
  if (!o.calib_range.empty()) {
    options.calibration.method = value_or_fail(parse_range_method(o.calib_range));
    options.calibration.method_given = true;
  }
  options.backend = o.backend.options();
  if (o.mode == "kv") {
    options.prefill.clear();
  } else if (!o.prefill.empty()) {
    options.prefill = parse_number_list(o.prefill);
    options.prefill_exact = true;
  }
  // If the requested graphs cannot be printed, there is no point in continuing.
  options.stop = [] { return interrupted() || output_failed(); };
  if (o.dump_ir) {
    options.dump_ir = [](std::string_view pass, const ir::Graph& graph) {
      show("// {} after {}", graph.name, pass);
      write_stdout(printable_lines(ir::to_text(graph)) + "\n");
      flush_stdout();  // If it cannot be written, stop before there is a file.
    };
  }
  return options;
}

// How much better the tuned weights are, over all of them.
void summarize_tuning(const CompileReport& report) {
  double before = 0.0, after = 0.0, weights = 0.0;
  for (const TunedWeight& weight : report.tuned) {
    const auto count = static_cast<double>(weight.weights);
    before += count * std::min(weight.before_db, 99.0);
    after += count * std::min(weight.after_db, 99.0);
    weights += count;
  }
  if (weights == 0.0) return;
  note("  {} layers tuned: their outputs keep {:.1f} dB, {:.1f} dB without data", report.tuned.size(), after / weights,
       before / weights);
}

// The summary of a program, on standard error.
void summarize(const std::string& recipe, const CompileReport& report) {
  std::string methods;
  for (const std::string& name : report.methods) methods += (methods.empty() ? "" : ", ") + name;
  note("  {:.1f} M parameters, {:.2f} bits each; recipe {}; KV {}; context {}",
       static_cast<double>(report.parameters) / 1e6,
       8.0 * static_cast<double>(report.weight_bytes) / static_cast<double>(report.parameters), recipe,
       kv_format_name(report.kv), report.context);
  note("  methods {}{}", methods, report.one_weight_set ? ", one set of weights" : "");
  if (report.rescored > 0) note("  LM head in 4 bits; the CPU recomputes the {} largest logits", report.rescored);
  if (!report.graphs.empty()) {
    note("  {}{}", report.graphs,
         report.variants_compiled > 0 ? str_format("; the fastest of {} variants", report.variants_compiled) : "");
  }
  for (const std::string& shard : report.shards) note("  {}", shard);
  for (const auto& stage : report.stages) {
    note("  {:<20} {:>8}, peak {}", stage.name, format_seconds(stage.seconds), format_bytes(stage.peak_bytes));
  }
  if (!report.calibration.empty()) note("  calibrated on {}", report.calibration);
  if (report.int16_layers > 0 || !report.open_layers.empty()) {
    const auto worst = std::ranges::min_element(report.open_layers, {}, &CompileReport::OpenLayer::sqnr_db);
    note("  activations int16 in {} of {} layers{}", report.int16_layers, report.rounding_layers,
         worst == report.open_layers.end()
             ? ""
             : str_format("; with int8, {} keeps {:.1f} dB", worst->name, worst->sqnr_db));
  }
  if (report.bits > 0.0) note("  {:.3f} bits per weight in the layers, chosen by weight", report.bits);
  summarize_tuning(report);
  if (std::isfinite(report.sqnr_db)) note("  weights keep {:.1f} dB", report.sqnr_db);
  if (report.segments_reused > 0) note("  {} parts were finished by an earlier run", report.segments_reused);
}

void summarize_all(const Options& o, const std::string& recipe, const CompileReport& report, double seconds) {
  note("{}: {} in {}", o.output, format_bytes(report.file_size), format_seconds(seconds));
  if (report.programs.empty()) summarize(recipe, report);
  for (const CompileReport& program : report.programs) {
    note("{}: {}{}", program.target, format_bytes(program.program_bytes),
         program.shared_bytes == 0 ? "" : str_format(", {} of it shared", format_bytes(program.shared_bytes)));
    summarize(recipe, program);
  }
  if (report.estimates && report.programs.empty()) show_estimates(*report.estimates);
  for (const CompileReport& program : report.programs) {
    if (!program.estimates) continue;
    note("estimates for {}:", program.target);
    show_estimates(*program.estimates);
  }
}

void run(const Options& o) {
  check(o);
  watch_interrupts();
  CompileOptions options = to_compile_options(o);
  ProgressBar bar(o.quiet);
  options.progress = [&](const Progress& progress) { bar.update(progress); };
  const auto log = [&](LogLevel level, std::string_view message) {
    bar.finish();  // It is redrawn below the message.
    note_log(level, message);
  };
  options.log = Log(log, o.verbose ? LogLevel::kInfo : LogLevel::kWarning);
  const auto start = std::chrono::steady_clock::now();
  const auto report = compile(o.checkpoint, o.output, options);
  bar.finish();
  if (!report.ok()) fail(report.error());
  for (const std::string& warning : report->warnings) warn(warning);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!o.quiet) summarize_all(o, options.recipe.name, *report, seconds);
}

// models/demo becomes demo.tdm.
std::string default_output(const std::string& checkpoint) {
  std::error_code ignored;
  auto folder = std::filesystem::weakly_canonical(checkpoint, ignored);
  if (std::filesystem::is_regular_file(folder, ignored)) folder.replace_extension();  // model.gguf becomes model.tdm.
  const std::string name =
      folder.has_filename() ? folder.filename().string() : folder.parent_path().filename().string();
  if (name.empty()) refuse("give the file to write with -o");
  return name + ".tdm";
}

// How numbers are stored and rounded.
void add_format_options(CLI::App& command, Options& o) {
  command.add_option("--recipe", o.recipe, "How weights are stored: fp32, fp16, bf16, w8, w4, or a JSON file")
      ->capture_default_str();
  command.add_option("--kv", o.kv, "How keys and values are kept: fp32, fp16, u8, u16; default: the recipe's")
      ->check(accepted_by(parse_kv_format));
  command
      .add_option("--activations", o.activations,
                  "How a CPU rounds the input of quantized layers: int8, int16, or auto (16 bits where int8 loses "
                  "much on the text of --calib); default: the recipe's")
      ->check(accepted_by(parse_activation_format));
  command
      .add_option("--head", o.head,
                  "How the LM head is stored: fp32, fp16, bf16, int8, lpbq4; default: the recipe's, on an NPU lpbq4 "
                  "with w4 where its logits can be rescored")
      ->check(accepted_by(parse_weight_spec));
}

void add_tuning_options(CLI::App& command, Options& o) {
  command
      .add_option("--tune", o.tune,
                  "How int4 and int8 weights are chosen: none (each by itself), fast (with calibration data, by what "
                  "they do to the layers' outputs), full (more data, more rounds)")
      ->check(accepted_by(parse_tune))
      ->capture_default_str();
  command
      .add_option("--bits", o.bits,
                  "Bits per weight of the layers' matrices, on average: the compiler chooses which get lpbq4 in blocks "
                  "of 64, 32 or 16 (4.125, 4.25, 4.5 bits) and which int8, by what each loses on calibration data")
      ->check(real_number(4.0, 8.0));
}

void add_target_options(CLI::App& command, Options& o) {
  const std::string calibration = "Calibration (NPU targets, --tune, --bits, --activations auto)", npu = "NPU targets";
  command
      .add_option("--calib", o.calibration.file,
                  "A text, or JSON with conversations; default: what the model itself writes")
      ->check(CLI::ExistingFile)
      ->group(calibration);
  command
      .add_option("--calib-task", o.calibration.task,
                  "The file is a task's, as `tandem eval --task` reads it: " + str_join(task_names(), ", "))
      ->check(accepted_by(check_task_name))
      ->group(calibration);
  command.add_option("--calib-prompt", o.calibration.prompt, "One prompt instead of a file")->group(calibration);
  command
      .add_option("--calib-samples", o.calibration.samples, "At most so many samples; by default fewer of large models")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group(calibration);
  command.add_option("--calib-length", o.calibration.length, "Tokens of a sample")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group(calibration);
  command.add_option("--calib-range", o.calib_range, "minmax, percentile or mse; default: minmax, and mse for u8 KV")
      ->check(accepted_by(parse_range_method))
      ->group(calibration);
  command.add_option("--encodings", o.calibration.import_encodings, "Take encodings from this JSON, do not calibrate")
      ->check(CLI::ExistingFile)
      ->group(calibration);
  command.add_option("--export-encodings", o.calibration.export_encodings, "Write the encodings to this JSON")
      ->group(calibration);
  command.add_option("--report", o.calibration.report, "Write an HTML page about ranges and clipping")
      ->group(calibration);
  command
      .add_option("--rescore", o.rescore,
                  "The CPU computes so many of the largest logits of an lpbq4 head again, from the embedding's int8 "
                  "rows; default: 256 where head and embedding are tied; 0: none")
      ->check(whole_number(0, kMaxRescore))
      ->group(npu);
  for (const BackendCompiler* compiler : backend_compilers()) {
    o.backend.add_to(command, compiler->options(), std::string(compiler->target_group()));
  }
}

}  // namespace compile_command

void add_compile_command(CLI::App& app) {
  using namespace compile_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("compile", "Turn a checkpoint into one file");
  command->footer(
      "Examples:\n  tandem compile models/demo -o demo.tdm --recipe w4 --context 1024\n"
      "  tandem compile models/demo -o demo.tdm --target sm8750 --prefill 32 --context 512\n"
      "  tandem compile models/demo -o demo.tdm --target sm8750,cpu --prefill 32 --context 512\n"
      "Stopped with Ctrl-C, SIGTERM or SIGHUP, it leaves no file; the same command goes on where it was.\n"
      "Exit status: 0 the file is there, 1 it could not be made, 2 the options make no sense, 130, 143 or 129 "
      "stopped.");
  command
      ->add_option("CHECKPOINT", o->checkpoint,
                   "Folder as a model hub has it (config.json, safetensors, tokenizer.json) or as Meta has it "
                   "(params.json, consolidated.NN.pth), a GGUF file, or llama2.c's .pt")
      ->required();
  command->add_option("-o,--output", o->output, "The file to write; default: the checkpoint's name with .tdm, here");
  CLI::Option* target =
      command
          ->add_option("--target", o->target, "What it shall run on (`tandem targets`); several by commas, best first")
          ->check(accepted_by(find_targets))
          ->capture_default_str();
  command->add_option("--mode", o->mode, "kv: one token per call; hybrid: prompts in chunks too")
      ->check(CLI::IsMember({"kv", "hybrid"}))
      ->capture_default_str();
  command
      ->add_option("--prefill", o->prefill,
                   "Chunk lengths of prompts, separated by commas; default: 32,128,512, on an NPU 32,128")
      ->check(number_list(1))
      ->type_name("N,N")
      ->take_all()
      ->allow_extra_args(false);
  command->add_option("--context", o->context, "Positions of a conversation; default: the model's own, up to 4096")
      ->check(whole_number(1));
  add_format_options(*command, *o);
  add_tuning_options(*command, *o);
  command->add_option("--threads", o->threads, "Threads; 0, the default: one per core")
      ->check(whole_number(0, kMaxThreads));
  command->add_option("--config", o->config, "Name of the configuration in the folder")->capture_default_str();
  add_target_options(*command, *o);
  command->add_flag("--dump-ir", o->dump_ir, "Print the graph of each method after each pass");
  command->add_flag("--force", o->force,
                    "Replace the output even if what is there under its name was not written by tandem");
  command->add_flag("-q,--quiet", o->quiet, "No progress, no summary; warnings and errors stay");
  command->add_flag("--verbose", o->verbose, "Print what Qualcomm's library logs besides errors");
  command->callback([o, target] {
    if (o->output.empty()) o->output = default_output(o->checkpoint);
    if (target->count() == 0) o->target = default_target(o->backend.options());
    run(*o);
  });
}

}  // namespace tandem
