// A model that is split into shards, run shard by shard by the reference interpreter, as a back end does.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backends/interface/method_memory.h"
#include "backends/qnn/compile/shard_plan.h"
#include "base/try.h"
#include "reference/interpreter.h"

namespace tandem::test {

// The parts of each method in the order they run, followed by the LM head's graph of one row, which runs for each row.
class ChainedProgram final : public Program {
 public:
  struct Method {
    ir::Graph whole;
    std::vector<ir::Graph> parts;
  };
  ChainedProgram(std::vector<Method> methods, const ir::Graph& head, const WeightProvider& weights, ThreadPool& pool)
      : methods_(std::move(methods)), head_(make_reference_program({head}, weights, pool)) {
    for (const Method& method : methods_) parts_.push_back(make_reference_program(method.parts, weights, pool));
  }

  size_t method_count() const override { return methods_.size(); }
  const ir::Graph& method(size_t index) const override { return methods_[index].whole; }
  Result<std::unique_ptr<ExecutionContext>> new_context() override {
    return std::unique_ptr<ExecutionContext>(std::make_unique<Chain>(*this));
  }

 private:
  class Chain final : public ExecutionContext {
   public:
    explicit Chain(ChainedProgram& program) : program_(program) {}

    Status run(size_t index, const Bindings& bindings) override {
      const ir::Graph& whole = program_.method(index);
      std::map<std::string, AlignedMemory> between;
      // The caller's buffer of this name; otherwise memory between two parts.
      const auto find = [&](const ir::Tensor& tensor, uint64_t bytes) -> uint8_t* {
        const auto id = whole.find(tensor.name);
        if (!id) return nullptr;
        if (void* data = bindings.data[static_cast<size_t>(*id)]) return static_cast<uint8_t*>(data);
        AlignedMemory& memory = between[tensor.name];
        if (memory == nullptr) memory = allocate_aligned(bytes);
        return memory.get();
      };
      Program& parts = *program_.parts_[index];
      TANDEM_ASSIGN(const auto context, parts.new_context());
      for (size_t part = 0; part < parts.method_count(); ++part) {
        Bindings bound;
        bound.rows = whole.tokens;
        for (const ir::Tensor& tensor : parts.method(part).tensors) {
          bound.data.push_back(is_io(tensor) ? find(tensor, tensor_bytes(tensor)) : nullptr);
        }
        TANDEM_TRY(context->run(part, bound));
      }
      TANDEM_ASSIGN(const auto head, program_.head_->new_context());
      const ir::Graph& graph = program_.head_->method(0);
      for (int64_t row = bindings.first_row; row < bindings.first_row + bindings.rows; ++row) {
        Bindings bound;
        bound.rows = 1;
        for (const ir::Tensor& tensor : graph.tensors) {
          const uint64_t bytes = tensor_bytes(tensor);
          uint8_t* data = is_io(tensor) ? find(tensor, bytes) : nullptr;
          bound.data.push_back(data == nullptr ? nullptr : data + static_cast<uint64_t>(row) * bytes);
        }
        TANDEM_TRY(head->run(0, bound));
      }
      return ok_status();
    }

   private:
    static bool is_io(const ir::Tensor& tensor) {
      return tensor.role == ir::TensorRole::kInput || tensor.role == ir::TensorRole::kOutput ||
             tensor.role == ir::TensorRole::kState;
    }
    ChainedProgram& program_;
  };

  std::vector<Method> methods_;
  std::vector<std::unique_ptr<Program>> parts_;
  std::unique_ptr<Program> head_;
};

}  // namespace tandem::test
