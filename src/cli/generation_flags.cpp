#include "cli/generation_flags.h"

#include <CLI/CLI.hpp>
#include <random>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/progress_bar.h"
#include "cli/validators.h"

namespace tandem {
namespace {

// Far beyond any effect, and far below the range of a float.
constexpr double kMaxTemperature = 1e6;
constexpr double kMaxPenalty = 1e6;

}  // namespace

void GenerationFlags::add_to(CLI::App& command) {
  command
      .add_option("-n,--max-tokens", max_tokens, "At most so many new tokens; default: the model's, or until it stops")
      ->check(whole_number(1));
  command.add_option("--temperature", temperature, "0: always the most likely token; default: the model's")
      ->check(real_number(0.0, kMaxTemperature));
  command.add_option("--top-k", top_k, "Choose among the k most likely; 0: all; default: the model's")
      ->check(whole_number(0));
  command
      .add_option("--top-p", top_p,
                  "Choose among the most likely that together have this probability, above 0 and up to 1 (all); "
                  "default: the model's")
      ->check(real_number_above(0.0, 1.0));
  command
      .add_option("--min-p", min_p,
                  "Leave out what has less than this share of the best one's probability, 0 (nothing) to 1; default: "
                  "the model's")
      ->check(real_number(0.0, 1.0));
  command
      .add_option("--repetition-penalty", repetition_penalty,
                  "Above 1: less repetition; 1: off; below: more of it; default: the model's")
      ->check(real_number_above(0.0, kMaxPenalty));
  command.add_option("--seed", seed, "For the same answer again, 0 to 2^64 - 1; default: random")
      ->check(any_unsigned());
  command.add_option("--stop", stop, "Text that ends the answer; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  command.add_flag("--greedy", greedy, "Always the most likely token");
  command.add_flag("--ignore-eos", ignore_eos, "Go on after the end of the text");
  command.add_option("--system", system, "A system message before the conversation");
  command.add_flag("--no-template", no_template, "The text as it is, without the model's chat template");
  command.add_flag("--parse-special", parse_special,
                   "Let the text of special tokens in prompts and messages become these tokens; whoever writes such a "
                   "text can then forge turns of the conversation");
  command
      .add_option("--var", variables,
                  "NAME=VALUE for the chat template, such as enable_thinking=false: JSON, or else a text; may be given "
                  "several times")
      ->take_all()
      ->allow_extra_args(false);
  command.add_flag("--hide-reasoning", hide_reasoning, "Do not show what a thinking model writes before its answer");
  engine.add_to(command);
  command.add_option("--decode-on", engine.decode_on,
                     "Another program of a file for several targets, for single tokens; the first then does prompts");
}

namespace {

// The variables as one JSON object. Values are kept verbatim, because the order of their keys may matter.
std::string variables_json(const std::vector<std::string>& variables) {
  std::string json;
  for (const std::string& variable : variables) {
    const size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      refuse(str_format("--var {} should be NAME=VALUE, such as enable_thinking=false", variable));
    }
    const std::string value = variable.substr(equals + 1);
    json += json.empty() ? "{" : ",";
    json += dump_json(Json(variable.substr(0, equals))) + ":";
    json += parse_json(value, "").ok() ? value : dump_json(Json(value));
  }
  return json.empty() ? json : json + "}";
}

}  // namespace

void GenerationFlags::check() const {
  if (greedy && temperature.value_or(0.0f) != 0.0f) {
    refuse(str_format("--greedy and --temperature {} contradict each other; leave one out", *temperature));
  }
  if (no_template && !system.empty()) refuse("--system makes no sense with --no-template");
  if (no_template && !variables.empty()) refuse("--var makes no sense with --no-template");
  variables_json(variables);
}

GenerateOptions GenerationFlags::apply(const Engine& loaded) const {
  GenerateOptions options = loaded.default_options();
  if (max_tokens) options.max_new_tokens = *max_tokens;
  SamplerOptions& s = options.sampler;
  s.temperature = temperature.value_or(s.temperature);
  s.top_k = top_k.value_or(s.top_k);
  s.top_p = top_p.value_or(s.top_p);
  s.min_p = min_p.value_or(s.min_p);
  s.repetition_penalty = repetition_penalty.value_or(s.repetition_penalty);
  if (greedy) s.temperature = 0.0f;
  s.seed = seed ? *seed : std::random_device{}();
  options.stop_strings = stop;
  options.ignore_eos = ignore_eos;
  options.parse_special = parse_special;
  options.template_variables = variables_json(variables);
  return options;
}

Result<std::vector<int32_t>> GenerationFlags::encode(const Engine& loaded, const std::string& text,
                                                     bool add_special) const {
  TANDEM_ASSIGN(std::vector<int32_t> tokens, loaded.encode(text, add_special, parse_special));
  if (parse_special) return tokens;
  TANDEM_ASSIGN(const std::vector<int32_t> parsed, loaded.encode(text, add_special, /*parse_special=*/true));
  if (parsed != tokens) {
    note(
        "note: the prompt has the text of special tokens, which is taken as ordinary text; --parse-special makes "
        "tokens of it");
  }
  return tokens;
}

std::string describe(const GenerateResult& r) {
  const auto rate = [](int64_t count, double seconds) {
    return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
  };
  std::string text = str_format("{} prompt tokens in {} ({:.0f}/s), first token after {}", r.prompt_tokens,
                                format_seconds(r.prompt_seconds), rate(r.prompt_tokens, r.prompt_seconds),
                                format_seconds(r.first_token_seconds));
  if (r.reused_tokens > 0) text += str_format(", {} from the cache", r.reused_tokens);
  const auto count = static_cast<int64_t>(r.tokens.size());
  text += str_format("; {} tokens", count);
  if (count > 1) text += str_format(" at {:.0f}/s", rate(count - 1, r.decode_seconds));
  return text + str_format("; finished: {}", finish_reason_name(r.finish));
}

}  // namespace tandem
