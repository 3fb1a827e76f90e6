#include "backends/interface/probe.h"

#include <charconv>
#include <fstream>
#include <limits>
#include <sstream>
#include <unordered_set>

#include "backends/interface/method_memory.h"
#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"

namespace tandem {
namespace {

constexpr uint64_t kNobodyKnows = std::numeric_limits<uint64_t>::max();

uint64_t megabytes(uint64_t bytes) { return (bytes >> 20) + (bytes % (1 << 20) != 0 ? 1 : 0); }

uint64_t add_or_most(uint64_t a, uint64_t b) { return checked_add(a, b).value_or(kNobodyKnows); }

}  // namespace

uint64_t parse_available_memory(std::string_view meminfo) {
  constexpr std::string_view kKey = "MemAvailable:";
  size_t at = meminfo.find(kKey);
  if (at == std::string_view::npos) return kNobodyKnows;
  at = meminfo.find_first_not_of(' ', at + kKey.size());
  if (at == std::string_view::npos) return kNobodyKnows;
  uint64_t kilobytes = 0;
  const auto parsed = std::from_chars(meminfo.data() + at, meminfo.data() + meminfo.size(), kilobytes);
  if (parsed.ec != std::errc()) return kNobodyKnows;
  return checked_mul(kilobytes, 1024).value_or(kNobodyKnows);
}

uint64_t available_memory() {
  std::ifstream stream("/proc/meminfo");
  std::ostringstream text;
  if (!stream || !(text << stream.rdbuf())) return kNobodyKnows;
  return parse_available_memory(text.str());
}

uint64_t session_bytes(std::span<const ir::Graph> methods) {
  uint64_t bytes = 0;
  std::unordered_set<std::string_view> states;
  for (const ir::Graph& method : methods) {
    for (const ir::Tensor& tensor : method.tensors) {
      const bool is_state = tensor.role == ir::TensorRole::kState;
      if (!is_state && tensor.role != ir::TensorRole::kInput && tensor.role != ir::TensorRole::kOutput) continue;
      if (is_state && !states.insert(tensor.name).second) continue;
      bytes = add_or_most(bytes, tensor_bytes(tensor));
    }
  }
  return bytes;
}

void set_memory(BackendProbe& probe, uint64_t weights, uint64_t session, uint64_t available) {
  probe.session_bytes = session;
  probe.memory_needed_bytes = add_or_most(weights, session);
  probe.memory_free_bytes = available == kNobodyKnows ? 0 : available;
}

void set_obstacle(BackendProbe& probe, const Error& error, std::string_view otherwise) {
  const size_t split = error.message.rfind("; ");
  probe.usable = false;
  probe.reason = error.message.substr(0, split);
  probe.remedy = split == std::string::npos ? std::string(otherwise) : error.message.substr(split + 2);
}

void check_mapped_memory(BackendProbe& probe) {
  if (probe.memory_free_bytes == 0) return;
  if (probe.session_bytes > probe.memory_free_bytes) {
    set_obstacle(
        probe,
        resource_exhausted("a session needs {} MB, and {} MB are free; close other programs, or compile the model "
                           "with a shorter `context` or a smaller `kv`",
                           megabytes(probe.session_bytes), probe.memory_free_bytes >> 20),
        {});
  } else if (probe.memory_needed_bytes > probe.memory_free_bytes) {
    probe.warnings.push_back(str_format(
        "weights and a session need {} MB, and {} MB are free: the system will read weights from storage again "
        "and again, so that tokens take seconds; close other programs, or use a smaller model",
        megabytes(probe.memory_needed_bytes), probe.memory_free_bytes >> 20));
  }
}

}  // namespace tandem
