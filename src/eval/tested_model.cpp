#include "eval/tested_model.h"

#include <algorithm>

#include "backends/cpu/execute/bind_matrix.h"
#include "base/error.h"
#include "compiler/passes/passes.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "models/checkpoint_weights.h"
#include "quant/fake_quant_weights.h"
#include "reference/interpreter.h"
#include "runtime/loaded_engine.h"

namespace tandem {
namespace {

constexpr int64_t kReferenceChunk = 256;

// A compiled file's weights, for the interpreter.
class ArtifactWeights final : public WeightProvider {
 public:
  explicit ArtifactWeights(const Artifact& artifact) : artifact_(artifact) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    const WeightEntry* entry = artifact_.find_weight(name);
    if (entry == nullptr) return not_found("the weight \"{}\" is absent", name);
    TANDEM_ASSIGN(const cpu::PackedMatrix matrix, cpu::bind_matrix(*entry, artifact_));
    for (int64_t r = 0; r < rows; ++r) cpu::unpack_row(matrix, row_begin + r, out + r * matrix.cols);
    return ok_status();
  }

  Result<std::vector<float>> read_vector(std::string_view name) const override {
    const VectorEntry* entry = artifact_.find_vector(name);
    if (entry == nullptr) return not_found("the vector \"{}\" is absent", name);
    const auto* values = reinterpret_cast<const float*>(artifact_.bytes(entry->data).data());
    return std::vector<float>(values, values + entry->length);
  }

 private:
  const Artifact& artifact_;
};

class CompiledModel final : public TestedModel {
 public:
  static Result<std::unique_ptr<TestedModel>> open(const std::filesystem::path& path,
                                                   const TestedModelOptions& options) {
    auto model = std::make_unique<CompiledModel>();
    model->phase_ = options.phase.value_or(Phase::kDevice);
    if (model->phase_ == Phase::kFloat) {
      return invalid_argument("a compiled file has no float weights; give the checkpoint's folder for the phase float");
    }
    if (options.recipe)
      return invalid_argument("a compiled file has its own recipe; give one with a checkpoint's folder");
    TANDEM_ASSIGN(model->engine_, LoadedEngine::load(path, options.engine));
    TANDEM_TRY(model->engine_->verify_weights());
    Program* program = &model->engine_->program();
    if (model->phase_ == Phase::kQdq) {
      model->weights_.emplace(model->engine_->artifact());
      model->reference_ =
          make_reference_program(model->engine_->artifact().head().methods, *model->weights_, model->engine_->pool());
      program = model->reference_.get();
    }
    TANDEM_ASSIGN(TokenRunner runner, TokenRunner::create(*program, model->engine_->table()));
    model->runner_.emplace(std::move(runner));
    return std::unique_ptr<TestedModel>(std::move(model));
  }

  Phase phase() const override { return phase_; }
  int64_t vocab_size() const override { return engine_->vocab_size(); }
  int64_t context() const override { return engine_->context(); }
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const override {
    return engine_->encode(text, add_special);
  }
  Result<std::string> decode(std::span<const int32_t> tokens) const override { return engine_->decode(tokens, true); }
  Result<std::string> render_chat(std::span<const Message> messages, bool prompt) const override {
    return engine_->render_chat(messages, prompt);
  }
  std::span<const int32_t> eos_tokens() const override { return engine_->eos_tokens(); }

 private:
  Phase phase_ = Phase::kDevice;
  std::shared_ptr<LoadedEngine> engine_;
  std::optional<ArtifactWeights> weights_;
  std::unique_ptr<Program> reference_;
};

class CheckpointModel final : public TestedModel {
 public:
  CheckpointModel(Checkpoint checkpoint, ModelPlan plan, const TestedModelOptions& options)
      : checkpoint_(std::move(checkpoint)),
        plan_(std::move(plan)),
        phase_(options.phase.value_or(Phase::kFloat)),
        recipe_(options.recipe ? *options.recipe : *recipe_preset("w4")),
        pool_(options.engine.threads),
        float_weights_(checkpoint_, plan_),
        qdq_weights_(float_weights_, recipe_, [this](std::string_view name) { return plan_.find_weight(name)->cols; }) {
  }

  static Result<std::unique_ptr<TestedModel>> open(const std::filesystem::path& path,
                                                   const TestedModelOptions& options) {
    if (options.phase == Phase::kDevice) {
      return invalid_argument("the phase device needs a compiled file; make one with `tandem compile {}`",
                              path.string());
    }
    TANDEM_ASSIGN(Checkpoint checkpoint, Checkpoint::open(path, {options.config_name}));
    TANDEM_ASSIGN(ModelPlan plan, plan_model(checkpoint));
    auto model = std::make_unique<CheckpointModel>(std::move(checkpoint), std::move(plan), options);
    TANDEM_TRY(model->prepare(options));
    return std::unique_ptr<TestedModel>(std::move(model));
  }

