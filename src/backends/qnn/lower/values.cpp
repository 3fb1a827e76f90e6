#include "backends/qnn/lower/values.h"

#include <algorithm>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem::qnn {

using ir::TensorId;
using ir::TensorRole;

namespace {

// Dimensions are 32 bits wide in QNN; heads times rows may not fit.
Status check_size(const ir::Tensor& tensor, const Shape& shape) {
  uint64_t count = 1;
  for (const uint32_t each : shape) count = checked_mul(count, each).value_or(0);
  if (count == static_cast<uint64_t>(ir::element_count_of(tensor))) return {};
  return unsupported("tensor \"{}\" is too large for QNN", tensor.name);
}

std::string shape_text(const Shape& shape) { return str_format("{}", str_join(shape, "x")); }

}  // namespace

int64_t Values::row_count(TensorId id) const {
  const auto& shape = graph_.at(id).shape;
  return shape.size() == 3 ? shape[1] : shape[0];
}

int64_t Values::width(TensorId id) const {
  const auto& shape = graph_.at(id).shape;
  if (shape.size() == 1) return 1;
  return shape.size() == 3 ? shape[0] * shape[2] : shape[1];
}

Layout Values::layout(TensorId id, int64_t heads, Shape shape) const {
  return {row_count(id) == 1 ? 1 : dim(heads), std::move(shape)};
}

// Gather puts the index's shape before the row: with these shapes the result is as its reader wants it.
Shape Values::index_shape(TensorId id) const {
  const uint32_t count = dim(row_count(id));
  for (const ir::Op& op : graph_.ops) {
    if (op.kind == ir::OpKind::kRopeTable && op.inputs[0] == id) return {1, count};
  }
  return {1, 1, count};
}

Layout Values::io_layout(TensorId id) const {
  const ir::Tensor& tensor = graph_.at(id);
  if (tensor.shape.size() == 1) return {1, index_shape(id)};
  return tensor.shape.size() == 3 ? heads(id, tensor.shape[0]) : rows(id);
}

Layout Values::rows(TensorId id) const { return {1, {1, 1, dim(row_count(id)), dim(width(id))}}; }

Layout Values::split(TensorId id, int64_t heads) const {
  return {1, {1, dim(row_count(id)), dim(heads), dim(width(id) / heads)}};
}

Layout Values::heads(TensorId id, int64_t heads) const { return grouped(id, heads, heads); }

Layout Values::grouped(TensorId id, int64_t heads, int64_t groups) const {
  return layout(id, heads, {1, dim(groups), dim(heads / groups * row_count(id)), dim(width(id) / heads)});
}

Layout Values::with_last(TensorId id, int64_t last) const {
  for (const Form& form : forms_[static_cast<size_t>(id)]) {
    if (form.layout.shape.back() == dim(last)) return form.layout;
  }
  return io_layout(id);
}

Layout Values::common(TensorId a, TensorId b) const {
  if (has(a, io_layout(a)) && has(b, io_layout(a))) return io_layout(a);
  for (const Form& form : forms_[static_cast<size_t>(a)]) {
    if (has(b, form.layout)) return form.layout;
  }
  return io_layout(a);
}

bool Values::has(TensorId id, const Layout& layout) const {
  return std::ranges::any_of(forms_[static_cast<size_t>(id)], [&](const Form& form) { return form.layout == layout; });
}

Status Values::add_inputs() {
  std::vector<bool> read(graph_.tensors.size(), false);
  for (const ir::Op& op : graph_.ops) {
    for (const TensorId id : op.inputs) read[static_cast<size_t>(id)] = true;
  }
  for (size_t i = 0; i < graph_.tensors.size(); ++i) {
    const ir::Tensor& tensor = graph_.tensors[i];
    if (tensor.role != TensorRole::kInput && tensor.role != TensorRole::kState) continue;
    if (!read[i]) return invalid_argument("input \"{}\" is read by no op; take it out of the graph", tensor.name);
    const auto id = static_cast<TensorId>(i);
    TANDEM_ASSIGN(const TensorType type, type_of(tensor));
    const Layout layout = io_layout(id);
    TANDEM_TRY(check_size(tensor, layout.shape));
    TANDEM_ASSIGN(const TensorRef ref, emitter_.add(TensorKind::kAppWrite, tensor.name, type, layout.shape));
    forms_[i].push_back({layout, ref});
  }
  return {};
}

