// The weights of the model that is being quantized: those chosen so far, the rest as the recipe rounds them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/tuning/sequence_ops.h"
#include "quant/quantize.h"
#include "quant/recipe.h"

namespace tandem {

class QuantizedMatrices final : public MatrixProvider {
 public:
  // All must outlive it.
  QuantizedMatrices(const WeightProvider& weights, const Recipe& recipe, ThreadPool& pool)
      : floats_(weights, pool), recipe_(recipe), pool_(pool) {}

  // From now on the weight is this one.
  Status set(const std::string& name, const WeightMatrix& matrix);
  // Forgets all that were set.
  void clear() { chosen_.clear(); }

  Result<const float*> matrix(const std::string& name, int64_t rows, int64_t cols) override;
  Result<std::vector<float>> vector(const std::string& name) override { return floats_.vector(name); }
  Status embedding_rows(const std::string& name, std::span<const int32_t> tokens, int64_t cols, float* out) override;
  void forget() override {
    floats_.forget();
    rounded_.clear();
  }

 private:
  FloatMatrices floats_;
  const Recipe& recipe_;
  ThreadPool& pool_;
  std::map<std::string, std::vector<float>> chosen_;
  std::map<std::string, std::vector<float>> rounded_;
};

}  // namespace tandem
