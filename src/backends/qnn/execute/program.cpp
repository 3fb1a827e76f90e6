#include "backends/qnn/execute/program.h"

#include <utility>

#include "backends/qnn/api/log.h"
#include "backends/qnn/execute/execution_context.h"
#include "backends/qnn/execute/loaded_shards.h"
#include "backends/qnn/execute/preflight.h"
#include "base/error.h"

namespace tandem::qnn {
namespace {

class QnnProgram final : public Program {
 public:
  explicit QnnProgram(std::shared_ptr<const LoadedShards> loaded) : loaded_(std::move(loaded)) {}

  size_t method_count() const override { return loaded_->methods.size(); }
  const ir::Graph& method(size_t index) const override { return *loaded_->methods[index].plan.graph; }
  Result<std::unique_ptr<ExecutionContext>> new_context() override { return QnnExecutionContext::create(loaded_); }
  std::shared_ptr<uint8_t> allocate_shared(uint64_t bytes) override {
    return loaded_->heap == nullptr ? nullptr : loaded_->heap->allocate(bytes);
  }

 private:
  std::shared_ptr<const LoadedShards> loaded_;
};

// A device that refuses a profile, or has no shared memory, still runs: the log says that it is slower.
void prepare(const QnnOptions& options, const Platform& platform, LoadedShards& loaded) {
  if (platform.sets_power) {
    auto vote = PowerVote::create(loaded.device, {options.profile, options.rpc_polling_us});
    if (vote.ok()) {
      loaded.power = std::move(vote).value();
    } else {
      log_message(LogLevel::kWarning, vote.error().message);
    }
  }
  if (options.shared_buffers && !platform.rpc_library.empty()) {
    auto heap = SharedHeap::open(platform.rpc_library);
    if (heap.ok()) {
      loaded.heap = std::move(heap).value();
    } else {
      log_message(LogLevel::kWarning, heap.error().message);
    }
  }
}

}  // namespace

Result<std::unique_ptr<Program>> load_program(const Artifact& artifact, ThreadPool& pool, const QnnOptions& options,
                                              const Platform& platform) {
  const ArtifactHeader& header = artifact.header();
  if (header.shards.empty()) {
    return corrupt("the file is for the back end \"{}\" and has no compiled shards; compile it again", header.backend);
  }
  if (options.rpc_polling_us > kMaxRpcPollingUs) {
    return invalid_argument("an RPC polling time of {} us is too long; give 0 (off) to {}", options.rpc_polling_us,
                            kMaxRpcPollingUs);
  }
  auto loaded = std::make_shared<LoadedShards>(options.log);
  const LogScope scope(loaded->log.log());
  // Checks of the header alone come first: they need no library.
  if (platform.emulator) TANDEM_TRY(check_target(header.device, platform, {}));
  TANDEM_TRY(check_contexts(header));
  TANDEM_TRY(check_memory(header, platform));
  SearchOptions search;
  search.path = options.libraries;
  TANDEM_ASSIGN(const std::shared_ptr<const Library> library, Library::load(search));
  TANDEM_TRY(check_versions(header.device, library->core_version(), library->htp_version(), library->path()));
  loaded->pool = &pool;
  TANDEM_ASSIGN(loaded->device, process_device(library, header.device, platform, options));
  prepare(options, platform, *loaded);
  TANDEM_TRY(load_shards(artifact, pool, *loaded));
  return std::unique_ptr<Program>(std::make_unique<QnnProgram>(std::move(loaded)));
}

}  // namespace tandem::qnn
