#include "backends/qnn/execute/platform.h"

#include <charconv>
#include <fstream>
#include <sstream>

#include "backends/qnn/api/library.h"
#include "backends/qnn/api/rpcmem.h"
#include "base/checked.h"

namespace tandem::qnn {

uint64_t parse_available_memory(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemAvailable:";
  constexpr uint64_t kUnknown = std::numeric_limits<uint64_t>::max();
  size_t at = meminfo.find(kKey);
  if (at == std::string_view::npos) return kUnknown;
  at = meminfo.find_first_not_of(' ', at + kKey.size());
  if (at == std::string_view::npos) return kUnknown;
  uint64_t kilobytes = 0;
  const auto parsed = std::from_chars(meminfo.data() + at, meminfo.data() + meminfo.size(), kilobytes);
  if (parsed.ec != std::errc()) return kUnknown;
  return checked_mul(kilobytes, 1024).value_or(kUnknown);
}

Platform Platform::here() {
  Platform platform;
  platform.emulator = is_emulator();
  if (!platform.emulator) {
    platform.rpc_library = kRpcLibrary;
    platform.sets_power = true;
  }
  std::ifstream stream("/proc/meminfo");
  std::ostringstream text;
  if (stream && text << stream.rdbuf()) platform.available_memory = parse_available_memory(text.str());
  return platform;
}

}  // namespace tandem::qnn
