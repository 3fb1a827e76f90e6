#include "eval/checkpoint_model.h"

#include <algorithm>

#include "base/error.h"
#include "chat/chat_template.h"
#include "checkpoint/checkpoint_tokenizer.h"
#include "compiler/passes/passes.h"
#include "eval/fake_quant_checkpoint.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "reference/interpreter.h"
#include "tokenizer/tokenizer.h"

namespace tandem {
namespace {

// A call computes its padding too: tasks feed few tokens at a time, texts many.
constexpr int64_t kReferenceChunks[] = {16, 64, 256};

class CheckpointModel final : public TestedModel {
 public:
  CheckpointModel(std::unique_ptr<FakeQuantCheckpoint> checkpoint, const TestedModelOptions& options)
      : checkpoint_(std::move(checkpoint)),
        phase_(options.phase.value_or(Phase::kFloat)),
        pool_(options.engine.threads) {}

  Status prepare(const TestedModelOptions& options) {
    const ModelPlan& plan = checkpoint_->plan();
    const int64_t context = options.context > 0 ? options.context : std::max<int64_t>(plan.max_positions, 1);
    std::vector<ir::Graph> graphs = {build_graph(plan, {"decode", 1, context})};
    int64_t last = 1;
    for (const int64_t most : kReferenceChunks) {
      const int64_t chunk = std::min(context, most);
      if (chunk > last) graphs.push_back(build_graph(plan, {str_format("prefill_{}", chunk), chunk, context}));
      last = chunk;
    }
    for (ir::Graph& graph : graphs) {
      TANDEM_TRY(ir::verify(graph));
      if (phase_ != Phase::kQdq) continue;
      // Inputs and outputs stay f32: their dtypes are the run time's concern and not the model's.
      Recipe inside = checkpoint_->recipe();
      inside.mask = inside.logits = DType::kF32;
      TANDEM_TRY(run_passes(graph, {plan, inside}, {}));
    }
    const WeightProvider& weights = phase_ == Phase::kQdq ? checkpoint_->weights() : checkpoint_->float_weights();
    program_ = make_reference_program(std::move(graphs), weights, pool_);
    TANDEM_ASSIGN(table_, MethodTable::read(*program_, plan.vocab_size));
    TANDEM_TRY(start(*program_, table_, options.stop));
    read_texts();
    return ok_status();
  }

  Phase phase() const override { return phase_; }
  int64_t vocab_size() const override { return checkpoint_->plan().vocab_size; }
  int64_t context() const override { return table_.context(); }
  int64_t longest_call() const override { return table_.methods().back().tokens; }
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special) const override {
    if (!tokenizer_) return unsupported("{}: no tokenizer; give token ids", folder());
    return tokenizer_->encode(text, add_special);
  }
  Result<std::string> decode(std::span<const int32_t> tokens) const override {
    if (!tokenizer_) return unsupported("{}: no tokenizer", folder());
    return tokenizer_->decode(tokens, true);
  }
  Result<std::string> render_chat(std::span<const Message> messages, bool prompt) const override {
    if (!chat_template_) return chat_template_error_;
    return chat_template_->render(messages, prompt);
  }
  std::span<const int32_t> eos_tokens() const override { return eos_; }

 protected:
  std::vector<std::string> prefix_token_names() const override {
    const TokenizerConfig& config = checkpoint_->checkpoint().tokenizer_config();
    return {config.bos_token.value_or(""), config.eos_token.value_or("")};
  }

 private:
  std::string folder() const { return checkpoint_->checkpoint().folder().string(); }

  // A model without them can still be evaluated on token ids.
  void read_texts() {
    const Checkpoint& checkpoint = checkpoint_->checkpoint();
    for (const int64_t id : checkpoint.generation().eos_token_ids) eos_.push_back(static_cast<int32_t>(id));
    auto tokenizer = load_checkpoint_tokenizer(checkpoint);
    if (tokenizer.ok()) tokenizer_ = std::move(tokenizer).value();
    auto chat =
        make_chat_template(chat_template_source(checkpoint.tokenizer_config()), tokenizer_ ? &*tokenizer_ : nullptr);
    if (chat.ok()) {
      chat_template_ = std::move(chat).value();
    } else {
      chat_template_error_ = std::move(chat).error();
    }
  }

  std::unique_ptr<FakeQuantCheckpoint> checkpoint_;
  Phase phase_;
  ThreadPool pool_;
  std::unique_ptr<Program> program_;
  MethodTable table_;
  std::optional<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  Error chat_template_error_;  // Why there is none.
  std::vector<int32_t> eos_;
};

}  // namespace

Result<std::unique_ptr<TestedModel>> open_checkpoint_model(const std::filesystem::path& folder,
                                                           const TestedModelOptions& options) {
  if (options.phase == Phase::kDevice) {
    return invalid_argument("the phase device needs a compiled file; make one with `tandem compile {}`",
                            folder.string());
  }
  if (options.recipe && options.recipe->rescore.value_or(0) > 0) {
    return invalid_argument(
        "logits are rescored in files for NPUs only; compile one and measure it with `checkpoint` {} and `phases` qdq",
        folder.string());
  }
  TANDEM_ASSIGN(Checkpoint checkpoint, Checkpoint::open(folder, {options.config_name}));
  TANDEM_ASSIGN(auto quantized, FakeQuantCheckpoint::create(std::move(checkpoint),
                                                            options.recipe ? *options.recipe : *recipe_preset("w4")));
  auto model = std::make_unique<CheckpointModel>(std::move(quantized), options);
  TANDEM_TRY(model->prepare(options));
  return std::unique_ptr<TestedModel>(std::move(model));
}

}  // namespace tandem
