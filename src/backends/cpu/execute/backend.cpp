// The CPU back end in the registry.
#include "backends/interface/backend.h"

#include "backends/cpu/execute/program.h"
#include "backends/cpu/kernels/kernels.h"
#include "weight_layout/artifact_weights.h"

namespace tandem::cpu {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  Result<std::unique_ptr<Program>> load(const Artifact& artifact, ThreadPool& pool, const BackendOptions& options,
                                        const Log&) const override {
    TANDEM_TRY(check_options(this->options(), options));
    return load_program(artifact, pool);
  }

  Result<BackendProbe> probe(const Artifact* artifact, const BackendOptions& options, const Log&) const override {
    TANDEM_TRY(check_options(this->options(), options));
    return probe_program(artifact);
  }

  Result<Processor> processor() const override {
    TANDEM_ASSIGN(const KernelTable* kernels, choose_kernels());
    return Processor{std::string(kernels->isa), kernels->multiply_int8};
  }

  std::unique_ptr<WeightProvider> weights(const Artifact& artifact) const override {
    return std::make_unique<ArtifactWeights>(artifact);
  }
};

}  // namespace

const Backend& backend() {
  static const CpuBackend instance;
  return instance;
}

}  // namespace tandem::cpu
