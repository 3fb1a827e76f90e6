#include "backends/qnn/execute/execution_context.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>

#include "backends/interface/io_conversion.h"
#include "backends/interface/method_memory.h"
#include "base/checked.h"
#include "base/error.h"

namespace tandem::qnn {
namespace {

constexpr size_t kMaxKnownShared = 4096;

// Shared memory if there is some, otherwise plain; cleared, since nothing may start as NaN. Null if there is none.
std::shared_ptr<uint8_t> allocate_arena(SharedHeap* heap, uint64_t bytes) {
  bytes = std::max<uint64_t>(bytes, 1);
  if (bytes > machine_memory()) return nullptr;
  std::shared_ptr<uint8_t> arena = heap != nullptr ? heap->allocate(bytes) : nullptr;
  if (arena == nullptr) {
    AlignedMemory plain = allocate_aligned(bytes);
    if (plain == nullptr) return nullptr;
    arena = std::shared_ptr<uint8_t>(plain.release(), FreeDeleter());
  }
  std::memset(arena.get(), 0, bytes);
  return arena;
}

}  // namespace

Result<std::unique_ptr<ExecutionContext>> QnnExecutionContext::create(std::shared_ptr<const LoadedShards> loaded) {
  auto context = std::unique_ptr<QnnExecutionContext>(new QnnExecutionContext(std::move(loaded)));
  const LoadedShards& shards = *context->loaded_;
  const LogScope scope(shards.log.log());
  uint64_t arena_bytes = 0;
  for (const LoadedMethod& method : shards.methods) {
    arena_bytes = std::max(arena_bytes, method.plan.arena_bytes);
    for (const HostLookup& lookup : method.plan.lookups) {
      const ir::Tensor& table = method.plan.graph->at(lookup.table);
      context->row_width_ = std::max(context->row_width_, static_cast<size_t>(table.shape[1]));
    }
    if (!method.plan.rescores.empty()) {
      context->rescore_scratch_.resize(static_cast<size_t>(shards.pool->size()));
    }
  }
  context->arena_ = allocate_arena(shards.heap.get(), arena_bytes);
  if (context->arena_ == nullptr) return resource_exhausted("no memory for {} bytes of activations", arena_bytes);
  try {
    context->rows_.resize(context->row_width_ * static_cast<size_t>(shards.pool->size()));
  } catch (const std::bad_alloc&) {
    return resource_exhausted("no memory for rows of {} numbers", context->row_width_);
  }
  for (const LoadedMethod& method : shards.methods) {
    std::vector<BoundStep>& steps = context->steps_.emplace_back();
    for (const Step& step : method.plan.steps) {
      TANDEM_ASSIGN(Execution execution, Execution::create(shards.shards[step.shard].graphs[step.graph]));
      BoundStep& bound = steps.emplace_back(std::move(execution));
      bound.inputs.resize(step.inputs.size());
      bound.outputs.resize(step.outputs.size());
    }
  }
  return std::unique_ptr<ExecutionContext>(std::move(context));
}

Status QnnExecutionContext::check(const MethodPlan& plan, const Bindings& bindings) const {
  const ir::Graph& graph = *plan.graph;
  if (bindings.data.size() != graph.tensors.size()) {
    return internal_error("method \"{}\" was called with memory for another one", graph.name);
  }
  for (size_t i = 0; i < graph.tensors.size(); ++i) {
    const ir::TensorRole role = graph.tensors[i].role;
    const bool bound =
        role == ir::TensorRole::kInput || role == ir::TensorRole::kOutput || role == ir::TensorRole::kState;
    if (bound && bindings.data[i] == nullptr) {
      return internal_error("method \"{}\" was called without memory for \"{}\"", graph.name, graph.tensors[i].name);
    }
  }
  if (bindings.first_row < 0 || bindings.rows < 0 || bindings.first_row > graph.tokens ||
      bindings.rows > graph.tokens - bindings.first_row) {
    return internal_error("method \"{}\" was asked for rows {} to {} of {}", graph.name, bindings.first_row,
                          bindings.first_row + bindings.rows, graph.tokens);
  }
  // The NPU fails, or reads elsewhere, on an index outside its table.
  for (const TokenLimit& limit : plan.token_limits) {
    const auto* const tokens = static_cast<const int32_t*>(bindings.data[static_cast<size_t>(limit.tokens)]);
    for (int64_t i = 0; i < graph.tokens; ++i) {
      if (tokens[i] < 0 || tokens[i] >= limit.rows) {
        return invalid_argument("token {} is not in the model's vocabulary of {}", tokens[i], limit.rows);
      }
    }
  }
  for (const auto& [port, rows] : plan.positions) {
    const auto* const positions = static_cast<const int32_t*>(bindings.data[static_cast<size_t>(port.tensor)]);
    for (int64_t i = 0; i < graph.tokens; ++i) {
      if (positions[i] >= rows) {
        return invalid_argument("position {} is outside of the context of {}", positions[i], graph.context);
      }
    }
  }
  return ok_status();
}

void QnnExecutionContext::copy_positions(const MethodPlan& plan, const Bindings& bindings) {
  for (const auto& [port, rows] : plan.positions) {
    const auto* const from = static_cast<const int32_t*>(bindings.data[static_cast<size_t>(port.tensor)]);
    auto* const to = reinterpret_cast<int32_t*>(arena_.get() + port.offset);
    for (int64_t i = 0; i < plan.graph->tokens; ++i) to[i] = std::max(from[i], 0);
  }
}

void QnnExecutionContext::look_up(const LoadedMethod& method, const Bindings& bindings) {
  const ir::Graph& graph = *method.plan.graph;
  for (size_t i = 0; i < method.plan.lookups.size(); ++i) {
    const HostLookup& lookup = method.plan.lookups[i];
    const HostTable& table = method.tables[i];
    const ir::Tensor& output = graph.at(lookup.output.tensor);
    const auto* const tokens = static_cast<const int32_t*>(bindings.data[static_cast<size_t>(lookup.tokens)]);
    uint8_t* const to = address_of(lookup.output, bindings);
    const int64_t cols = output.shape[1];
    const uint64_t row_bytes = dtype_bytes(output.dtype, static_cast<size_t>(cols));
    const auto one_row = [&](int64_t row, int thread) {
      float* const values = rows_.data() + row_width_ * static_cast<size_t>(thread);
      std::visit([&](const auto& rows) { unpack_row(rows, tokens[row], values); }, table);
      ir::encode_row(output.dtype, output.encoding, values, cols, to + row_bytes * static_cast<uint64_t>(row));
    };
    // A single row is done before a second thread would be awake.
    if (graph.tokens == 1) {
      one_row(0, 0);
    } else {
      loaded_->pool->run(graph.tokens, one_row);
    }
  }
}

void QnnExecutionContext::rescore(const LoadedMethod& method, const Bindings& bindings) {
  const ir::Graph& graph = *method.plan.graph;
  for (size_t i = 0; i < method.plan.rescores.size(); ++i) {
    const HostRescore& rescore = method.plan.rescores[i];
    const RowTable& table = method.rescored_tables[i];
    const ir::Tensor &x = graph.at(rescore.x.tensor), &logits = graph.at(rescore.logits.tensor);
    const uint64_t x_bytes = dtype_bytes(x.dtype, static_cast<size_t>(table.cols));
    const float factor = rescore.attributes.factor, softcap = rescore.attributes.softcap;
    const auto one_row = [&](int64_t index, int thread) {
      const int64_t row = bindings.first_row + index;
      RescoreScratch& scratch = rescore_scratch_[static_cast<size_t>(thread)];
      scratch.x.resize(static_cast<size_t>(table.cols));
      scratch.candidates.resize(static_cast<size_t>(rescore.attributes.candidates));
      ir::decode_row(x.dtype, x.encoding, address_of(rescore.x, bindings) + x_bytes * static_cast<uint64_t>(row),
                     table.cols, scratch.x.data());
      scratch.input.set(scratch.x.data(), table.cols);
      auto* const quantized = reinterpret_cast<uint16_t*>(address_of(rescore.logits, bindings)) + row * table.rows;
      find_largest(quantized, table.rows, rescore.attributes.candidates, scratch.search, scratch.candidates.data());
      for (const int32_t token : scratch.candidates) {
        float logit = multiply_row(table, token, scratch.input) * factor;
        if (softcap > 0.0f) logit = softcap * std::tanh(logit / softcap);
        ir::encode_row(logits.dtype, logits.encoding, &logit, 1, quantized + token);
      }
    };
    // A single row is done before a second thread would be awake.
    if (bindings.rows == 1) {
      one_row(0, 0);
    } else {
      loaded_->pool->run(bindings.rows, one_row);
    }
  }
}

std::shared_ptr<const SharedTensor> QnnExecutionContext::share(const std::shared_ptr<const Context>& context,
                                                               const TensorInfo& info, const uint8_t* data) {
  if (loaded_->heap == nullptr || sharing_refused_) return nullptr;
  const auto range = loaded_->heap->find(data, info.bytes);
  if (!range) return nullptr;
  // A caller that passes other memory to every call must not make this grow.
  if (shared_.size() >= kMaxKnownShared)
    std::erase_if(shared_, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<const SharedTensor>& known = shared_[{context.get(), data, info.dtype, info.shape}];
  if (auto tensor = known.lock()) return tensor;
  auto made = SharedTensor::create(context, info, *range);
  if (!made.ok()) {
    // The same bytes can be passed by address: the library then copies them.
    log_message(LogLevel::kWarning, made.error().message + "; running without shared buffers");
    sharing_refused_ = true;
    return nullptr;
  }
  known = *made;
  return *made;
}

Status QnnExecutionContext::bind(const Step& step, BoundStep& bound, const Bindings& bindings) {
  const Graph& graph = bound.execution.graph();
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    const Port& port = step.inputs[i];
    const uint8_t* const data = step.staged ? arena_.get() + port.stage : address_of(port, bindings);
    if (data == bound.inputs[i]) continue;
    TANDEM_TRY(bound.execution.set_input(i, {data, port.bytes}, share(graph.context(), graph.inputs()[i], data)));
    bound.inputs[i] = data;
  }
  for (size_t i = 0; i < step.outputs.size(); ++i) {
    const Port& port = step.outputs[i];
    uint8_t* const data = step.staged ? arena_.get() + port.stage : address_of(port, bindings);
    if (data == bound.outputs[i]) continue;
    TANDEM_TRY(bound.execution.set_output(i, {data, port.bytes}, share(graph.context(), graph.outputs()[i], data)));
    bound.outputs[i] = data;
  }
  return ok_status();
}

Status QnnExecutionContext::run_step(const Step& step, BoundStep& bound, const Bindings& bindings) {
  if (step.by_row && bindings.rows == 0) return ok_status();
  TANDEM_TRY(bind(step, bound, bindings));
  if (!step.staged) return bound.execution.run();
  for (int64_t row = bindings.first_row; row < bindings.first_row + bindings.rows; ++row) {
    // Rows are copied through a staging buffer: shared memory is registered tensor by tensor, and copying these few
    // bytes costs less than a registration for each row.
    for (const Port& port : step.inputs) {
      std::memcpy(arena_.get() + port.stage, address_of(port, bindings) + port.bytes * static_cast<uint64_t>(row),
                  port.bytes);
    }
    TANDEM_TRY(bound.execution.run());
    for (const Port& port : step.outputs) {
      std::memcpy(address_of(port, bindings) + port.bytes * static_cast<uint64_t>(row), arena_.get() + port.stage,
                  port.bytes);
    }
  }
  return ok_status();
}

Status QnnExecutionContext::run(size_t method, const Bindings& bindings) {
  if (method >= loaded_->methods.size()) return internal_error("the program has no method number {}", method);
  const LogScope scope(loaded_->log.log());
  const LoadedMethod& loaded = loaded_->methods[method];
  TANDEM_TRY(check(loaded.plan, bindings));
  TANDEM_TRY(loaded_->artifact->check());
  copy_positions(loaded.plan, bindings);
  look_up(loaded, bindings);
  TANDEM_TRY(loaded_->artifact->check());
  for (size_t i = 0; i < loaded.plan.steps.size(); ++i) {
    TANDEM_TRY(run_step(loaded.plan.steps[i], steps_[method][i], bindings));
  }
  rescore(loaded, bindings);
  return loaded.plan.rescores.empty() ? ok_status() : loaded_->artifact->check();
}

}  // namespace tandem::qnn
