// Files for the interpreter: the graphs that a CPU would run, and their weights.
#include "compiler/backend_compiler.h"

#include "compiler/plain_file.h"
#include "compiler/target_rules.h"

namespace tandem::reference {
namespace {

class ReferenceCompiler final : public BackendCompiler {
 public:
  std::string_view name() const override { return "reference"; }

  std::vector<Target> targets() const override {
    Target target;
    target.name = target.backend = name();
    target.description = "the interpreter, slow and exact on any processor; for tests and for debugging";
    target.weight_formats = {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kI8,
                             WeightFormat::kLpbq4};
    target.kv_dtypes = {DType::kF32, DType::kF16, DType::kU8};
    return {target};
  }

  Status resolve_recipe(const TargetRequest& request, Recipe& recipe, std::vector<std::string>&) const override {
    override_recipe(request.options, recipe);
    return check_plain_target(request, recipe);
  }

  Status compile(CompileJob& job) const override {
    ThreadPool pool(job.options().threads);
    TANDEM_TRY(resolve_activations(job, pool));
    TANDEM_ASSIGN(std::vector<ir::Graph> methods, build_methods(job, pool));
    return write_plain_file(job, std::move(methods), pool);
  }
};

}  // namespace

const BackendCompiler& backend_compiler() {
  static const ReferenceCompiler instance;
  return instance;
}

}  // namespace tandem::reference
