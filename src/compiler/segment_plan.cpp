#include "compiler/segment_plan.h"

#include <map>
#include <set>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "compiler/weight_writer.h"

namespace tandem {
namespace {

// A segment for each layer, one for the final norm and the LM head, and one for the rest.
std::string segment_of(const ir::Purpose& purpose) {
  if (purpose.layer >= 0) return str_format("layers.{}", purpose.layer);
  return ir::is_after_layers(purpose) ? "head" : "embedding";
}

class FilePlanner {
 public:
  explicit FilePlanner(WeightLayout layout) : layout_(layout) {}

  Result<FilePlan> run(const std::vector<ir::Graph>& methods, std::vector<uint8_t> tokenizer,
                       const std::vector<ir::Graph>& kept) {
    for (const ir::Graph& graph : methods) TANDEM_TRY(place(graph));
    layout_ = WeightLayout::kPanel16;
    for (const ir::Graph& graph : kept) TANDEM_TRY(place(graph));
    if (!tokenizer.empty()) {
      SegmentPlan& segment = segment_named("tokenizer");
      plan_.tokenizer = {static_cast<uint32_t>(index_.at("tokenizer")), 0, tokenizer.size()};
      segment.size = tokenizer.size();
      segment.blob = std::move(tokenizer);
    }
    return std::move(plan_);
  }

 private:
  SegmentPlan& segment_named(const std::string& name) {
    const auto [it, is_new] = index_.try_emplace(name, plan_.segments.size());
    if (is_new) {
      plan_.segments.emplace_back();
      plan_.segments.back().name = name;
    }
    return plan_.segments[it->second];
  }

  Status place(const ir::Graph& graph) {
    for (const ir::Tensor& tensor : graph.tensors) TANDEM_TRY(place(tensor));
    return ok_status();
  }

  Status place(const ir::Tensor& tensor) {
    const bool is_weight = tensor.role == ir::TensorRole::kWeight;
    if (!is_weight && tensor.role != ir::TensorRole::kVector) return ok_status();
    if (!placed_.insert(tensor.name).second) return ok_status();
    const std::string segment_name = segment_of(tensor.purpose);
    SegmentPlan& segment = segment_named(segment_name);
    const auto index = static_cast<uint32_t>(index_.at(segment_name));
    if (is_weight) {
      WeightEntry entry;
      entry.name = tensor.name;
      entry.format = tensor.format;
      entry.layout = layout_;
      entry.block = tensor.block;
      entry.rows = tensor.shape[0];
      entry.cols = tensor.shape[1];
      TANDEM_TRY(lay_out_weight(entry, index, segment.size));
      segment.weights.push_back(plan_.weights.size());
      plan_.weights.push_back(std::move(entry));
    } else {
      segment.size = round_up(segment.size, kPartAlignment);
      const uint64_t bytes = static_cast<uint64_t>(tensor.shape[0]) * sizeof(float);
      segment.vectors.push_back(plan_.vectors.size());
      plan_.vectors.push_back({tensor.name, tensor.shape[0], {index, segment.size, bytes}});
      segment.size += bytes;
    }
    return ok_status();
  }

  WeightLayout layout_;
  FilePlan plan_;
  std::map<std::string, size_t> index_;
  std::set<std::string> placed_;
};

}  // namespace

uint64_t FilePlan::total_bytes() const {
  uint64_t total = 0;
  for (const SegmentPlan& segment : segments) total += round_up(segment.size, kSegmentAlignment);
  return total;
}

std::vector<PlannedSegment> FilePlan::planned_segments() const {
  std::vector<PlannedSegment> planned;
  for (const SegmentPlan& segment : segments) planned.push_back({segment.name, segment.size});
  return planned;
}

Result<FilePlan> plan_file(const std::vector<ir::Graph>& methods, std::vector<uint8_t> tokenizer, WeightLayout layout,
                           const std::vector<ir::Graph>& kept) {
  return FilePlanner(layout).run(methods, std::move(tokenizer), kept);
}

}  // namespace tandem
