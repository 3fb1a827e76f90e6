#include "eval/layer_sqnr.h"

#include <algorithm>
#include <map>

#include "backends/interface/io_conversion.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem {
namespace {

// Calls visit(tensor, rows as floats) for the token rows of a call's outputs, except the logits.
template <typename Visit>
Status visit_outputs(const MethodCall& call, Visit&& visit) {
  std::vector<float> row;
  // `runs` runs of rows, `stride` rows apart, each with `count` rows of tokens.
  const auto visit_runs = [&](ir::TensorId id, int64_t runs, int64_t stride) -> Status {
    const ir::Tensor& tensor = call.graph.at(id);
    const auto* data = static_cast<const uint8_t*>(call.bindings.data[static_cast<size_t>(id)]);
    const int64_t width = tensor.shape.back();
    row.resize(static_cast<size_t>(call.count * width));
    for (int64_t run = 0; run < runs; ++run) {
      ir::decode_row(tensor.dtype, tensor.encoding,
                     data + dtype_bytes(tensor.dtype, static_cast<size_t>(run * stride * width)), call.count * width,
                     row.data());
      TANDEM_TRY(visit(tensor, std::span<const float>(row)));
    }
    return ok_status();
  };
  for (const ir::TensorId id : call.method.trace_outputs) TANDEM_TRY(visit_runs(id, 1, call.graph.tokens));
  for (const CacheWrite& write : call.method.cache_writes) {
    TANDEM_TRY(visit_runs(write.rows, write.heads, call.graph.tokens));
  }
  return ok_status();
}

class LayerComparison {
 public:
  // Keeps the wanted model's outputs until the other model has computed the same.
  Status keep(const MethodCall& call) {
    return visit_outputs(call, [&](const ir::Tensor& tensor, std::span<const float> rows) {
      auto& kept = kept_[tensor.name];
      kept.insert(kept.end(), rows.begin(), rows.end());
      return ok_status();
    });
  }

  Status compare(const MethodCall& call) {
    return visit_outputs(call, [&](const ir::Tensor& tensor, std::span<const float> rows) -> Status {
      const std::string& name = tensor.name;
      const auto it = kept_.find(name);
      size_t& at = compared_[name];
      if (it == kept_.end() || it->second.size() - at < rows.size()) {
        return invalid_argument("the two models do not give the same outputs (\"{}\"); compare phases of one file",
                                name);
      }
      find(tensor.purpose).add(std::span(it->second).subspan(at, rows.size()), rows);
      at += rows.size();
      return ok_status();
    });
  }

  void forget() {
    for (auto& [name, rows] : kept_) rows.clear();
    for (auto& [name, at] : compared_) at = 0;
  }

  std::vector<LayerSqnr> result() const {
    std::vector<LayerSqnr> layers;
    for (const auto& [layer, sqnr] : layers_) layers.push_back(sqnr);
    return layers;
  }

 private:
  Sqnr& find(const ir::Purpose& purpose) {
    LayerSqnr& layer = layers_[purpose.layer];
    layer.layer = purpose.layer;
    if (ir::is_keys(purpose)) return layer.keys;
    if (ir::is_values(purpose)) return layer.values;
    return layer.hidden ? *layer.hidden : layer.hidden.emplace();
  }

  std::map<std::string, std::vector<float>> kept_;
  std::map<std::string, size_t> compared_;
  std::map<int64_t, LayerSqnr> layers_;
};

// Removes the observers however the comparison ends: they refer to local state.
struct ObservedModels {
  TestedModel& wanted;
  TestedModel& got;
  ~ObservedModels() {
    wanted.observe_calls({});
    got.observe_calls({});
  }
};

}  // namespace

Result<std::vector<LayerSqnr>> compare_layers(TestedModel& wanted, TestedModel& got, std::span<const int32_t> tokens) {
  LayerComparison comparison;
  const ObservedModels observed{wanted, got};
  wanted.observe_calls([&](const MethodCall& call) { return comparison.keep(call); });
  got.observe_calls([&](const MethodCall& call) { return comparison.compare(call); });
  wanted.restart();
  got.restart();
  const auto ignore = [](size_t, std::span<const float>) { return ok_status(); };
  const auto part = static_cast<size_t>(std::max(wanted.longest_call(), got.longest_call()));
  for (size_t done = 0; done < tokens.size();) {
    const auto now = tokens.subspan(done, std::min(part, tokens.size() - done));
    TANDEM_TRY(wanted.feed(now, TokenRunner::Logits::kLast, ignore));
    TANDEM_TRY(got.feed(now, TokenRunner::Logits::kLast, ignore));
    comparison.forget();
    done += now.size();
  }
  std::vector<LayerSqnr> layers = comparison.result();
  if (layers.empty()) {
    return unsupported(
        "the file's methods keep keys and values to themselves, so layers cannot be compared; files for an NPU give "
        "them");
  }
  return layers;
}

std::vector<std::pair<std::string, double>> layer_sqnr_list(const std::vector<LayerSqnr>& layers) {
  std::vector<std::pair<std::string, double>> list;
  for (const LayerSqnr& layer : layers) {
    const std::string name = str_format("layer {}", layer.layer);
    if (layer.hidden) list.emplace_back(name, layer.hidden->db());
    list.emplace_back(name + " keys", layer.keys.db());
    list.emplace_back(name + " values", layer.values.db());
  }
  return list;
}

}  // namespace tandem
