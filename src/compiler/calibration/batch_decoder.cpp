#include "compiler/calibration/batch_decoder.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "reference/interpreter.h"

namespace tandem {

Result<std::unique_ptr<BatchDecoder>> BatchDecoder::create(const ModelPlan& plan, const WeightProvider& weights,
                                                           const Options& options, ThreadPool& pool) {
  if (options.sequences < 1 || options.length < 1) return internal_error("a batch of no sequences or no tokens");
  std::unique_ptr<BatchDecoder> decoder(new BatchDecoder(plan, options));
  // A method has at least as many positions as tokens, whoever's they are.
  ir::Graph graph = build_graph(plan, {"batch", options.sequences, std::max(options.length, options.sequences)});
  TANDEM_TRY(ir::verify(graph));
  TANDEM_ASSIGN(decoder->inputs_, ir::MethodInputs::read(graph));
  const auto logits = graph.find(ir::PurposeKind::kLogits);
  if (!logits) return internal_error("the graph gives no logits");
  decoder->logits_ = *logits;
  decoder->program_ = make_batch_program(std::move(graph), weights, pool);
  TANDEM_TRY(decoder->allocate());
  TANDEM_ASSIGN(decoder->context_, decoder->program_->new_context());
  return decoder;
}

Status BatchDecoder::allocate() {
  const ir::Graph& graph = program_->method(0);
  bindings_.data.resize(graph.tensors.size());
  bindings_.rows = options_.sequences;
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const ir::Tensor& tensor = graph.tensors[i];
    const bool is_state = tensor.role == ir::TensorRole::kState;
    if (!is_state && tensor.role != ir::TensorRole::kInput && tensor.role != ir::TensorRole::kOutput) continue;
    const uint64_t copies = is_state ? static_cast<uint64_t>(options_.sequences) : 1;
    memory_.push_back(allocate_zeroed(tensor_bytes(tensor) * copies));
    if (!memory_.back()) return resource_exhausted("no memory for {} sequences to be sampled", options_.sequences);
    bindings_.data[i] = memory_.back().get();
  }
  for (const ir::MaskInput& mask : inputs_.masks) {
    auto* const values = static_cast<float*>(bindings_.data[static_cast<size_t>(mask.id)]);
    std::fill_n(values, options_.sequences * inputs_.mask_columns, -std::numeric_limits<float>::infinity());
  }
  return ok_status();
}

Result<std::span<const float>> BatchDecoder::step(std::span<const int32_t> tokens) {
  if (static_cast<int64_t>(tokens.size()) != options_.sequences || position_ >= options_.length) {
    return internal_error("a batch of another size, or beyond its length");
  }
  const ir::Graph& graph = program_->method(0);
  const auto numbers = [&](ir::TensorId id) { return static_cast<int32_t*>(bindings_.data[static_cast<size_t>(id)]); };
  const bool is_long = inputs_.rope_rows >= 0 && options_.length > inputs_.rope_limit;
  for (int64_t n = 0; n < options_.sequences; ++n) {
    numbers(inputs_.tokens)[n] = tokens[static_cast<size_t>(n)];
    numbers(inputs_.positions)[n] = static_cast<int32_t>(position_);
    if (inputs_.rope_rows >= 0) {
      numbers(inputs_.rope_rows)[n] = static_cast<int32_t>(position_ + (is_long ? graph.context : 0));
    }
    for (const ir::MaskInput& mask : inputs_.masks) {
      auto* const row = static_cast<float*>(bindings_.data[static_cast<size_t>(mask.id)]) + n * inputs_.mask_columns;
      row[position_] = 0.0f;
    }
  }
  ++position_;
  TANDEM_TRY(context_->run(0, bindings_));
  return std::span(static_cast<const float*>(bindings_.data[static_cast<size_t>(logits_)]),
                   static_cast<size_t>(options_.sequences * plan_.vocab_size));
}

uint64_t BatchDecoder::cache_bytes(const ModelPlan& plan, int64_t length) {
  return sizeof(float) * 2 * plan.layers.size() *
         static_cast<uint64_t>(plan.kv_heads * plan.head_dim * std::max<int64_t>(length, 1));
}

}  // namespace tandem