  Phase phase() const override { return phase_; }
  int64_t vocab_size() const override { return plan_.vocab_size; }
  int64_t context() const override { return table_.context(); }
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const override {
    if (!tokenizer_) return unsupported("{}: no tokenizer; give token ids", checkpoint_.folder().string());
    return tokenizer_->encode(text, add_special);
  }
  Result<std::string> decode(std::span<const int32_t> tokens) const override {
    if (!tokenizer_) return unsupported("{}: no tokenizer", checkpoint_.folder().string());
    return tokenizer_->decode(tokens, true);
  }
  Result<std::string> render_chat(std::span<const Message> messages, bool prompt) const override {
    const bool has_chatml = tokenizer_ && tokenizer_->token_to_id("<|im_start|>").has_value();
    TANDEM_ASSIGN(const auto chat,
                  make_chat_template(checkpoint_.tokenizer_config().chat_template.value_or(""), has_chatml));
    return chat->render(messages, prompt);
  }
  std::span<const int32_t> eos_tokens() const override { return eos_; }

 private:
  Status prepare(const TestedModelOptions& options) {
    const int64_t context = options.context > 0 ? options.context : std::max<int64_t>(plan_.max_positions, 1);
    std::vector<ir::Graph> graphs = {build_graph(plan_, {"decode", 1, context})};
    if (const int64_t chunk = std::min(context, kReferenceChunk); chunk > 1) {
      graphs.push_back(build_graph(plan_, {"prefill", chunk, context}));
    }
    for (ir::Graph& graph : graphs) {
      TANDEM_TRY(ir::verify(graph));
      if (phase_ != Phase::kQdq) continue;
      // Borders stay f32: they are the run time's affair and not the model's.
      Recipe inside = recipe_;
      inside.mask = inside.logits = DType::kF32;
      TANDEM_TRY(run_passes(graph, {plan_, inside}, {}));
    }
    const WeightProvider* weights = &float_weights_;
    if (phase_ == Phase::kQdq) weights = &qdq_weights_;
    program_ = make_reference_program(std::move(graphs), *weights, pool_);
    TANDEM_ASSIGN(table_, MethodTable::read(*program_, plan_.vocab_size));
    TANDEM_ASSIGN(TokenRunner runner, TokenRunner::create(*program_, table_));
    runner_.emplace(std::move(runner));
    for (const int64_t id : checkpoint_.generation().eos_token_ids) eos_.push_back(static_cast<int32_t>(id));
    if (checkpoint_.tokenizer_path()) {
      auto tokenizer = Tokenizer::from_file(*checkpoint_.tokenizer_path());
      if (tokenizer.ok()) tokenizer_ = std::move(tokenizer).value();
    }
    return ok_status();
  }

  Checkpoint checkpoint_;
  ModelPlan plan_;
  Phase phase_;
  Recipe recipe_;
  ThreadPool pool_;
  CheckpointWeights float_weights_;
  FakeQuantWeights qdq_weights_;
  std::unique_ptr<Program> program_;
  MethodTable table_;
  std::optional<Tokenizer> tokenizer_;
  std::vector<int32_t> eos_;
};

const std::atomic<bool> kNeverStop{false};

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
  if (std::filesystem::is_directory(path, ignored)) return CheckpointModel::open(path, options);
  return CompiledModel::open(path, options);
}

Status TestedModel::score(std::span<const int32_t> tokens, const TokenRunner::RowCallback& on_row) {
  runner_->rewind(0);
  return runner_->feed(tokens, TokenRunner::Logits::kAll, kNeverStop, on_row);
}

Result<std::vector<int32_t>> TestedModel::generate_greedy(std::span<const int32_t> prompt, int64_t count) {
  std::vector<int32_t> tokens;
  int32_t best = -1;
  const auto pick = [&](size_t, std::span<const float> logits) {
    best = static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin());
    return ok_status();
  };
  runner_->rewind(0);
  TANDEM_TRY(runner_->feed(prompt, TokenRunner::Logits::kLast, kNeverStop, pick));
  const auto eos = eos_tokens();
  while (static_cast<int64_t>(tokens.size()) < count && std::ranges::find(eos, best) == eos.end()) {
    tokens.push_back(best);
    if (runner_->position() >= context()) break;
    TANDEM_TRY(runner_->feed({&tokens.back(), 1}, TokenRunner::Logits::kLast, kNeverStop, pick));
  }
  return tokens;
}

}  // namespace tandem
