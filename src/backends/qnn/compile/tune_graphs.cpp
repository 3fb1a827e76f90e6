#include "backends/qnn/compile/tune_graphs.h"

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/format.h"
#include "base/version.h"
#include "ir/printer.h"

namespace tandem {
namespace {

// Microseconds of each method, by its tokens.
using Times = std::map<int64_t, double>;

constexpr int kTriedTileSizes[] = {64, 128, 256};

class Tuner {
 public:
  Tuner(const WorkerTask& layer, const TaskRunner& run) : layer_(layer), run_(run) {}

  Result<TunedGraphs> tune() {
    const GraphVariant usual = layer_.job.methods.variant;
    TANDEM_TRY(measure(form_candidates(usual)));
    best_ = usual;
    choose_forms(usual);
    std::vector<GraphVariant> others;
    for (const int tile : kTriedTileSizes) {
      if (!layer_.job.weight_sharing) break;  // Only shared weights are transferred in such tiles.
      others.push_back(best_);
      others.back().weight_tile_channels = tile;
    }
    others.push_back(best_);
    others.back().fold_mask = !best_.fold_mask;
    others.push_back(best_);
    TANDEM_TRY(measure(others));
    for (const GraphVariant& other : others) {
      if (ratio(times_.at(other.to_json()), times_.at(best_.to_json())) < 1.0 - kTuningMargin) best_ = other;
    }
    return TunedGraphs{best_, times_.size()};
  }

 private:
  // Every form for all methods; estimates of one method do not depend on the others.
  static std::vector<GraphVariant> form_candidates(const GraphVariant& usual) {
    std::vector<GraphVariant> candidates = {usual};
    for (const AttentionForm& form : all_attention_forms()) {
      GraphVariant candidate = usual;
      for (auto& [tokens, of_method] : candidate.attention.by_tokens) of_method = form;
      candidates.push_back(std::move(candidate));
    }
    return candidates;
  }

  // The variants without estimates yet.
  Status measure(const std::vector<GraphVariant>& variants) {
    std::vector<WorkerTask> tasks;
    for (const GraphVariant& variant : variants) {
      if (!times_.try_emplace(variant.to_json()).second) continue;
      WorkerTask task = layer_;
      task.job.methods.variant = variant;
      task.label = str_format("variant {}", times_.size());
      tasks.push_back(std::move(task));
    }
    return run_(tasks, [&](size_t i, const ShardResult& result) -> Status {
      const ShardJob& job = tasks[i].job;
      for (const MethodShape& shape : job.methods.shapes) {
        for (const ShardResult::GraphResult& graph : result.graphs) {
          if (!graph.name.starts_with(shape.name + ".") || !graph.estimate) continue;
          times_[job.methods.variant.to_json()][shape.tokens] = static_cast<double>(graph.estimate->us);
        }
      }
      if (times_[job.methods.variant.to_json()].size() == job.methods.variant.attention.by_tokens.size()) {
        return ok_status();
      }
      return internal_error("the vendor's library gave no estimate of {}", tasks[i].label);
    });
  }

  // The geometric mean over methods of how much longer `times` take than `others`.
  static double ratio(const Times& times, const Times& others) {
    double sum = 0.0;
    for (const auto& [tokens, us] : times) sum += std::log(us / others.at(tokens));
    return std::exp(sum / static_cast<double>(times.size()));
  }

  // The fastest forms that share a cache of this kind, and how long they take.
  std::pair<AttentionForms, Times> fastest(const GraphVariant& usual, bool splits_cache) const {
    std::pair<AttentionForms, Times> found;
    for (const GraphVariant& candidate : form_candidates(usual)) {
      const Times& times = times_.at(candidate.to_json());
      for (const auto& [tokens, form] : candidate.attention.by_tokens) {
        if (form.splits_cache() != splits_cache) continue;
        // The usual one comes first.
        const double margin =
            found.second.contains(tokens) && usual.attention.of(tokens) == found.first.of(tokens) ? kTuningMargin : 0.0;
        if (found.second.contains(tokens) && times.at(tokens) >= found.second.at(tokens) * (1.0 - margin)) continue;
        found.first.by_tokens[tokens] = form;
        found.second[tokens] = times.at(tokens);
      }
    }
    return found;
  }

  void choose_forms(const GraphVariant& usual) {
    const bool usual_splits = usual.attention.by_tokens.begin()->second.splits_cache();
    const auto [own, own_times] = fastest(usual, usual_splits);
    const auto [other, other_times] = fastest(usual, !usual_splits);
    best_.attention = ratio(other_times, own_times) < 1.0 - kTuningMargin ? other : own;
  }

  const WorkerTask& layer_;
  const TaskRunner& run_;
  std::map<std::string, Times> times_;  // By the variant's JSON.
  GraphVariant best_;
};

}  // namespace

Result<std::string> tuning_key(const ModelPlan& plan, const Recipe& recipe, const ShardJob& layer,
                               const std::string& library) {
  std::string key =
      str_format("tandem {} qnn {} soc {} v{} vtcm {} hvx {} level {} shared {} f16 {} recipe {} usual {}\n", kVersion,
                 library, layer.soc_model, layer.arch, layer.vtcm_mb, layer.hvx_threads, layer.optimization_level,
                 layer.weight_sharing, layer.methods.f16, recipe.to_json(), layer.methods.variant.to_json());
  // Without encodings, which are the model's own and cost nothing.
  StaticForm form;
  form.embedding_on_host = layer.methods.embedding_on_host;
  for (const MethodShape& shape : layer.methods.shapes) {
    ir::Graph graph = build_graph(plan, shape);
    TANDEM_TRY(run_passes(graph, {plan, recipe, {}, &form}, {}));
    TANDEM_ASSIGN(const ir::Graph part, extract_layers(graph, layer.shard));
    key += ir::to_text(part);
  }
  return key;
}

Result<TunedGraphs> tune_graphs(const WorkerTask& layer, const TaskRunner& run) {
  if (layer.job.methods.variant.attention.by_tokens.empty()) return internal_error("there are no methods to tune");
  return Tuner(layer, run).tune();
}

}  // namespace tandem
