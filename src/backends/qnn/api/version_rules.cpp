#include "backends/qnn/api/version_rules.h"

namespace tandem::qnn {
namespace {

constexpr uint32_t kNewestWithHeaders = 36;  // Its public headers have a union of 4-byte members, at 4.
constexpr uint32_t kOldestMeasured = 47;
constexpr uint32_t kReadsAtFour = 49;  // 2.49.40: at 4 again. 2.47.0, 2.48.40, 2.50.40 and 2.51.0 read at 8.
constexpr uint32_t kBetaIsOptionalFrom = 49;
constexpr uint32_t kRotaryFloatsFrom = 48;
constexpr uint32_t kEmulatorRunsSeveralFrom = 49;
constexpr uint32_t kEstimatesFrom = 51;

}  // namespace

std::optional<size_t> device_payload_offset(const abi::Version& htp) {
  if (htp.minor <= kNewestWithHeaders || htp.minor == kReadsAtFour) return 4;
  if (htp.minor < kOldestMeasured) return std::nullopt;
  return 8;
}

bool rms_norm_needs_beta(const abi::Version& htp) { return htp.minor < kBetaIsOptionalFrom; }

bool rotary_embedding_takes_floats(const abi::Version& htp) { return htp.minor >= kRotaryFloatsFrom; }

bool emulator_runs_one_at_a_time(const abi::Version& htp) { return htp.minor < kEmulatorRunsSeveralFrom; }

bool has_estimates(const abi::Version& htp) { return htp.minor >= kEstimatesFrom; }

}  // namespace tandem::qnn
