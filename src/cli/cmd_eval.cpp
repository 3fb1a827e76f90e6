// tandem eval: perplexity and right answers.
#include <CLI/CLI.hpp>
#include <cmath>
#include <memory>

#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/engine_flags.h"
#include "cli/interrupt.h"
#include "cli/progress_bar.h"
#include "cli/validators.h"
#include "eval/measures.h"

namespace tandem {
namespace {

constexpr uint64_t kTextLimit = uint64_t{1} << 30;

struct Options {
  std::string model;
  std::string conversations;
  std::string text;
  std::string ids;
  int64_t window = 0;
  int64_t limit = -1;
  int64_t answers = 150;
  std::string phase;
  std::string recipe;
  std::string config = "config.json";
  EngineFlags engine;
  std::string checkpoint;
  bool json = false;
};

// What is measured: sequences of tokens, each on its own.
struct Material {
  std::vector<std::vector<int32_t>> sequences;
  std::vector<Conversation> conversations;
};

void cut_into_windows(std::span<const int32_t> ids, int64_t window, int64_t limit, Material& material) {
  for (size_t at = 0; at < ids.size() && (limit == 0 || static_cast<int64_t>(material.sequences.size()) < limit);
       at += static_cast<size_t>(window)) {
    const auto part = ids.subspan(at, std::min(ids.size() - at, static_cast<size_t>(window)));
    if (part.size() > 1) material.sequences.emplace_back(part.begin(), part.end());
  }
}

Material read_material(const Options& o, const TestedModel& model) {
  Material material;
  const int64_t window = o.window > 0 ? o.window : model.context();
  // The last token of a sequence is only a target: it needs no position.
  if (window < 2 || window > model.context() + 1) {
    fail(invalid_argument("--window {} does not fit the context of {}", window, model.context()));
  }
  const int64_t limit = o.limit < 0 ? (o.conversations.empty() ? 0 : 200) : o.limit;
  if (!o.conversations.empty()) {
    material.conversations = value_or_fail(read_conversations(o.conversations));
    for (const Conversation& conversation : material.conversations) {
      if (limit > 0 && static_cast<int64_t>(material.sequences.size()) >= limit) break;
      const std::string text = value_or_fail(model.render_chat(conversation, false));
      material.sequences.push_back(value_or_fail(model.encode(text, false)));
    }
  } else if (!o.text.empty()) {
    const std::string text = value_or_fail(read_text_file(o.text, kTextLimit));
    cut_into_windows(value_or_fail(model.encode(text, true)), window, limit, material);
  } else {
    cut_into_windows(value_or_fail(read_ids(o.ids)), window, limit, material);
  }
  if (material.sequences.empty())
    fail(invalid_argument("there is nothing to measure: no sequence of two tokens or more"));
  return material;
}

void run(const Options& o) {
  const int sources = !o.conversations.empty() + !o.text.empty() + !o.ids.empty();
  if (sources != 1) fail(invalid_argument("give one of --conversations, --text and --ids"));
  TestedModelOptions options;
  if (!o.phase.empty()) options.phase = value_or_fail(parse_phase(o.phase));
  if (!o.recipe.empty()) options.recipe = value_or_fail(Recipe::load(o.recipe));
  options.engine = o.engine.options();
  options.checkpoint = o.checkpoint;
  options.config_name = o.config;
  options.context = o.window;
  const auto model = value_or_fail(TestedModel::open(o.model, options));
  const Material material = read_material(o, *model);

  watch_interrupts();
  ProgressBar bar(o.json);
  Perplexity perplexity;
  for (size_t i = 0; i < material.sequences.size(); ++i) {
    if (interrupted()) fail(cancelled("stopped"));
    bar.update({"perplexity", i, material.sequences.size()});
    if (static_cast<int64_t>(material.sequences[i].size()) > model->context() + 1) {
      fail(resource_exhausted("sequence {} has {} tokens and the context {}; compile with a larger --context", i,
                              material.sequences[i].size(), model->context()));
    }
    ok_or_fail(perplexity.add(*model, material.sequences[i]));
  }
  Json json = {{"phase", phase_name(model->phase())},
               {"perplexity", perplexity.value()},
               {"tokens", perplexity.tokens()},
               {"sequences", material.sequences.size()}};
  std::optional<Answers> answers;
  if (!material.conversations.empty() && o.answers > 0) {
    answers = value_or_fail(
        ask_questions(*model, material.conversations, o.answers, [&](const Progress& p) { bar.update(p); }));
    json["answers_right"] = answers->right;
    json["answers_asked"] = answers->asked;
  }
  bar.finish();
  if (o.json) {
    fmt::print("{}\n", dump_json(json));
    return;
  }
  fmt::print("perplexity {:.4f} over {} tokens ({} sequences, phase {})\n", perplexity.value(), perplexity.tokens(),
             material.sequences.size(), phase_name(model->phase()));
  if (answers) fmt::print("answers right: {} of {}\n", answers->right, answers->asked);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("eval", "Measure perplexity and right answers");
  command->footer(
      "Examples:\n  tandem eval demo.tdm --conversations models/demo/eval.json\n"
      "  tandem eval model.tdm --text book.txt --window 1024 --limit 20 --json");
  command->add_option("MODEL", o->model, "A compiled file, or a checkpoint's folder (run by the reference)")
      ->required();
  command->add_option("--conversations", o->conversations, "JSON with conversations; questions in them are asked");
  command->add_option("--text", o->text, "A text, cut into windows");
  command->add_option("--ids", o->ids,
                      "JSON with token ids (key \"valid_ids\" or \"ids\", or a list), cut into windows");
  command->add_option("--window", o->window, "Tokens of a window; default: the context")->check(at_least(1));
  command
      ->add_option("--limit", o->limit,
                   "So many windows or conversations, 0: all; default: all windows, 200 conversations")
      ->check(at_least(0));
  command->add_option("--answers", o->answers, "So many questions; 0: none")->check(at_least(0))->capture_default_str();
  command->add_option("--phase", o->phase, "float, qdq or device; default: float for a folder, device for a file");
  command->add_option("--recipe", o->recipe, "For the phase qdq of a folder; default: w4");
  command->add_option("--config", o->config, "Name of the configuration in the folder")->capture_default_str();
  command->add_option("--checkpoint", o->checkpoint,
                      "For the phase qdq of a file for an NPU: the folder that it was compiled from");
  o->engine.add_to(*command);
  command->add_flag("--json", o->json, "As JSON");
  command->callback([o] { run(*o); });
}

}  // namespace tandem
