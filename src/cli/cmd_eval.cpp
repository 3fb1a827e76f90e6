// tandem eval: perplexity, KL divergence and tasks, of one phase or of several side by side.
#include <CLI/CLI.hpp>
#include <memory>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/output_path.h"
#include "base/printable.h"
#include "checkpoint/locate.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/eval_report.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/task_report.h"
#include "cli/validators.h"
#include "quant/calibration_report.h"

namespace tandem {
namespace eval_command {

struct Options {
  std::string model;
  DatasetOptions dataset;
  std::string task;
  std::string data;
  bool kl = false;
  int64_t answers = 150;
  std::string phase;
  std::vector<std::string> phases;
  std::string recipe;
  std::string config = "config.json";
  EngineFlags engine;
  std::string checkpoint;
  int64_t greedy = 0;
  std::string prompt;
  bool layers = false;
  int64_t layer_tokens = 64;
  std::string encodings;
  std::string report;
  bool json = false;
};

// Where phases are compared, that is what the report's last part shows.
void write_report(const Options& o, const PhasesReport& report) {
  const EncodingTable table = value_or_fail(EncodingTable::load(o.encodings));
  CalibrationReportExtras extras;
  extras.device_sqnr = layer_sqnr_list(report.layers);
  const std::string title = std::filesystem::path(o.model).filename().string();
  ok_or_fail(write_file_atomically(o.report, calibration_report_html(table, title, extras)));
}

void check_report(const Options& o) {
  const std::vector<std::filesystem::path> inputs = {o.model,        o.encodings,   o.checkpoint,           o.recipe,
                                                     o.dataset.text, o.dataset.ids, o.dataset.conversations};
  ok_or_fail(check_output_path(
      o.report, {.inputs = inputs, .may_replace = is_calibration_report, .kind = "a calibration report"}));
}

void check_source(const Options& o) {
  if (o.task.empty()) {
    if (!o.data.empty()) refuse("--data is the file of a task; give --task too");
    if (const Status status = o.dataset.check(); !status.ok()) refuse(status.error().message);
    return;
  }
  const DatasetOptions& dataset = o.dataset;
  if (!dataset.conversations.empty() || !dataset.text.empty() || !dataset.ids.empty()) {
    refuse("--task has its own data; leave out --conversations, --text and --ids");
  }
  if (o.data.empty()) refuse("--task needs its file; give it with --data");
  if (o.kl || o.greedy > 0 || o.layers) {
    refuse("--kl, --greedy and --layers are not for tasks; give --text, --ids or --conversations instead of --task");
  }
}

// Incompatible options are refused before anything is loaded.
void check(const Options& o) {
  check_source(o);
  if (!o.phase.empty() && !o.phases.empty()) refuse("give --phase or --phases, not both");
  const auto names = parse_name_list(o.phases);
  const auto has = [&](const char* phase) { return std::ranges::find(names, phase) != names.end(); };
  if ((o.greedy > 0 || o.layers) && !(has("qdq") && has("device"))) {
    refuse("--greedy and --layers compare the phases qdq and device; give --phases qdq,device");
  }
  if (!o.prompt.empty() && o.greedy == 0) refuse("--prompt is for --greedy; give that too");
  if (!o.report.empty() && !(o.layers && !o.encodings.empty())) {
    refuse("--report shows encodings beside the layers' SQNR; give --layers and --encodings FILE.json");
  }
  if (!o.report.empty()) check_report(o);
  if (!o.encodings.empty() && o.report.empty()) {
    refuse("--encodings is for --report; give that too");
  }
}

std::vector<Phase> phases_of(const Options& o, const std::string& model) {
  std::vector<Phase> phases;
  for (const std::string& name : parse_name_list(o.phases)) phases.push_back(value_or_fail(parse_phase(name)));
  if (!phases.empty()) return phases;
  if (!o.phase.empty()) return {value_or_fail(parse_phase(o.phase))};
  std::error_code ignored;
  const bool is_checkpoint = std::filesystem::is_directory(model, ignored) || is_checkpoint_file(model);
  return {is_checkpoint ? Phase::kFloat : Phase::kDevice};
}

// With float at the front, if others are compared with it.
std::vector<Phase> measured_phases(const Options& o) {
  std::vector<Phase> phases = phases_of(o, o.model);
  if (!o.kl) return phases;
  if (phases == std::vector<Phase>{Phase::kFloat}) {
    refuse("--kl compares a phase with float; give a compiled file, or --phase qdq");
  }
  if (std::ranges::find(phases, Phase::kFloat) == phases.end()) phases.insert(phases.begin(), Phase::kFloat);
  return phases;
}

void warn_of_same_data(const EvaluationData& data, const std::string& calibration) {
  if (!calibration_overlap(calibration, data.hash)) return;
  warn(
      str_format("the model was calibrated on the data that it is evaluated on, {}, so these figures are too good; "
                 "evaluate on other data",
                 data.source));
}

// A bar for each stage: they count different things, at different speeds.
class StageBars {
 public:
  explicit StageBars(bool is_quiet) : is_quiet_(is_quiet) {}
  ProgressCallback callback() {
    return [this](const Progress& p) {
      if (p.stage != stage_) bar_.emplace(is_quiet_);
      stage_ = p.stage;
      bar_->update(p);
    };
  }
  void end() { bar_.reset(); }

