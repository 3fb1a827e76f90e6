#include "weights/transformed_weights.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/format.h"
#include "weights/transform_rules.h"

namespace tandem {
namespace {

constexpr int64_t kTransformChunk = 1 << 20;  // Weights that are read at a time.
constexpr size_t kMixedKept = 2;
// A LayerNorm's bias is divided by its weights when those are folded. Beyond these bounds the quotients would dominate
// the norm's output.
constexpr float kLeastNormShare = 1.0f / 256.0f;
constexpr float kMostNormBias = 16.0f;

std::string layer_name(int64_t layer, std::string_view part) { return str_format("layers.{}.{}", layer, part); }

bool bias_is_divisible(const std::vector<float>& weights, const std::vector<float>& bias) {
  float most = 0.0f;
  for (const float w : weights) most = std::max(most, std::abs(w));
  for (size_t i = 0; i < weights.size(); ++i) {
    const float w = std::abs(weights[i]);
    if (!(w > 0.0f) || w < kLeastNormShare * most || std::abs(bias[i]) > kMostNormBias * w) return false;
  }
  return true;
}

}  // namespace

Result<std::unique_ptr<TransformedWeights>> TransformedWeights::create(const Checkpoint& checkpoint,
                                                                       const ModelPlan& plan,
                                                                       const Transforms& transforms) {
  std::unique_ptr<TransformedWeights> weights(new TransformedWeights(checkpoint, plan));
  TANDEM_TRY(weights->plan_edits(applicable_transforms(plan, transforms, weights->notes_)));
  return weights;
}

// ---- Setting up ----

Status TransformedWeights::plan_edits(const Transforms& transforms) {
  const auto layers = static_cast<int64_t>(plan_.layers.size());
  const bool parallel = plan_.family->block == BlockKind::kParallel;
  for (int64_t i = 0; i < layers && transforms != Transforms(); ++i) {
    const auto name = [&](std::string_view part) { return layer_name(i, part); };
    std::vector<std::string> attention = {name("attention.q"), name("attention.k"), name("attention.v")};
    std::vector<std::string> mlp = {name("mlp.up")};
    if (plan_.family->mlp != MlpKind::kPlain) mlp.push_back(name("mlp.gate"));
    if (parallel) attention.insert(attention.end(), mlp.begin(), mlp.end());
    TANDEM_TRY(plan_norm(name("attention.norm"), attention, transforms));
    if (!parallel) TANDEM_TRY(plan_norm(name("mlp.norm"), mlp, transforms));
  }
  // The final norm's output is what Session::embed() gives, and a tied LM head has no columns of its own. Only a
  // rotation needs it folded.
  if (transforms.rotate_residual) TANDEM_TRY(plan_norm("final_norm", {"head"}, {.fold_norms = true}));
  plan_rotations(transforms);
  for (int64_t i = 0; i < layers; ++i) {
    if (transforms.equalize_keys) plan_keys(i);
    if (transforms.equalize_values) plan_values(i);
    if (transforms.equalize_mlp) plan_mlp(i);
  }
  return ok_status();
}

Status TransformedWeights::plan_norm(const std::string& name, const std::vector<std::string>& readers,
                                     const Transforms& transforms) {
  TANDEM_ASSIGN(std::vector<float> factors, raw_.read_vector(name));
  const float offset = plan_.family->norm_weight_offset;
  for (float& factor : factors) factor += offset;
  norms_.push_back(std::make_unique<std::vector<float>>(std::move(factors)));
  const std::vector<float>* norm = norms_.back().get();
  for (const std::string& reader : readers) norm_of_[reader] = norm;
  if (!transforms.fold_norms) return ok_status();
  if (plan_.family->norm == NormKind::kLayer) {
    TANDEM_ASSIGN(const std::vector<float> bias, raw_.read_vector(name + ".bias"));
    if (!bias_is_divisible(*norm, bias)) {
      notes_.push_back(
          str_format("recipe: the weights of \"{}\" are not folded: some are too small for its bias", name));
      return ok_status();
    }
    vectors_[name + ".bias"].over = norm;
  }
  vectors_[name].constant = 1.0f - offset;
  for (const std::string& reader : readers) weights_[reader].norm = norm;
  if (!transforms.equalize_norms) return ok_status();
  PairScales* scales = add_scales([this, readers]() -> Result<PairScales::Factors> {
    TANDEM_ASSIGN(std::vector<float> s, rms_of_columns(readers));
    normalize_scales(s);
    limit_growth(s, std::vector<float>(s.size(), 1.0f));  // A norm's output is about as large in all channels.
    return factors_of(s);
  });
  vectors_[name].scales = scales;
  vectors_[name].side = Side::kSecond;
  vectors_[name].offset = offset;
  for (const std::string& reader : readers) {
    weights_[reader].columns = scales;
    weights_[reader].column_side = Side::kFirst;
  }
  return ok_status();
}

void TransformedWeights::plan_rotations(const Transforms& transforms) {
  const auto rotate_output = [&](const std::string& name, const Hadamard& rotation) {
    weights_[name].rotate_rows = &rotation;
    const std::string bias = name + ".bias";
    if (plan_.find_vector(bias) != nullptr) vectors_[bias].rotate = &rotation;
  };
  if (transforms.rotate_residual) {
    residual_.emplace(plan_.hidden_size, true);
    weights_["embedding"].rotate_columns = weights_["head"].rotate_columns = &*residual_;
  }
  if (transforms.rotate_values) head_.emplace(plan_.head_dim, true);
  for (int64_t i = 0; i < static_cast<int64_t>(plan_.layers.size()); ++i) {
    if (transforms.rotate_residual) {
      for (const char* part : {"attention.q", "attention.k", "attention.v", "mlp.gate", "mlp.up"}) {
        weights_[layer_name(i, part)].rotate_columns = &*residual_;
      }
      for (const char* part : {"attention.o", "mlp.down"}) rotate_output(layer_name(i, part), *residual_);
    }
    if (transforms.rotate_values) {
      rotate_output(layer_name(i, "attention.v"), *head_);
      weights_[layer_name(i, "attention.o")].rotate_columns = &*head_;
    }
  }
}

PairScales* TransformedWeights::add_scales(std::function<Result<PairScales::Factors>()> compute) {
  scales_.push_back(std::make_unique<PairScales>(std::move(compute)));
  return scales_.back().get();
}

HeadShape TransformedWeights::head_shape(int64_t layer) const {
  const int table = plan_.layers[static_cast<size_t>(layer)].rope_table;
  const size_t pairs = table < 0 ? 0 : plan_.rope_tables[static_cast<size_t>(table)].inverse_frequency.size();
  return {plan_.heads, plan_.kv_heads, plan_.head_dim, static_cast<int64_t>(pairs), plan_.rope_interleaved};
}

// The channels of a head share one range of 8 bits, so their extremes should be of one size.
void TransformedWeights::plan_keys(int64_t layer) {
  const HeadShape shape = head_shape(layer);
  const auto name = [&](std::string_view part) { return layer_name(layer, part); };
  const auto head = static_cast<size_t>(shape.head_dim);
  if (plan_.family->qk_norm) {
    const float offset = plan_.family->norm_weight_offset;
    PairScales* scales =
        add_scales([this, shape, offset, norm = name("attention.k_norm")]() -> Result<PairScales::Factors> {
          TANDEM_ASSIGN(std::vector<float> s, raw_.read_vector(norm));
          for (float& value : s) value = std::abs(value + offset);
          set_peaks(s, std::vector<float>(s.size()), shape);
          normalize_scales(s);
          return factors_of(s);
        });
    vectors_[name("attention.k_norm")] = {.scales = scales, .side = Side::kFirst, .offset = offset};
    vectors_[name("attention.q_norm")] = {.scales = scales, .side = Side::kSecond, .offset = offset};
    return;
  }
  PairScales* scales = add_scales([this, shape, head, k = name("attention.k")]() -> Result<PairScales::Factors> {
    TANDEM_ASSIGN(std::vector<float> s, row_lengths(k));
    std::vector<float> bias(s.size());
    if (plan_.qkv_bias) {
      TANDEM_ASSIGN(bias, raw_.read_vector(k + ".bias"));
    }
    for (size_t i = 0; i < s.size(); i += head) {
      set_peaks(std::span(s).subspan(i, head), std::span(bias).subspan(i, head), shape);
    }
    normalize_scales(s);
    PairScales::Factors factors = factors_of(s);
    factors.second = spread_to_query_heads(s, shape);
    return factors;
  });
  for (const auto& [part, side] : {std::pair("attention.k", Side::kFirst), std::pair("attention.q", Side::kSecond)}) {
    weights_[name(part)].rows = scales;
    weights_[name(part)].row_side = side;
    if (!plan_.qkv_bias) continue;
    vectors_[name(part) + ".bias"].scales = scales;
    vectors_[name(part) + ".bias"].side = side;
  }
}

// The columns of o and down share steps with their neighbours in a row, so they should be of one size; the rows of v
// and up, which take over the difference, have scales of their own.
void TransformedWeights::plan_values(int64_t layer) {
  const HeadShape shape = head_shape(layer);
  const std::string v = layer_name(layer, "attention.v"), o = layer_name(layer, "attention.o");
  PairScales* scales = add_scales([this, shape, v, o]() -> Result<PairScales::Factors> {
    TANDEM_ASSIGN(const std::vector<float> columns, rms_of_columns({o}));
    TANDEM_ASSIGN(const std::vector<float> sizes, sizes_of_outputs(v));
    std::vector<float> s = gather_from_query_heads(columns, shape);
    normalize_scales(s);
    limit_growth(s, sizes);
    PairScales::Factors factors = factors_of(s);
    return PairScales::Factors{std::move(factors.second), spread_to_query_heads(factors.first, shape)};
  });
  weights_[v].rows = weights_[o].columns = scales;
  if (plan_.qkv_bias) vectors_[v + ".bias"].scales = scales;
}

void TransformedWeights::plan_mlp(int64_t layer) {
  const std::string up = layer_name(layer, "mlp.up"), down = layer_name(layer, "mlp.down");
  PairScales* scales = add_scales([this, up, down]() -> Result<PairScales::Factors> {
    TANDEM_ASSIGN(std::vector<float> s, rms_of_columns({down}));
    TANDEM_ASSIGN(const std::vector<float> sizes, sizes_of_outputs(up));
    normalize_scales(s);
    limit_growth(s, sizes);
    PairScales::Factors factors = factors_of(s);
    return PairScales::Factors{std::move(factors.second), std::move(factors.first)};
  });
  weights_[up].rows = weights_[down].columns = scales;
  if (plan_.mlp_bias) vectors_[up + ".bias"].scales = scales;
}

// ---- Reading ----

Status TransformedWeights::visit_folded(const std::string& name,
                                        const std::function<void(int64_t row, const float* values)>& visit) const {
  const WeightSource& source = *plan_.find_weight(name);
  const auto found = norm_of_.find(name);
  const std::vector<float>* norm = found == norm_of_.end() ? nullptr : found->second;
  const int64_t chunk = std::max<int64_t>(kTransformChunk / source.cols, 1);
  std::vector<float> values;
  for (int64_t row = 0; row < source.rows; row += chunk) {
    const int64_t count = std::min(chunk, source.rows - row);
    values.resize(static_cast<size_t>(count * source.cols));
    TANDEM_TRY(raw_.read_rows(name, row, count, values.data()));
    raw_.release_rows(source, row, count);
    for (int64_t r = 0; r < count; ++r) {
      float* at = values.data() + r * source.cols;
      for (int64_t c = 0; norm != nullptr && c < source.cols; ++c) at[c] *= (*norm)[static_cast<size_t>(c)];
      visit(row + r, at);
    }
  }
  return ok_status();
}

Result<std::vector<float>> TransformedWeights::row_lengths(const std::string& name) const {
  const WeightSource& source = *plan_.find_weight(name);
  std::vector<float> lengths(static_cast<size_t>(source.rows));
  TANDEM_TRY(visit_folded(name, [&](int64_t row, const float* values) {
    double squares = 0.0;
    for (int64_t c = 0; c < source.cols; ++c) squares += static_cast<double>(values[c]) * values[c];
    const auto length = static_cast<float>(std::sqrt(squares));
    lengths[static_cast<size_t>(row)] = std::isfinite(length) ? length : 0.0f;  // Refused when it is quantized.
  }));
  return lengths;
}

Result<std::vector<float>> TransformedWeights::sizes_of_outputs(const std::string& name) const {
  TANDEM_ASSIGN(std::vector<float> sizes, row_lengths(name));
  if (plan_.find_vector(name + ".bias") == nullptr) return sizes;
  TANDEM_ASSIGN(const std::vector<float> bias, raw_.read_vector(name + ".bias"));
  for (size_t i = 0; i < sizes.size(); ++i) sizes[i] = std::hypot(sizes[i], bias[i]);
  return sizes;
}

Result<std::vector<float>> TransformedWeights::rms_of_columns(const std::vector<std::string>& names) const {
  std::vector<double> squares(static_cast<size_t>(plan_.find_weight(names.front())->cols));
  for (const std::string& name : names) {
    TANDEM_TRY(visit_folded(name, [&](int64_t, const float* values) {
      double row = 0.0;
      for (size_t c = 0; c < squares.size(); ++c) row += static_cast<double>(values[c]) * values[c];
      if (!(row > 0.0) || !std::isfinite(row)) return;  // The latter is refused when it is quantized.
      for (size_t c = 0; c < squares.size(); ++c) squares[c] += static_cast<double>(values[c]) * values[c] / row;
    }));
  }
  std::vector<float> rms;
  for (const double sum : squares) rms.push_back(static_cast<float>(std::sqrt(sum)));
  return rms;
}

Status TransformedWeights::scale_rows(const WeightEdit& edit, int64_t row_begin, int64_t rows, int64_t cols,
                                      float* values) const {
  const auto scale_columns = [&](const std::vector<float>& factors) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) values[r * cols + c] *= factors[static_cast<size_t>(c)];
    }
  };
  if (edit.norm != nullptr) scale_columns(*edit.norm);
  if (edit.columns != nullptr) {
    TANDEM_ASSIGN(const PairScales::Factors* factors, edit.columns->get());
    scale_columns(edit.column_side == Side::kFirst ? factors->first : factors->second);
  }
  if (edit.rows != nullptr) {
    TANDEM_ASSIGN(const PairScales::Factors* factors, edit.rows->get());
    const std::vector<float>& side = edit.row_side == Side::kFirst ? factors->first : factors->second;
    for (int64_t r = 0; r < rows; ++r) {
      const float factor = side[static_cast<size_t>(row_begin + r)];
      for (int64_t c = 0; c < cols; ++c) values[r * cols + c] *= factor;
    }
  }
  if (edit.rotate_columns != nullptr) {
    edit.rotate_columns->rotate_rows(values, rows * cols / edit.rotate_columns->size());
  }
  return ok_status();
}

