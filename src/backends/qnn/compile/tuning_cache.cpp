
#include <cstdlib>

#include "artifact/reader.h"
#include "backends/qnn/compile/tune_graphs.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

constexpr uint64_t kMaxCacheBytes = uint64_t{1} << 20;

std::filesystem::path users_folder() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::filesystem::path(value != nullptr ? value : "");
  };
  // The convention says that a relative one is to be ignored.
  if (const auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "tandem";
  if (const auto home = variable("HOME"); home.is_absolute()) return home / ".cache" / "tandem";
  return {};
}

}  // namespace

TuningCache::TuningCache(std::filesystem::path folder) : folder_(folder.empty() ? users_folder() : std::move(folder)) {}

std::filesystem::path TuningCache::path_of(const std::string& key) const {
  const std::span bytes(reinterpret_cast<const uint8_t*>(key.data()), key.size());
  return folder_ / str_format("graphs-{:016x}.json", hash_bytes(bytes));
}

std::optional<GraphVariant> TuningCache::find(const std::string& key) const {
  if (folder_.empty()) return std::nullopt;
  const auto text = read_text_file(path_of(key), kMaxCacheBytes);
  if (!text.ok()) return std::nullopt;
  const auto json = parse_json(*text, "a tuning cache");
  const auto is_text = [&](const char* name) {
    return json->is_object() && json->contains(name) && (*json)[name].is_string();
  };
  if (!json.ok() || !is_text("key") || !is_text("variant") || (*json)["key"].get<std::string>() != key) {
    return std::nullopt;
  }
  auto variant = GraphVariant::from_json((*json)["variant"].get<std::string>());
  if (!variant.ok()) return std::nullopt;
  return *std::move(variant);
}

Status TuningCache::add(const std::string& key, const GraphVariant& variant) const {
  if (folder_.empty()) return ok_status();
  std::error_code ignored;  // Writing says what is wrong.
  std::filesystem::create_directories(folder_, ignored);
  return write_file_atomically(path_of(key), dump_json(Json{{"key", key}, {"variant", variant.to_json()}}, 2) + "\n");
}

Result<GraphVariant> tuned_variant(const TuningRequest& request, WorkFolder& work, const TaskRunner& run,
                                   CompileReport& report) {
  constexpr const char* kName = "graphs";
  if (const FinishedSegment* finished = work.find(kName, request.source)) {
    ++report.segments_reused;
    return GraphVariant::from_json(finished->note);
  }
  const TuningCache cache(request.cache);
  std::optional<GraphVariant> variant = cache.find(request.key);
  if (!variant) {
    TANDEM_ASSIGN(TunedGraphs tuned, tune_graphs(request.layer, run));
    variant = std::move(tuned.variant);
    report.variants_compiled = tuned.compiled;
    if (Status kept = cache.add(request.key, *variant); !kept.ok()) {
      report.warnings.push_back("what `tune-graphs` found is not kept for the next time: " + kept.error().message);
    }
  }
  TANDEM_TRY(work.add(kName, {0, 0, request.source, {}, variant->to_json()}));
  return *std::move(variant);
}

}  // namespace tandem
