// The compiler of back ends that run the methods as the passes leave them, with weights in the file's own layout: one
// target, and a file that plain_file.h writes.
#pragma once

#include "compiler/backend_compiler.h"

namespace tandem {

class PlainCompiler final : public BackendCompiler {
 public:
  // Both texts must outlive it. The target has the back end's name.
  PlainCompiler(std::string_view name, std::string_view description) : name_(name), description_(description) {}

  std::string_view name() const override { return name_; }
  std::vector<Target> targets() const override;
  ObeyedOptions obeyed_options() const override { return {.activations = true}; }
  Status resolve_recipe(const TargetRequest& request, Recipe& recipe, std::vector<std::string>& notes) const override;
  Status compile(CompileJob& job) const override;

 private:
  std::string_view name_;
  std::string_view description_;
};

}  // namespace tandem