Result<std::shared_ptr<const std::vector<float>>> TransformedWeights::mixed_matrix(const WeightSource& source,
                                                                                   const WeightEdit& edit) const {
  // The readers of one matrix wait here until the first of them has computed it.
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(mixed_, source.name, &MixedMatrix::name);
  if (found != mixed_.end()) {
    std::rotate(found, found + 1, mixed_.end());
    return mixed_.back().values;
  }
  if (mixed_.size() >= kMixedKept) mixed_.erase(mixed_.begin());
  std::vector<float> values(static_cast<size_t>(source.rows * source.cols));
  const int64_t chunk = std::max<int64_t>(kTransformChunk / source.cols, 1);
  for (int64_t row = 0; row < source.rows; row += chunk) {
    const int64_t count = std::min(chunk, source.rows - row);
    TANDEM_TRY(raw_.read_rows(source.name, row, count, values.data() + row * source.cols));
    raw_.release_rows(source, row, count);
    TANDEM_TRY(scale_rows(edit, row, count, source.cols, values.data() + row * source.cols));
  }
  const int64_t block = edit.rotate_rows->size();
  for (int64_t row = 0; row < source.rows; row += block) {
    edit.rotate_rows->rotate_columns(values.data() + row * source.cols, source.cols);
  }
  mixed_.push_back({source.name, std::make_shared<const std::vector<float>>(std::move(values))});
  return mixed_.back().values;
}

