// Names of numbers, and what concerns the whole library.
#include "c_api/border.h"
#include "tandem/engine.h"
#include "tandem/mapping_guard.h"
#include "tandem/tandem.h"
#include "tandem/version.h"

namespace {

constexpr const char* kUnknown = "unknown";

}  // namespace

extern "C" {

const char* tandem_version(void) { return tandem::version(); }

const char* tandem_status_name(tandem_status status) {
  if (status == TANDEM_OK) return "ok";
  if (status < TANDEM_OK || status > TANDEM_INTERNAL) return kUnknown;
  return tandem::error_code_name(static_cast<tandem::ErrorCode>(status - 1));
}

const char* tandem_mode_name(tandem_mode mode) {
  if (mode != TANDEM_MODE_KV && mode != TANDEM_MODE_HYBRID) return kUnknown;
  return tandem::mode_name(static_cast<tandem::Mode>(mode));
}

const char* tandem_log_level_name(tandem_log_level level) {
  if (level < TANDEM_LOG_ERROR || level > TANDEM_LOG_DEBUG) return kUnknown;
  return tandem::log_level_name(static_cast<tandem::LogLevel>(level - 1));
}

const char* tandem_finish_reason_name(tandem_finish_reason reason) {
  if (reason < TANDEM_FINISH_STOP || reason > TANDEM_FINISH_CANCELLED) return kUnknown;
  return tandem::finish_reason_name(static_cast<tandem::FinishReason>(reason));
}

tandem_status tandem_guard_file_mappings(void) {
  return tandem::c_api::at_border([] { return tandem::guard_file_mappings(); });
}
}
