// A float model over many sequences at once, op by op: what tuning and sensitivities are measured with.
//
// Rows are the tokens of whole sequences, one after the other. There is no cache: attention reads the keys and values
// of the sequence itself. Any range of a graph's ops can be run, so that a layer can be stopped at each of its linear
// layers, and the rest computed with other weights.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "ir/graph.h"
#include "linalg/multiply.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

// Tokens of sequences, one after the other.
struct SequenceRows {
  std::vector<int32_t> tokens;
  std::vector<int64_t> lengths;  // Sum up to the tokens.

  int64_t rows() const { return static_cast<int64_t>(tokens.size()); }
};

// Cuts sequences into runs of about `rows` rows; a sequence is never split.
std::vector<SequenceRows> group_sequences(std::span<const std::vector<int32_t>> sequences, int64_t rows);

// The numbers of a graph's activations for some rows: [rows, width] by tensor. Empty: not computed, or not needed any
// more.
using RowValues = std::vector<std::vector<float>>;

// Whole matrices for products, by name. A provider may keep what it has read.
class MatrixProvider {
 public:
  virtual ~MatrixProvider() = default;
  // Valid until the next call of forget().
  virtual Result<const float*> matrix(const std::string& name, int64_t rows, int64_t cols) = 0;
  virtual Result<std::vector<float>> vector(const std::string& name) = 0;
  virtual Status embedding_rows(const std::string& name, std::span<const int32_t> tokens, int64_t cols, float* out) = 0;
  virtual void forget() {}
};

// Float weights of a provider, kept from their first use until forget().
class FloatMatrices : public MatrixProvider {
 public:
  // Both must outlive it.
  FloatMatrices(const WeightProvider& weights, ThreadPool& pool) : weights_(weights), pool_(pool) {}
  Result<const float*> matrix(const std::string& name, int64_t rows, int64_t cols) override;
  Result<std::vector<float>> vector(const std::string& name) override { return weights_.read_vector(name); }
  Status embedding_rows(const std::string& name, std::span<const int32_t> tokens, int64_t cols, float* out) override;
  void forget() override { kept_.clear(); }

 private:
  const WeightProvider& weights_;
  ThreadPool& pool_;
  std::map<std::string, std::vector<float>> kept_;
};

class SequenceOps {
 public:
  // A graph as the builder draws it, before any pass. `longest` is the length of the longest sequence. All must outlive
  // it.
  SequenceOps(const ir::Graph& graph, int64_t longest, ThreadPool& pool);

  // Runs ops [begin, end) for these rows. Values that no op from `end` on reads are released.
  Status run(size_t begin, size_t end, const SequenceRows& rows, MatrixProvider& weights, RowValues& values);

 private:
  struct RopeAngles {
    std::vector<float> cos, sin;  // [longest, half]
  };

  Status run_op(const ir::Op& op, const SequenceRows& rows, MatrixProvider& weights, RowValues& values);
  Status embed(const ir::Op& op, const SequenceRows& rows, MatrixProvider& weights, RowValues& values);
  Status multiply(const ir::Op& op, int64_t rows, MatrixProvider& weights, RowValues& values);
  Status normalize(const ir::Op& op, int64_t rows, MatrixProvider& weights, RowValues& values);
  Status make_angles(const ir::Op& op, MatrixProvider& weights);
  void rotate(const ir::Op& op, const SequenceRows& rows, RowValues& values);
  void attend(const ir::Op& op, const SequenceRows& rows, RowValues& values);
  void map_elements(const ir::Op& op, int64_t rows, RowValues& values);
  int64_t width(ir::TensorId id) const { return graph_.at(id).shape.back(); }
  static std::vector<float>& at(RowValues& values, ir::TensorId id) { return values[static_cast<size_t>(id)]; }

  const ir::Graph& graph_;
  int64_t longest_ = 0;
  ThreadPool& pool_;
  std::vector<size_t> last_use_;                 // By tensor: the last op that reads it.
  std::map<ir::TensorId, ir::TensorId> stored_;  // By cache: the rows that go into it.
  std::map<ir::TensorId, RopeAngles> angles_;    // By the tensor of cosines.
  std::vector<MultiplyScratch> scratch_;         // By thread.
};

}  // namespace tandem
