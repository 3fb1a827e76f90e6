#include "backends/qnn/execute/loaded_shards.h"

#include <algorithm>
#include <mutex>
#include <tuple>

#include "backends/qnn/execute/preflight.h"
#include "base/error.h"
#include "weight_layout/bind_matrix.h"

namespace tandem::qnn {
namespace {

ContextBinary binary_of(const Artifact& artifact, const Shard& shard) {
  const DeviceInfo& device = artifact.header().device;
  return {artifact.bytes(shard.binary), device.weight_shared, device.arch, shard.checksum};
}

Status compare_checksums(const Artifact& artifact, ThreadPool& pool) {
  const std::vector<Shard>& shards = artifact.header().shards;
  std::vector<uint8_t> damaged(shards.size(), 0);
  pool.run(static_cast<int64_t>(shards.size()), [&](int64_t i, int) {
    const Shard& shard = shards[static_cast<size_t>(i)];
    damaged[static_cast<size_t>(i)] = binary_checksum(artifact.bytes(shard.binary)) != shard.checksum;
  });
  TANDEM_TRY(artifact.check());
  for (size_t i = 0; i < shards.size(); ++i) {
    if (damaged[i] != 0) {
      return corrupt("the binary of shard \"{}\" is damaged; copy the file again or compile it again", shards[i].name);
    }
  }
  return ok_status();
}

Result<std::vector<BinaryInfo>> describe(const Artifact& artifact, const Library& library) {
  const ArtifactHeader& header = artifact.header();
  std::vector<BinaryInfo> binaries;
  for (const Shard& shard : header.shards) {
    auto info = read_binary_info(library, artifact.bytes(shard.binary));
    if (!info.ok()) return with_context(std::move(info).error(), "shard \"{}\"", shard.name);
    if (info->arch != header.device.arch) {
      return corrupt("the binary of shard \"{}\" was compiled for V{} and the file says V{}; compile it again",
                     shard.name, info->arch, header.device.arch);
    }
    binaries.push_back(std::move(info).value());
  }
  return binaries;
}

Result<const WeightEntry*> find_table(const Artifact& artifact, const ir::Graph& graph, ir::TensorId id) {
  const ir::Tensor& table = graph.at(id);
  const WeightEntry* const entry = artifact.find_weight(table.name);
  if (entry == nullptr) {
    return corrupt("the file has no weight \"{}\", which method \"{}\" looks tokens up in", table.name, graph.name);
  }
  if (entry->rows != table.shape[0] || entry->cols != table.shape[1]) {
    return corrupt("weight \"{}\" is not what method \"{}\" needs", table.name, graph.name);
  }
  return entry;
}

Result<LoadedMethod> plan(const Artifact& artifact, const ir::Graph& graph,
                          std::span<const ShardDescription> descriptions) {
  LoadedMethod method;
  TANDEM_ASSIGN(method.plan, plan_method(graph, descriptions));
  for (const HostLookup& lookup : method.plan.lookups) {
    TANDEM_ASSIGN(const WeightEntry* const entry, find_table(artifact, graph, lookup.table));
    if (entry->layout == WeightLayout::kRows) {
      TANDEM_ASSIGN(const RowTable table, bind_row_table(*entry, artifact));
      method.tables.emplace_back(table);
    } else {
      TANDEM_ASSIGN(const PackedMatrix table, bind_matrix(*entry, artifact));
      method.tables.emplace_back(table);
    }
  }
  for (const HostRescore& rescore : method.plan.rescores) {
    TANDEM_ASSIGN(const WeightEntry* const entry, find_table(artifact, graph, rescore.table));
    TANDEM_ASSIGN(const RowTable table, bind_row_table(*entry, artifact));
    method.rescored_tables.push_back(table);
  }
  return method;
}

// The graphs of one shard that some method uses.
Result<LoadedShard> load_shard(std::shared_ptr<const Context> context, const BinaryInfo& binary,
                               const std::vector<LoadedMethod>& methods, size_t shard) {
  LoadedShard loaded;
  loaded.context = std::move(context);
  loaded.graphs.resize(binary.graphs.size());
  for (const LoadedMethod& method : methods) {
    for (const Step& step : method.plan.steps) {
      if (step.shard != shard || loaded.graphs[step.graph] != nullptr) continue;
      TANDEM_ASSIGN(loaded.graphs[step.graph], Graph::retrieve(loaded.context, binary.graphs[step.graph]));
    }
  }
  return loaded;
}

}  // namespace

Result<std::shared_ptr<const Device>> process_device(const std::shared_ptr<const Library>& library,
                                                     const DeviceInfo& compiled, const Platform& platform,
                                                     const QnnOptions& program) {
  struct Entry {
    std::string library;
    uint32_t soc_model;
    int vtcm_mb;
    bool signed_pd;
    std::weak_ptr<const Device> device;
  };
  static std::mutex mutex;
  static std::vector<Entry>* const entries = new std::vector<Entry>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<const Backend> backend;
  DeviceOptions options;
  if (platform.emulator) {
    options.soc_model = compiled.soc_model;
    options.vtcm_mb = compiled.vtcm_mb;
  } else {
    options.signed_pd = program.signed_pd;
    options.is_on_chip = true;
  }
  std::erase_if(*entries, [](const Entry& entry) { return entry.device.expired(); });
  for (const Entry& entry : *entries) {
    const auto device = entry.device.lock();
    if (device == nullptr || entry.library != library->path()) continue;
    backend = device->backend();
    backend->log_more(program.log.finest());
    // Another architecture goes on to create(), which refuses it.
    if (entry.soc_model == options.soc_model && entry.vtcm_mb == options.vtcm_mb &&
        entry.signed_pd == options.signed_pd && (!platform.emulator || device->arch() == compiled.arch)) {
      TANDEM_TRY(check_target(compiled, platform, platform.emulator ? ChipInfo() : query_chip(*backend)));
      if (options.signed_pd && !device->options().signed_pd) warn_about_unsigned_pd();
      return device;
    }
  }
  if (backend == nullptr) {
    TANDEM_ASSIGN(backend, Backend::create(library, {.log_level = program.log.finest()}));
  }
  const ChipInfo chip = platform.emulator ? ChipInfo() : query_chip(*backend);
  TANDEM_TRY(check_target(compiled, platform, chip));
  // A chip that does not identify itself is assumed to be the one that the file was compiled for.
  options.arch = chip.arch != 0 ? chip.arch : compiled.arch;
  TANDEM_ASSIGN(std::shared_ptr<const Device> device, Device::create(backend, options));
  entries->push_back({library->path(), options.soc_model, options.vtcm_mb, options.signed_pd, device});
  return device;
}

Status load_shards(const Artifact& artifact, ThreadPool& pool, LoadedShards& loaded) {
  const ArtifactHeader& header = artifact.header();
  loaded.artifact = &artifact;
  TANDEM_TRY(compare_checksums(artifact, pool));
  TANDEM_ASSIGN(const std::vector<BinaryInfo> binaries, describe(artifact, *loaded.device->backend()->library()));
  std::vector<ShardDescription> descriptions;
  uint64_t spill_fill_bytes = 0;
  for (size_t i = 0; i < header.shards.size(); ++i) {
    descriptions.push_back({&header.shards[i], &binaries[i]});
    spill_fill_bytes = std::max(spill_fill_bytes, binaries[i].spill_fill_bytes());
  }
  for (const ir::Graph& graph : header.methods) {
    TANDEM_ASSIGN(LoadedMethod method, plan(artifact, graph, descriptions));
    loaded.methods.push_back(std::move(method));
  }
  for (size_t i = 0; i < header.shards.size(); ++i) {
    Context::LoadOptions options;
    options.checksum_compared = true;
    // They take turns, so one scratch memory suffices for all.
    options.use_group = header.shards.size() > 1 && spill_fill_bytes > 0;
    options.group.first = i > 0 ? loaded.shards[0].context : nullptr;
    options.group.spill_fill_bytes = spill_fill_bytes;
    auto context = Context::load(loaded.device, binary_of(artifact, header.shards[i]), options);
    TANDEM_TRY(artifact.check());
    if (!context.ok()) return with_context(std::move(context).error(), "shard \"{}\"", header.shards[i].name);
    TANDEM_ASSIGN(LoadedShard shard, load_shard(std::move(context).value(), binaries[i], loaded.methods, i));
    loaded.shards.push_back(std::move(shard));
    artifact.release_segment(header.shards[i].binary.segment);  // The library has made its own copy.
  }
  return ok_status();
}

}  // namespace tandem::qnn
