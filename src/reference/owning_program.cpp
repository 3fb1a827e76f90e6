// A program of the interpreter together with the weights that it reads.
#include "reference/interpreter.h"

namespace tandem {
namespace {

class OwningProgram final : public Program {
 public:
  OwningProgram(std::vector<ir::Graph> methods, std::unique_ptr<const WeightProvider> weights, ThreadPool& pool)
      : weights_(std::move(weights)), program_(make_reference_program(std::move(methods), *weights_, pool)) {}

  size_t method_count() const override { return program_->method_count(); }
  const ir::Graph& method(size_t index) const override { return program_->method(index); }
  Result<std::unique_ptr<ExecutionContext>> new_context() override { return program_->new_context(); }

 private:
  std::unique_ptr<const WeightProvider> weights_;
  std::unique_ptr<Program> program_;
};

}  // namespace

std::unique_ptr<Program> make_reference_program(std::vector<ir::Graph> methods,
                                                std::unique_ptr<const WeightProvider> weights, ThreadPool& pool) {
  return std::make_unique<OwningProgram>(std::move(methods), std::move(weights), pool);
}

}  // namespace tandem
