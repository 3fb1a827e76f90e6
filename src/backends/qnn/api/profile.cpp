#include "backends/qnn/api/profile.h"

#include <span>

#include "backends/qnn/api/errors.h"
#include "base/error.h"

namespace tandem::qnn {
namespace {

using abi::ProfileEvent;

// Deeper than the library nests, and more than it has to say of a graph; they guard against a loop.
constexpr int kMaxDepth = 6;
constexpr uint32_t kMaxEvents = 1 << 20;

// "layers.0.attention.q.rope:RotaryEmbedding : OpId_90" without the number, which says nothing outside of the library.
std::string op_name(const char* identifier) {
  std::string name = identifier != nullptr ? identifier : "";
  if (const size_t number = name.rfind(" : OpId_"); number != std::string::npos) name.resize(number);
  const bool is_own = name.starts_with("OpId_");  // An op that the library has put in.
  return name.empty() || is_own ? "unnamed" : name;
}

// Walks the tree of events and adds up what the estimate is made of.
class EstimateReader {
 public:
  explicit EstimateReader(const abi::CoreTable& core) : core_(core) {}

  Result<std::optional<Estimate>> read(abi::Handle profile) {
    const abi::ProfileEventId* events = nullptr;
    uint32_t count = 0;
    if (const auto result = core_.profile_get_events(profile, &events, &count); result != abi::kSuccess) {
      return describe_error(result, "reading the events of a profile");
    }
    TANDEM_TRY(walk(events, count, 0));
    if (!found_ || estimate_.us == 0) return std::optional<Estimate>();
    if (uncosted_ > kMaxEvents) return internal_error("QNN counts {} ops without a cost", uncosted_);
    if (uncosted_ > estimate_.uncosted_ops.size()) estimate_.uncosted_ops.resize(uncosted_, op_name(nullptr));
    return std::optional<Estimate>(std::move(estimate_));
  }

 private:
  Status walk(const abi::ProfileEventId* events, uint32_t count, int depth) {
    if (count > kMaxEvents - seen_ || (count > 0 && events == nullptr)) {
      return internal_error("QNN lists {} events of a profile", seen_ + uint64_t{count});
    }
    seen_ += count;
    for (const abi::ProfileEventId event : std::span(events, count)) {
      abi::ProfileEventData data = {};
      if (const auto result = core_.profile_get_event_data(event, &data); result != abi::kSuccess) {
        return describe_error(result, "reading an event of a profile");
      }
      add(data);
      const abi::ProfileEventId* below = nullptr;
      uint32_t below_count = 0;
      if (depth + 1 >= kMaxDepth) continue;
      if (core_.profile_get_sub_events(event, &below, &below_count) != abi::kSuccess) continue;
      TANDEM_TRY(walk(below, below_count, depth + 1));
    }
    return {};
  }

  void add(const abi::ProfileEventData& data) {
    switch (data.type) {
      case ProfileEvent::kPerformanceEstimates: found_ = true; return;
      case ProfileEvent::kSimulatedTime: estimate_.us = data.value; return;
      case ProfileEvent::kSimulatedTimeLower: estimate_.us_lower = data.value; return;
      case ProfileEvent::kSimulatedTimeUpper: estimate_.us_upper = data.value; return;
      case ProfileEvent::kInputFill: estimate_.ddr_read_bytes += data.value; return;
      case ProfileEvent::kOutputSpill: estimate_.ddr_write_bytes += data.value; return;
      case ProfileEvent::kIntermediateFill: estimate_.fill_bytes += data.value; return;
      case ProfileEvent::kIntermediateSpill: estimate_.spill_bytes += data.value; return;
      case ProfileEvent::kUncostedOps: uncosted_ = data.value; return;
      case ProfileEvent::kUncostedOp: estimate_.uncosted_ops.push_back(op_name(data.identifier)); return;
      default: return;
    }
  }

  const abi::CoreTable& core_;
  Estimate estimate_;
  uint32_t seen_ = 0;
  uint64_t uncosted_ = 0;  // As counted; not all have to be named.
  bool found_ = false;
};

}  // namespace

Result<Profile> Profile::create(std::shared_ptr<const Backend> backend) {
  if (backend == nullptr) return internal_error("a QNN profile needs a back end");
  const abi::CoreTable& core = backend->core();
  if (core.profile_create == nullptr || core.profile_get_events == nullptr || core.profile_get_sub_events == nullptr ||
      core.profile_get_event_data == nullptr || core.profile_free == nullptr) {
    return unsupported("{} has no profiling, which estimates are read from", backend->library()->path());
  }
  Profile profile(std::move(backend));
  const ErrorListener listener;
  // The basic level counts ops without a cost; this one names them too.
  const auto result = core.profile_create(profile.backend_->handle(), abi::ProfileLevel::kDetailed, &profile.handle_);
  if (result != abi::kSuccess) return describe_error(result, "creating a profile", listener.said());
  return profile;
}

Profile::~Profile() {
  if (handle_ != nullptr) backend_->core().profile_free(handle_);
}

Result<std::optional<Estimate>> Profile::read_estimate() const {
  return EstimateReader(backend_->core()).read(handle_);
}

}  // namespace tandem::qnn