Result<TensorRef> Values::define(TensorId id, const Layout& layout) {
  const ir::Tensor& tensor = graph_.at(id);
  TANDEM_ASSIGN(const TensorType type, type_of(tensor));
  TANDEM_TRY(check_size(tensor, layout.shape));
  // Only the I/O layout has the output's name; in other layouts the value has generated names.
  const bool is_output = tensor.role == TensorRole::kOutput && layout == io_layout(id);
  const bool is_first = forms_[static_cast<size_t>(id)].empty() && tensor.role == TensorRole::kActivation;
  std::string name = tensor.name;
  if (!is_output && !is_first) name += str_format("#{}.{}", layout.heads, shape_text(layout.shape));
  TANDEM_ASSIGN(const TensorRef ref, emitter_.add(is_output ? TensorKind::kAppRead : TensorKind::kNative,
                                                  std::move(name), type, layout.shape));
  forms_[static_cast<size_t>(id)].push_back({layout, ref});
  return ref;
}

// From a tensor with the same numbers in the same order, or with the middle two of four dimensions exchanged.
Result<TensorRef> Values::make(TensorId id, const Layout& layout, TensorRef from, bool transposes) {
  TANDEM_ASSIGN(const TensorRef made, define(id, layout));
  if (transposes) {
    TANDEM_TRY(emitter_.node("Transpose", {from}, made, {{"perm", U32Values{{4}, {0, 2, 1, 3}}}}));
  } else {
    TANDEM_TRY(emitter_.node("Reshape", {from}, made));
  }
  return made;
}

Result<TensorRef> Values::get(TensorId id, const Layout& layout) {
  const auto& forms = forms_[static_cast<size_t>(id)];
  if (forms.empty()) return internal_error("tensor \"{}\" is read before it is written", graph_.at(id).name);
  for (const Form& form : forms) {
    if (form.layout == layout) return form.ref;
  }
  for (const Form& form : forms) {
    if (form.layout.heads == layout.heads) return make(id, layout, form.ref, false);
  }
  // Another order: through the two layouts that a Transpose connects. From heads to other heads it takes two.
  const bool by_rows_there = std::ranges::any_of(forms, [](const Form& form) { return form.layout.heads == 1; });
  const uint32_t have = by_rows_there ? 1 : forms.front().layout.heads;
  const uint32_t count = have != 1 ? have : layout.heads;
  const Layout by_row = split(id, count);
  const Layout by_head = heads(id, count);
  const bool to_heads = have == 1;
  TANDEM_ASSIGN(const TensorRef from, get(id, to_heads ? by_row : by_head));
  TANDEM_TRY(make(id, to_heads ? by_head : by_row, from, true).status());
  return get(id, layout);
}

Status Values::alias(TensorId to, TensorId from) {
  // An output of the graph has a tensor of its own: a copy of one that is there, or made by finish() from another
  // layout.
  const Layout at_io = io_layout(to);
  const bool is_output = graph_.at(to).role == TensorRole::kOutput;
  for (const Form& form : std::vector<Form>(forms_[static_cast<size_t>(from)])) {
    if (is_output && form.layout == at_io) {
      TANDEM_TRY(make(to, at_io, form.ref, false).status());
    } else {
      forms_[static_cast<size_t>(to)].push_back(form);
    }
  }
  return {};
}

Status Values::finish(TensorId id) {
  if (graph_.at(id).role != TensorRole::kOutput) return {};
  return get(id, io_layout(id)).status();
}

}  // namespace tandem::qnn