 private:
  bool is_quiet_;
  std::optional<ProgressBar> bar_;
  std::string stage_;
};

void run_task(const Options& o, const PhaseModels& models, const Task& task) {
  StageBars bars(o.json);
  auto measured = measure_task_phases(models, task, o.dataset.window, bars.callback());
  bars.end();
  const TaskReport report = value_or_fail(std::move(measured));
  warn_of_same_data(report.data, report.calibration);
  if (o.json) {
    show_json(task_json(report, !o.phases.empty()));
  } else {
    write_stdout(printable_lines(task_text(report)));
  }
}

void run(const Options& o) {
  check(o);
  const std::vector<Phase> phases = measured_phases(o);
  // Reading a task takes no time, and shows what is wrong with it before a model is loaded.
  std::optional<Task> task;
  if (!o.task.empty()) task = value_or_fail(read_task(o.task, o.data, std::max<int64_t>(o.dataset.limit, 0)));
  TestedModelOptions options;
  if (!o.recipe.empty()) options.recipe = value_or_fail(Recipe::load(o.recipe));
  options.engine = o.engine.options();
  options.checkpoint = o.checkpoint;
  options.config_name = o.config;
  options.context = o.dataset.window;
  options.stop = &interrupt_flag();
  watch_interrupts();
  const PhaseModels models = value_or_fail(open_phases(o.model, phases, options));
  if (task) return run_task(o, models, *task);
  const Dataset dataset = value_or_fail(read_dataset(o.dataset, *models.front(), smallest_context(models)));
  PhasesOptions what;
  what.answers = o.answers;
  what.kl = o.kl;
  what.greedy = o.greedy;
  what.prompt = o.prompt;
  if (o.layers) what.layer_tokens = o.layer_tokens;
  StageBars bars(o.json);
  auto measured = measure_phases(models, dataset, what, bars.callback());
  bars.end();
  const PhasesReport report = value_or_fail(std::move(measured));
  warn_of_same_data(report.data, report.calibration);
  if (!o.report.empty()) write_report(o, report);
  if (o.json) {
    show_json(o.phases.empty() ? one_phase_json(report) : phases_json(report));
  } else {
    write_stdout(printable_lines(o.phases.empty() ? one_phase_text(report) : phases_text(report)));
  }
}

void add_phase_options(CLI::App& command, Options& o) {
  const std::string group = "Phases";
  command.add_option("--phase", o.phase, "float, qdq or device; default: float for a folder, device for a file")
      ->check(accepted_by(parse_phase))
      ->group(group);
  command.add_option("--phases", o.phases, "Several, side by side, such as float,qdq,device")
      ->check(name_list())
      ->type_name("NAME,NAME")
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
  command
      .add_option("--checkpoint", o.checkpoint,
                  "The folder that a file was compiled from: for float, for --kl, and for qdq of a file for an NPU")
      ->group(group);
  command.add_option("--recipe", o.recipe, "For the phase qdq of a folder; default: w4")->group(group);
  command.add_option("--config", o.config, "Name of the configuration in the folder")
      ->capture_default_str()
      ->group(group);
  command
      .add_flag("--kl", o.kl, "The KL divergence from the float model too, and how often both prefer the same token")
      ->group(group);
  const std::string compare = "Device against qdq (with --phases)";
  command.add_option("--greedy", o.greedy, "Compare so many greedy tokens")->check(whole_number(1))->group(compare);
  command
      .add_option("--prompt", o.prompt,
                  "What the greedy tokens answer; default: the first conversation's first message")
      ->group(compare);
  command.add_flag("--layers", o.layers, "SQNR of each layer's keys, values and (compiled with --trace) hidden states")
      ->group(compare);
  command.add_option("--layer-tokens", o.layer_tokens, "Over this many tokens of the dataset")
      ->check(whole_number(1))
      ->capture_default_str()
      ->group(compare);
  command.add_option("--report", o.report, "Write an HTML page about encodings and layers (with --encodings)")
      ->group(compare);
  command.add_option("--encodings", o.encodings, "The encodings that `tandem compile --export-encodings` wrote")
      ->check(CLI::ExistingFile)
      ->group(compare);
}

}  // namespace eval_command

void add_eval_command(CLI::App& app) {
  using namespace eval_command;
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Measure perplexity and right answers");
  command->footer(
      "Examples:\n  tandem eval demo.tdm --conversations models/demo/eval.json\n"
      "  tandem eval model.tdm --text book.txt --window 1024 --limit 20 --json\n"
      "  tandem eval model.tdm --text book.txt --window 1024 --checkpoint FOLDER --kl\n"
      "  tandem eval model.tdm --task arc_easy --data ARC-Easy-Test.jsonl --limit 500\n"
      "  tandem eval demo.tdm --phases float,qdq,device --checkpoint models/demo --layers --greedy 64 \\\n"
      "    --conversations models/demo/eval.json --limit 10 --answers 30");
  command->add_option("MODEL", o->model, "A compiled file, or a checkpoint's folder (run by the reference)")
      ->required();
  command->add_option("--conversations", o->dataset.conversations,
                      "JSON with conversations; questions in them are asked");
  command->add_option("--text", o->dataset.text, "A text, cut into windows");
  command->add_option("--ids", o->dataset.ids,
                      "JSON with token ids (key \"valid_ids\" or \"ids\", or a list), cut into windows");
  command->add_option("--task", o->task, "A task by lm-eval's name: " + str_join(task_names(), ", "))
      ->check(accepted_by(check_task_name))
      ->type_name("NAME");
  command->add_option("--data", o->data, "The task's file: JSON lines as on the Hugging Face hub; texts may be plain");
  command->add_option("--window", o->dataset.window, "Tokens of a window; default: the context")
      ->check(whole_number(2));
  command
      ->add_option("--limit", o->dataset.limit,
                   "So many windows, conversations or items, 0: all; default: all, but 200 conversations")
      ->check(whole_number(0));
  command->add_option("--answers", o->answers, "So many questions; 0: none")
      ->check(whole_number(0))
      ->capture_default_str();
  add_phase_options(*command, *o);
  o->engine.add_to(*command);
  command->add_flag("--json", o->json, "As JSON");
  command->callback([o] { run(*o); });
}

}  // namespace tandem
