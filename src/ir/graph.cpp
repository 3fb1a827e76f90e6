#include "ir/graph.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "ir/op_table.h"

namespace tandem::ir {
namespace {

constexpr std::array<std::string_view, kTensorRoleCount> kRoleNames = {"activation", "input",  "output",
                                                                       "state",      "weight", "vector"};
constexpr std::array<std::string_view, kEncodingKindCount> kEncodingNames = {"plain", "per_tensor", "dynamic_per_row"};

// Unknown values have a name too, for error messages.
template <size_t kCount, typename Enum>
std::string_view name_in(const std::array<std::string_view, kCount>& names, Enum value) {
  const auto index = static_cast<size_t>(value);
  return index < kCount ? names[index] : "unknown";
}

}  // namespace

TensorId Graph::add(Tensor tensor) {
  tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(tensors.size() - 1);
}

std::optional<TensorId> Graph::find(std::string_view tensor_name) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].name == tensor_name) return static_cast<TensorId>(i);
  }
  return std::nullopt;
}

std::optional<TensorId> Graph::find(PurposeKind kind, std::optional<TensorRole> role) const {
  const auto found = std::ranges::find_if(
      tensors, [&](const Tensor& t) { return t.purpose.kind == kind && (!role || t.role == *role); });
  if (found == tensors.end()) return std::nullopt;
  return static_cast<TensorId>(found - tensors.begin());
}

std::optional<TensorId> Graph::find(const Purpose& purpose) const {
  const auto found = std::ranges::find(tensors, purpose, &Tensor::purpose);
  if (found == tensors.end()) return std::nullopt;
  return static_cast<TensorId>(found - tensors.begin());
}

void Graph::remove_unused_tensors() {
  std::vector<bool> used(tensors.size(), false);
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorRole role = tensors[i].role;
    used[i] = role == TensorRole::kInput || role == TensorRole::kOutput || role == TensorRole::kState;
  }
  for (const Op& op : ops) {
    for (const auto* ids : {&op.inputs, &op.outputs}) {
      for (const TensorId id : *ids) used[static_cast<size_t>(id)] = true;
    }
  }
  std::vector<TensorId> moved(tensors.size(), -1);
  std::vector<Tensor> kept;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!used[i]) continue;
    moved[i] = static_cast<TensorId>(kept.size());
    kept.push_back(std::move(tensors[i]));
  }
  tensors = std::move(kept);
  for (Op& op : ops) {
    for (auto* ids : {&op.inputs, &op.outputs}) {
      for (TensorId& id : *ids) id = moved[static_cast<size_t>(id)];
    }
  }
}

Status set_purposes_from_names(Graph& graph) {
  for (Tensor& tensor : graph.tensors) {
    TANDEM_ASSIGN(tensor.purpose, purpose_from_name(tensor.role, tensor.name));
  }
  return ok_status();
}

std::string_view op_kind_name(OpKind kind) {
  return static_cast<int>(kind) < kOpKindCount ? op_info(kind).name : "unknown";
}
std::string_view tensor_role_name(TensorRole role) { return name_in(kRoleNames, role); }
std::string_view encoding_kind_name(EncodingKind kind) { return name_in(kEncodingNames, kind); }

int64_t element_count_of(const Tensor& tensor) {
  int64_t count = 1;
  for (const int64_t dim : tensor.shape) count *= dim;
  return count;
}

}  // namespace tandem::ir
