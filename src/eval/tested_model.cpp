#include "eval/tested_model.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/locate.h"
#include "eval/checkpoint_model.h"
#include "eval/file_reference.h"
#include "runtime/loaded_engine.h"
#include "runtime/program_choice.h"

namespace tandem {
namespace {

const std::atomic<bool> kNeverStop{false};

class CompiledModel final : public TestedModel {
 public:
  static Result<std::unique_ptr<TestedModel>> open(const std::filesystem::path& path,
                                                   const TestedModelOptions& options) {
    if (options.recipe)
      return invalid_argument("a compiled file has its own recipe; give one with a checkpoint's folder");
    if (options.phase == Phase::kFloat) return open_float(path, options);
    auto model = std::make_unique<CompiledModel>();
    model->phase_ = options.phase.value_or(Phase::kDevice);
    LoadedEngine::ProgramMaker reference;
    if (model->phase_ == Phase::kQdq) {
      reference = [&](const Artifact& artifact, ThreadPool& pool) {
        return make_file_reference(artifact, pool, {options.checkpoint, options.config_name});
      };
    }
    TANDEM_ASSIGN(model->engine_, LoadedEngine::load(path, options.engine, reference));
    TANDEM_TRY(model->engine_->verify_weights());
    TANDEM_TRY(model->start(model->engine_->program(), model->engine_->table(), options.stop));
    return std::unique_ptr<TestedModel>(std::move(model));
  }

  Phase phase() const override { return phase_; }
  int64_t vocab_size() const override { return engine_->vocab_size(); }
  int64_t context() const override { return engine_->context(); }
  int64_t longest_call() const override { return engine_->table().methods().back().tokens; }
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const override {
    // Results are compared with those of the hub's tokenizers.
    return engine_->encode(text, add_special, /*parse_special=*/true);
  }
  Result<std::string> decode(std::span<const int32_t> tokens) const override { return engine_->decode(tokens, true); }
  Result<std::string> render_chat(std::span<const Message> messages, bool prompt) const override {
    return engine_->render_chat(messages, prompt);
  }
  std::span<const int32_t> eos_tokens() const override { return engine_->eos_tokens(); }
  std::string calibration() const override { return engine_->artifact().header().calibration; }

 protected:
  std::vector<std::string> prefix_token_names() const override {
    const TextInfo& text = engine_->artifact().header().text;
    return {text.bos_token, text.eos_token};
  }

 private:
  // The checkpoint that the file was compiled from, with as many positions as the file.
  static Result<std::unique_ptr<TestedModel>> open_float(const std::filesystem::path& path,
                                                         const TestedModelOptions& options) {
    if (options.checkpoint.empty()) {
      return invalid_argument(
          "a compiled file has no float weights; give the folder that it was compiled from for the phase float, as "
          "the model or as `checkpoint`");
    }
    TANDEM_ASSIGN(const Artifact file, Artifact::open(path));
    TANDEM_ASSIGN(const std::vector<size_t> programs, candidate_programs(file.header(), options.engine.run_on));
    const Artifact artifact = file.program(programs.front());
    TANDEM_ASSIGN(const Checkpoint checkpoint, Checkpoint::open(options.checkpoint, {options.config_name}));
    TANDEM_TRY(check_compiled_from(artifact.header(), checkpoint));
    TestedModelOptions with_context = options;
    if (!artifact.header().methods.empty()) with_context.context = artifact.header().methods.front().context;
    return open_checkpoint_model(options.checkpoint, with_context);
  }

  Phase phase_ = Phase::kDevice;
  std::shared_ptr<LoadedEngine> engine_;
};

}  // namespace

Result<Phase> parse_phase(std::string_view name) {
  for (const Phase phase : {Phase::kFloat, Phase::kQdq, Phase::kDevice}) {
    if (name == phase_name(phase)) return phase;
  }
  return invalid_argument("phase \"{}\" is unknown; there are float, qdq and device", name);
}

const char* phase_name(Phase phase) {
  return phase == Phase::kFloat ? "float" : phase == Phase::kQdq ? "qdq" : "device";
}

Result<std::unique_ptr<TestedModel>> TestedModel::open(const std::filesystem::path& path,
                                                       const TestedModelOptions& options) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored) || is_checkpoint_file(path)) {
    if (!options.engine.run_on.empty()) {
      return invalid_argument("`run_on` is for compiled files, and {} is a checkpoint; leave it out", path.string());
    }
    return open_checkpoint_model(path, options);
  }
  return CompiledModel::open(path, options);
}

Status TestedModel::start(Program& program, const MethodTable& table, const std::atomic<bool>* stop) {
  TANDEM_ASSIGN(TokenRunner runner, TokenRunner::create(program, table));
  runner_.emplace(std::move(runner));
  stop_ = stop != nullptr ? stop : &kNeverStop;
  return ok_status();
}

Result<PrefixToken> TestedModel::prefix_token() const {
  for (const std::string& name : prefix_token_names()) {
    if (name.empty()) continue;
    TANDEM_ASSIGN(const std::vector<int32_t> ids, encode(name, false));
    if (ids.size() == 1) return PrefixToken{ids.front(), name};
  }
  if (eos_tokens().empty()) {
    return unsupported(
        "the model has no token that could precede a text: its tokenizer has no bos_token and eos_token");
  }
  return PrefixToken{eos_tokens().front(), {}};
}

Status TestedModel::feed(std::span<const int32_t> tokens, TokenRunner::Logits wanted,
                         const TokenRunner::RowCallback& on_row) {
  return runner_->feed(tokens, wanted, *stop_, on_row);
}

Status TestedModel::score(std::span<const int32_t> tokens, const TokenRunner::RowCallback& on_row) {
  restart();
  return feed(tokens, TokenRunner::Logits::kAll, on_row);
}

Result<std::vector<int32_t>> TestedModel::generate_greedy(std::span<const int32_t> prompt, int64_t count) {
  std::vector<int32_t> tokens;
  int32_t argmax = -1;
  const auto find_argmax = [&](size_t, std::span<const float> logits) {
    argmax = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    return ok_status();
  };
  restart();
  TANDEM_TRY(feed(prompt, TokenRunner::Logits::kLast, find_argmax));
  const auto eos = eos_tokens();
  while (static_cast<int64_t>(tokens.size()) < count && std::ranges::find(eos, argmax) == eos.end()) {
    tokens.push_back(argmax);
    if (runner_->position() >= context()) break;
    TANDEM_TRY(feed({&tokens.back(), 1}, TokenRunner::Logits::kLast, find_argmax));
  }
  return tokens;
}

}  // namespace tandem
