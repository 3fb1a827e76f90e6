#include "eval/file_reference.h"

#include <set>

#include "backends/registry/registry.h"
#include "base/error.h"
#include "base/json.h"
#include "eval/fake_quant_checkpoint.h"
#include "reference/interpreter.h"
#include "weight_layout/artifact_weights.h"
#include "weights/cached_weights.h"
#include "weights/sliced_weights.h"

namespace tandem {
namespace {

// Checks that every weight and vector of the graphs is in the checkpoint, with the same shape.
Status check_weights(const ArtifactHeader& header, const ModelPlan& plan) {
  for (const ir::Graph& graph : header.methods) {
    for (const ir::Tensor& tensor : graph.tensors) {
      const SliceName slice = parse_slice(tensor.name);
      if (tensor.role == ir::TensorRole::kWeight) {
        const WeightSource* source = plan.find_weight(slice.whole);
        const int64_t end = slice.end >= 0 ? slice.end : source != nullptr ? source->rows : 0;
        const bool fits = source != nullptr && tensor.shape.size() == 2 && slice.begin >= 0 && slice.begin <= end &&
                          end <= source->rows && tensor.shape[0] == end - slice.begin &&
                          tensor.shape[1] == source->cols;
        if (!fits) return corrupt("the checkpoint has no weight \"{}\" as the file wants it", tensor.name);
      } else if (tensor.role == ir::TensorRole::kVector) {
        const VectorSource* source = plan.find_vector(slice.whole);
        const int64_t end = slice.end >= 0 ? slice.end : source != nullptr ? source->length : 0;
        const bool fits = source != nullptr && tensor.shape.size() == 1 && slice.begin >= 0 && slice.begin <= end &&
                          end <= source->length && tensor.shape[0] == end - slice.begin;
        if (!fits) return corrupt("the checkpoint has no numbers \"{}\" as the file wants them", tensor.name);
      }
    }
  }
  return ok_status();
}

// A checkpoint's weights, quantized by the file's recipe.
class RecipeWeights final : public WeightProvider {
 public:
  explicit RecipeWeights(std::unique_ptr<FakeQuantCheckpoint> quantized)
      : quantized_(std::move(quantized)), sliced_(quantized_->weights()) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    return sliced_.read_rows(name, row_begin, rows, out);
  }
  Result<std::vector<float>> read_vector(std::string_view name) const override { return sliced_.read_vector(name); }

 private:
  std::unique_ptr<FakeQuantCheckpoint> quantized_;
  SlicedWeights sliced_;
};

// Whether the file has the weights of its methods besides a vendor's binaries.
bool has_all_weights(const ArtifactHeader& header) {
  std::set<std::string_view> names;
  for (const WeightEntry& entry : header.weights) names.insert(entry.name);
  for (const VectorEntry& entry : header.vectors) names.insert(entry.name);
  for (const ir::Graph& graph : header.methods) {
    for (const ir::Tensor& tensor : graph.tensors) {
      const bool is_stored = tensor.role == ir::TensorRole::kWeight || tensor.role == ir::TensorRole::kVector;
      if (is_stored && !names.contains(parse_slice(tensor.name).whole)) return false;
    }
  }
  return true;
}

bool was_tuned(const ArtifactHeader& header) {
  const auto record = parse_json(header.calibration, "calibration");
  return record.ok() && record->is_object() && record->contains("tune");
}

// The weights in a file, and slices of them.
class KeptWeights final : public WeightProvider {
 public:
  explicit KeptWeights(const Artifact& artifact) : stored_(artifact), sliced_(stored_) {}
  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    return sliced_.read_rows(name, row_begin, rows, out);
  }
  Result<std::vector<float>> read_vector(std::string_view name) const override { return sliced_.read_vector(name); }

 private:
  ArtifactWeights stored_;
  SlicedWeights sliced_;
};

}  // namespace

Status check_compiled_from(const ArtifactHeader& header, const Checkpoint& checkpoint) {
  if (header.checkpoint == 0 || header.checkpoint == checkpoint.identity()) return ok_status();
  return invalid_argument(
      "{} is not the checkpoint that the file was compiled from (its files have other bytes): give that one, or "
      "compile "
      "the file again",
      checkpoint.folder().string());
}

Result<std::unique_ptr<Program>> make_file_reference(const Artifact& artifact, ThreadPool& pool,
                                                     const FileReferenceOptions& options) {
  const ArtifactHeader& header = artifact.header();
  // A back end that this build lacks has its weights in the checkpoint too.
  if (const Backend* backend = find_backend(header.backend)) {
    if (auto weights = backend->weights(artifact)) {
      return make_reference_program(header.methods, std::move(weights), pool);
    }
  }
  if (has_all_weights(header)) {
    return make_reference_program(header.methods, std::make_unique<KeptWeights>(artifact), pool);
  }
  if (was_tuned(header)) {
    return unsupported(
        "the weights of this file were tuned with calibration data and are inside its binaries, so that the phase qdq "
        "cannot have them: evaluate a file that was compiled with `emulator`, which keeps them");
  }
  if (options.checkpoint.empty()) {
    return invalid_argument(
        "the weights of a file for {} are inside its binaries; the phase qdq needs the folder that it was compiled "
        "from: give it as `checkpoint`",
        header.target);
  }
  TANDEM_ASSIGN(const Recipe recipe, Recipe::from_json(header.recipe));
  TANDEM_ASSIGN(Checkpoint checkpoint, Checkpoint::open(options.checkpoint, {options.config_name}));
  TANDEM_TRY(check_compiled_from(header, checkpoint));
  TANDEM_ASSIGN(auto quantized, FakeQuantCheckpoint::create(std::move(checkpoint), recipe));
  TANDEM_TRY(check_weights(header, quantized->plan()));
  return make_reference_program(header.methods, std::make_unique<RecipeWeights>(std::move(quantized)), pool);
}

}  // namespace tandem
