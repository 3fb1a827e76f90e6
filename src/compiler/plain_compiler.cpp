#include "compiler/plain_compiler.h"

#include "base/error.h"
#include "compiler/plain_file.h"
#include "compiler/target_rules.h"

namespace tandem {

std::vector<Target> PlainCompiler::targets() const {
  Target target;
  target.name = target.backend = name_;
  target.description = description_;
  target.weight_formats = {WeightFormat::kF32, WeightFormat::kF16, WeightFormat::kBF16, WeightFormat::kI8,
                           WeightFormat::kLpbq4};
  target.kv_dtypes = {DType::kF32, DType::kF16, DType::kU8};
  return {target};
}

Status PlainCompiler::resolve_recipe(const TargetRequest& request, Recipe& recipe, std::vector<std::string>&) const {
  override_recipe(request.options, recipe);
  return check_plain_target(request, recipe);
}

Status PlainCompiler::compile(CompileJob& job) const {
  ThreadPool pool(job.options().threads);
  return compile_plain_file(job, pool);
}

}  // namespace tandem