Status TransformedWeights::read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const {
  const auto edit = weights_.find(name);
  if (edit == weights_.end()) return raw_.read_rows(name, row_begin, rows, out);
  const WeightSource* source = plan_.find_weight(name);
  if (source == nullptr || row_begin < 0 || rows < 0 || row_begin > source->rows || rows > source->rows - row_begin) {
    return internal_error("rows {} to {} of \"{}\", which does not have them", row_begin, row_begin + rows, name);
  }
  if (edit->second.rotate_rows == nullptr) {
    TANDEM_TRY(raw_.read_rows(name, row_begin, rows, out));
    return scale_rows(edit->second, row_begin, rows, source->cols, out);
  }
  TANDEM_ASSIGN(const auto matrix, mixed_matrix(*source, edit->second));
  std::copy_n(matrix->data() + row_begin * source->cols, rows * source->cols, out);
  return ok_status();
}

Result<std::vector<float>> TransformedWeights::read_vector(std::string_view name) const {
  TANDEM_ASSIGN(std::vector<float> values, raw_.read_vector(name));
  const auto found = vectors_.find(name);
  if (found == vectors_.end()) return values;
  const VectorEdit& edit = found->second;
  if (edit.constant) {
    for (float& value : values) value = std::isfinite(value) ? *edit.constant : value;
  }
  if (edit.over != nullptr) {
    for (size_t i = 0; i < values.size(); ++i) values[i] /= (*edit.over)[i];
  }
  if (edit.scales != nullptr) {
    TANDEM_ASSIGN(const PairScales::Factors* factors, edit.scales->get());
    const std::vector<float>& side = edit.side == Side::kFirst ? factors->first : factors->second;
    for (size_t i = 0; i < values.size(); ++i) values[i] = (values[i] + edit.offset) * side[i] - edit.offset;
  }
  if (edit.rotate != nullptr) {
    edit.rotate->rotate_rows(values.data(), static_cast<int64_t>(values.size()) / edit.rotate->size());
  }
  return values;
}

}  // namespace tandem
