// A model under test, in one of three phases: the float checkpoint, the fake-quantized graph, or the compiled file on
// its back end. All three have the same interface, so that their numbers can be compared.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "quant/recipe.h"
#include "runtime/token_runner.h"
#include "tandem/engine.h"

namespace tandem {

enum class Phase {
  kFloat,   // The checkpoint's weights in the reference interpreter.
  kQdq,     // The reference interpreter with weights, activations and the KV cache quantized.
  kDevice,  // The compiled file on its back end.
};
Result<Phase> parse_phase(std::string_view name);  // "float", "qdq", "device"
const char* phase_name(Phase phase);

struct TestedModelOptions {
  std::optional<Phase> phase;    // Unset: float for a checkpoint, device for a compiled file.
  std::optional<Recipe> recipe;  // For kQdq of a checkpoint; w4 if unset.
  int64_t context = 0;           // For a checkpoint: the most positions that are needed.
  EngineOptions engine = {};
  std::string config_name = "config.json";
  // For a file: what it was compiled from. Needed for kFloat, and for kQdq of an NPU file, whose weights are inside the
  // vendor's binaries.
  std::filesystem::path checkpoint = {};
  // Checked between calls of a method; then the error is kCancelled. It must outlive the model.
  const std::atomic<bool>* stop = nullptr;
};

// The token that precedes a text when its first token is predicted too.
struct PrefixToken {
  int32_t id = -1;
  std::string text;  // As it would be written in a text; "" if that is unknown.
};

class TestedModel {
 public:
  // `path` is a checkpoint folder or a compiled file. A file's phase qdq loads no vendor library.
  static Result<std::unique_ptr<TestedModel>> open(const std::filesystem::path& path,
                                                   const TestedModelOptions& options);
  virtual ~TestedModel() = default;

  virtual Phase phase() const = 0;
  virtual int64_t vocab_size() const = 0;
  virtual int64_t context() const = 0;
  virtual Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const = 0;
  virtual Result<std::string> decode(std::span<const int32_t> tokens) const = 0;
  virtual Result<std::string> render_chat(std::span<const Message> messages, bool add_generation_prompt) const = 0;
  virtual std::span<const int32_t> eos_tokens() const = 0;
  // The tokenizer's beginning of text; without one, its end of text.
  Result<PrefixToken> prefix_token() const;
  // What a compiled file says about its calibration data (eval/evaluation_data.h); "" if nothing.
  virtual std::string calibration() const { return {}; }

  // The logits after each of `tokens`, from an empty context.
  Status score(std::span<const int32_t> tokens, const TokenRunner::RowCallback& on_row);
  // The same in parts: continues where the last feed() ended.
  void restart() { rewind(0); }
  // The next feed() continues after the first `position` tokens, at most those that were fed.
  void rewind(int64_t position) { runner_->rewind(position); }
  int64_t position() const { return runner_->position(); }
  Status feed(std::span<const int32_t> tokens, TokenRunner::Logits wanted, const TokenRunner::RowCallback& on_row);
  // Tokens of the longest call. Parts of this length are computed by the same calls as the whole sequence.
  virtual int64_t longest_call() const = 0;
  void observe_calls(TokenRunner::CallObserver observer) { runner_->observe_calls(std::move(observer)); }
  // Up to `count` tokens, always the most likely, from an empty context; ends at an end-of-text token.
  Result<std::vector<int32_t>> generate_greedy(std::span<const int32_t> prompt, int64_t count);

 protected:
  Status start(Program& program, const MethodTable& table, const std::atomic<bool>* stop);
  // The names of the tokenizer's beginning and end of text, those that it has.
  virtual std::vector<std::string> prefix_token_names() const = 0;

 private:
  std::optional<TokenRunner> runner_;
  const std::atomic<bool>* stop_ = nullptr;
};

}  // namespace tandem
