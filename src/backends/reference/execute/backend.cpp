// A back end that interprets a file's graphs (src/reference): slow, and as exact as the graphs are. For tests, and for
// debugging a new family or pass.
#include "backends/interface/backend.h"

#include "artifact/reader.h"
#include "backends/interface/probe.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "reference/interpreter.h"
#include "weight_layout/artifact_weights.h"
#include "weight_layout/bind_matrix.h"

namespace tandem::reference {
namespace {

// The interpreter trusts its provider, and a file comes from anywhere.
Status check_weights(const ir::Graph& graph, const Artifact& artifact) {
  for (const ir::Tensor& tensor : graph.tensors) {
    if (tensor.role == ir::TensorRole::kWeight) {
      const WeightEntry* entry = artifact.find_weight(tensor.name);
      if (entry == nullptr || entry->rows != tensor.shape[0] || entry->cols != tensor.shape[1]) {
        return corrupt("the weight \"{}\" of method \"{}\" is absent or has another shape", tensor.name, graph.name);
      }
      if (auto matrix = bind_matrix(*entry, artifact); !matrix.ok()) return std::move(matrix).error();
    } else if (tensor.role == ir::TensorRole::kVector) {
      const VectorEntry* entry = artifact.find_vector(tensor.name);
      if (entry == nullptr || entry->length != tensor.shape[0]) {
        return corrupt("the vector \"{}\" of method \"{}\" is absent or has another length", tensor.name, graph.name);
      }
    }
  }
  return ok_status();
}

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }

  Result<std::unique_ptr<Program>> load(const Artifact& artifact, ThreadPool& pool, const BackendOptions& options,
                                        const Log&) const override {
    TANDEM_TRY(check_options(this->options(), options));
    for (const ir::Graph& graph : artifact.header().methods) TANDEM_TRY(check_weights(graph, artifact));
    return make_reference_program(artifact.header().methods, weights(artifact), pool);
  }

  Result<BackendProbe> probe(const Artifact* artifact, const BackendOptions& options, const Log&) const override {
    TANDEM_TRY(check_options(this->options(), options));
    BackendProbe probe;
    probe.usable = true;
    probe.device = "interpreter";
    if (artifact == nullptr) return probe;
    for (const ir::Graph& graph : artifact->header().methods) TANDEM_TRY(check_weights(graph, *artifact));
    set_memory(probe, stored_weight_bytes(artifact->header()), session_bytes(artifact->header().methods),
               available_memory());
    check_mapped_memory(probe);
    return probe;
  }

  Result<Processor> processor() const override { return Processor{"reference", nullptr}; }

  std::unique_ptr<WeightProvider> weights(const Artifact& artifact) const override {
    return std::make_unique<ArtifactWeights>(artifact);
  }
};

}  // namespace

const Backend& backend() {
  static const ReferenceBackend instance;
  return instance;
}

}  // namespace tandem::reference
