#include "eval/file_reference.h"

#include "backends/cpu/execute/bind_matrix.h"
#include "base/error.h"
#include "eval/fake_quant_checkpoint.h"
#include "reference/interpreter.h"
#include "weights/cached_weights.h"
#include "weights/sliced_weights.h"

namespace tandem {
namespace {

// The weights of a CPU file.
class ArtifactWeights final : public WeightProvider {
 public:
  explicit ArtifactWeights(const Artifact& artifact) : artifact_(artifact) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    const WeightEntry* entry = artifact_.find_weight(name);
    if (entry == nullptr) return not_found("the weight \"{}\" is absent", name);
    TANDEM_ASSIGN(const cpu::PackedMatrix matrix, cpu::bind_matrix(*entry, artifact_));
    for (int64_t r = 0; r < rows; ++r) cpu::unpack_row(matrix, row_begin + r, out + r * matrix.cols);
    return artifact_.check();
  }

  Result<std::vector<float>> read_vector(std::string_view name) const override {
    const VectorEntry* entry = artifact_.find_vector(name);
    if (entry == nullptr) return not_found("the vector \"{}\" is absent", name);
    const auto* values = reinterpret_cast<const float*>(artifact_.bytes(entry->data).data());
    std::vector<float> read(values, values + entry->length);
    TANDEM_TRY(artifact_.check());
    return read;
  }

 private:
  const Artifact& artifact_;
};

// A reference program and the weights that it reads.
template <typename Weights>
class OwningProgram final : public Program {
 public:
  OwningProgram(std::unique_ptr<Weights> weights, const std::vector<ir::Graph>& methods, ThreadPool& pool)
      : weights_(std::move(weights)), program_(make_reference_program(methods, *weights_, pool)) {}

  size_t method_count() const override { return program_->method_count(); }
  const ir::Graph& method(size_t index) const override { return program_->method(index); }
  Result<std::unique_ptr<ExecutionContext>> new_context() override { return program_->new_context(); }

 private:
  std::unique_ptr<Weights> weights_;
  std::unique_ptr<Program> program_;
};

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
class NpuWeights final : public WeightProvider {
 public:
  explicit NpuWeights(std::unique_ptr<FakeQuantCheckpoint> quantized)
      : quantized_(std::move(quantized)), sliced_(quantized_->weights()) {}

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override {
    return sliced_.read_rows(name, row_begin, rows, out);
  }
  Result<std::vector<float>> read_vector(std::string_view name) const override { return sliced_.read_vector(name); }

 private:
  std::unique_ptr<FakeQuantCheckpoint> quantized_;
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
  if (header.backend == "cpu") {
    return std::unique_ptr<Program>(std::make_unique<OwningProgram<ArtifactWeights>>(
        std::make_unique<ArtifactWeights>(artifact), header.methods, pool));
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
  return std::unique_ptr<Program>(std::make_unique<OwningProgram<NpuWeights>>(
      std::make_unique<NpuWeights>(std::move(quantized)), header.methods, pool));
}

}  // namespace tandem
