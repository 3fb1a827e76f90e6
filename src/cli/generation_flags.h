// The flags of `run` and `chat` that say how to generate.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/answer_printer.h"
#include "cli/engine_flags.h"
#include "tandem/engine.h"

namespace CLI {
class App;
}

namespace tandem {

struct GenerationFlags {
  std::optional<int64_t> max_tokens;
  std::optional<float> temperature;
  std::optional<int> top_k;
  std::optional<float> top_p;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool greedy = false;
  bool ignore_eos = false;
  std::string system;                  // A message before the conversation.
  bool no_template = false;            // Use the text unchanged.
  bool parse_special = false;          // Text may become special tokens.
  std::vector<std::string> variables;  // Of the template: NAME=VALUE.
  bool hide_reasoning = false;
  EngineFlags engine;

  void add_to(CLI::App& command);
  ShowReasoning show_reasoning() const { return hide_reasoning ? ShowReasoning::kHide : ShowReasoning::kYes; }
  // Refuses contradictory flags before anything is loaded.
  void check() const;
  // The model's own defaults, overridden by the given flags. Without a seed, a random one.
  GenerateOptions apply(const Engine& loaded) const;
  // The tokens of a text for --no-template. Warns on standard error if it spells special tokens that stay text.
  Result<std::vector<int32_t>> encode(const Engine& loaded, const std::string& text, bool add_special) const;
};

// "12 prompt tokens in 8 ms (1500/s), first token after 9 ms; 180 tokens at 950/s; stopped: stop"
std::string describe(const GenerateResult& result);

}  // namespace tandem
