#include "compiler/calibration/logits_range.h"

#include <algorithm>
#include <cmath>

#include "backends/interface/method_inputs.h"
#include "backends/interface/method_memory.h"
#include "base/error.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "reference/interpreter.h"

namespace tandem {

Result<ir::Encoding> find_logits_encoding(const ModelPlan& plan, const WeightProvider& weights,
                                          const std::vector<int32_t>& tokens, DType dtype, ThreadPool& pool) {
  const auto n = static_cast<int64_t>(tokens.size());
  ir::Graph graph = build_graph(plan, {"calibrate", n, n});
  TANDEM_TRY(ir::verify(graph));
  const auto program = make_reference_program({std::move(graph)}, weights, pool);
  TANDEM_ASSIGN(MethodMemory memory, MethodMemory::allocate(*program));
  TANDEM_ASSIGN(const ir::MethodInputs inputs, ir::MethodInputs::read(program->method(0)));
  ir::fill_inputs(program->method(0), inputs, {tokens, 0, n > inputs.rope_limit}, memory.bindings(0));
  memory.bindings(0).rows = n;
  TANDEM_ASSIGN(const auto context, program->new_context());
  TANDEM_TRY(context->run(0, memory.bindings(0)));
  const auto id = program->method(0).find(ir::PurposeKind::kLogits);
  if (!id) return internal_error("the graph gives no logits");
  const auto* logits = static_cast<const float*>(memory.bindings(0).data[static_cast<size_t>(*id)]);
  const auto [low, high] = std::minmax_element(logits, logits + n * plan.vocab_size);
  if (!std::isfinite(*low) || !std::isfinite(*high)) return corrupt("the model's logits are not finite");
  const float margin = std::max(0.25f * (*high - *low), 1e-3f);
  const float bottom = std::min(*low - margin, 0.0f), top = std::max(*high + margin, 0.0f);
  ir::Encoding encoding;
  encoding.kind = ir::EncodingKind::kPerTensor;
  encoding.scale = (top - bottom) / static_cast<float>(dtype_max(dtype) - dtype_min(dtype));
  encoding.zero_point =
      static_cast<int32_t>(dtype_min(dtype)) - static_cast<int32_t>(std::lround(bottom / encoding.scale));
  return encoding;
}

}  // namespace tandem
