#include "cli/generation_flags.h"

#include <CLI/CLI.hpp>
#include <random>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/progress_bar.h"
#include "cli/validators.h"

namespace tandem {

void GenerationFlags::add_to(CLI::App& command) {
  command.add_option("-n,--max-tokens", max_tokens, "At most so many new tokens")->check(at_least(1));
  command.add_option("--temperature", temperature, "0: always the most likely token; default: the model's");
  command.add_option("--top-k", top_k, "Choose among the k most likely; 0: all");
  command.add_option("--top-p", top_p, "Choose among the most likely that together have this probability");
  command.add_option("--min-p", min_p, "Leave out what has less than this share of the best one's probability");
  command.add_option("--repetition-penalty", repetition_penalty, "Above 1: less repetition");
  command.add_option("--seed", seed, "For the same answer again; default: random");
  command.add_option("--stop", stop, "Text that ends the answer; may be given several times")
      ->take_all()
      ->allow_extra_args(false);
  command.add_flag("--greedy", greedy, "Always the most likely token");
  command.add_flag("--ignore-eos", ignore_eos, "Go on after the end of the text");
  engine.add_to(command);
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
  if (greedy && temperature.value_or(0.0f) != 0.0f) {
    fail(invalid_argument("--greedy and --temperature {} contradict each other; leave one out", *temperature));
  }
  if (greedy) s.temperature = 0.0f;
  s.seed = seed ? *seed : std::random_device{}();
  options.stop_strings = stop;
  options.ignore_eos = ignore_eos;
  return options;
}

std::string describe(const GenerateResult& r) {
  const auto rate = [](int64_t count, double seconds) {
    return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
  };
  std::string text = fmt::format("{} prompt tokens in {} ({:.0f}/s), first token after {}", r.prompt_tokens,
                                 format_seconds(r.prompt_seconds), rate(r.prompt_tokens, r.prompt_seconds),
                                 format_seconds(r.first_token_seconds));
  if (r.reused_tokens > 0) text += fmt::format(", {} from the cache", r.reused_tokens);
  const auto count = static_cast<int64_t>(r.tokens.size());
  text += fmt::format("; {} tokens", count);
  if (count > 1) text += fmt::format(" at {:.0f}/s", rate(count - 1, r.decode_seconds));
  return text + fmt::format("; finished: {}", finish_reason_name(r.finish));
}

}  // namespace tandem
