// A checkpoint's float weights after a recipe's transforms (quant/transforms.h): the model computes the same with them,
// and they are easier to quantize. Everything that quantizes weights, or calibrates for it, reads them here; the float
// model that results are compared with reads CheckpointWeights.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "numerics/hadamard.h"
#include "quant/transforms.h"
#include "weights/checkpoint_weights.h"
#include "weights/pair_scales.h"

namespace tandem {

// Rows are transformed as they are read. Where a rotation mixes rows (r1 in o and down, r2 in v), the whole matrix is
// computed, and the last ones are kept.
class TransformedWeights final : public SourceWeights {
 public:
  // Checkpoint and plan must outlive it. Transforms that the model does not allow are left out (transform_rules.h).
  static Result<std::unique_ptr<TransformedWeights>> create(const Checkpoint& checkpoint, const ModelPlan& plan,
                                                            const Transforms& transforms);

  Status read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const override;
  Result<std::vector<float>> read_vector(std::string_view name) const override;
  Status visit_source(std::string_view name, const Checkpoint::ByteVisitor& visit) const override {
    return raw_.visit_source(name, visit);
  }
  void release_rows(const WeightSource& source, int64_t row_begin, int64_t rows) const override {
    raw_.release_rows(source, row_begin, rows);
  }

  // For the user: what was left out because of the model's family or numbers.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  enum class Side { kFirst, kSecond };  // Of a PairScales.

  // W' = P^T diag(r) W diag(f c) Q: what is done to a weight, in this order from the inside.
  struct WeightEdit {
    const std::vector<float>* norm = nullptr;  // f: a norm's weights, folded into the columns.
    PairScales* columns = nullptr;             // c
    Side column_side = Side::kSecond;
    PairScales* rows = nullptr;  // r
    Side row_side = Side::kFirst;
    const Hadamard* rotate_columns = nullptr;  // Q: repeated along a row, if that is longer.
    const Hadamard* rotate_rows = nullptr;     // P: the same along a column.
  };
  struct VectorEdit {
    std::optional<float> constant = {};        // All entries: a norm whose weights were folded.
    const std::vector<float>* over = nullptr;  // Divided by a folded LayerNorm's weights: its bias.
    PairScales* scales = nullptr;
    Side side = Side::kFirst;
    float offset = 0.0f;               // The factor applies to the entry plus this: norms that multiply by 1 + w.
    const Hadamard* rotate = nullptr;  // A bias whose layer's rows are rotated.
  };
  struct MixedMatrix {
    std::string name;
    std::shared_ptr<const std::vector<float>> values;
  };

  TransformedWeights(const Checkpoint& checkpoint, const ModelPlan& plan) : plan_(plan), raw_(checkpoint, plan) {}

  // ---- Setting up ----
  Status plan_edits(const Transforms& transforms);
  Status plan_norm(const std::string& name, const std::vector<std::string>& readers, const Transforms& transforms);
  void plan_rotations(const Transforms& transforms);
  void plan_keys(int64_t layer);
  void plan_values(int64_t layer);
  void plan_mlp(int64_t layer);
  PairScales* add_scales(std::function<Result<PairScales::Factors>()> compute);
  HeadShape head_shape(int64_t layer) const;

  // ---- Reading ----
  // The length of each row of a layer behind a norm. The norm's output has a mean square of about 1 in each channel, so
  // this is about the root mean square of the layer's output, without its bias.
  Result<std::vector<float>> row_lengths(const std::string& name) const;
  // The same with its bias.
  Result<std::vector<float>> sizes_of_outputs(const std::string& name) const;
  // Root mean squares of the columns of matrices that have the same input, relative to the size of each row: rows have
  // scales of their own.
  Result<std::vector<float>> rms_of_columns(const std::vector<std::string>& names) const;
  // With the weights of the norm before it.
  Status visit_folded(const std::string& name,
                      const std::function<void(int64_t row, const float* values)>& visit) const;
  Status scale_rows(const WeightEdit& edit, int64_t row_begin, int64_t rows, int64_t cols, float* values) const;
  Result<std::shared_ptr<const std::vector<float>>> mixed_matrix(const WeightSource& source,
                                                                 const WeightEdit& edit) const;

  const ModelPlan& plan_;
  CheckpointWeights raw_;
  std::map<std::string, WeightEdit, std::less<>> weights_;
  std::map<std::string, VectorEdit, std::less<>> vectors_;
  std::vector<std::unique_ptr<std::vector<float>>> norms_;
  std::map<std::string, const std::vector<float>*, std::less<>> norm_of_;  // By reader, folded or not.
  std::vector<std::unique_ptr<PairScales>> scales_;
  std::optional<Hadamard> residual_, head_;
  std::vector<std::string> notes_;
  mutable std::mutex mutex_;
  mutable std::vector<MixedMatrix> mixed_;  // The latest last.
};

}  // namespace tandem
