#include "compiler/tuning/tune_state_file.h"

#include <cstring>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

// layer, number of arrays, their lengths; then the arrays.
using Count = uint64_t;

}  // namespace

Status write_tune_state(const std::filesystem::path& path, const TuneState& state) {
  std::vector<Count> counts = {static_cast<Count>(state.next_layer), state.rows.size()};
  for (const std::vector<float>& rows : state.rows) counts.push_back(rows.size());
  TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TANDEM_TRY(file.write({reinterpret_cast<const uint8_t*>(counts.data()), counts.size() * sizeof(Count)}));
  for (const std::vector<float>& rows : state.rows) {
    TANDEM_TRY(file.write({reinterpret_cast<const uint8_t*>(rows.data()), rows.size() * sizeof(float)}));
  }
  return file.commit();
}

Result<TuneState> read_tune_state(const std::filesystem::path& path) {
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
  std::span<const uint8_t> bytes = file.bytes();
  const Error damaged = corrupt("{}: the state of the tuning is damaged", path.string());
  const auto read = [&](void* to, uint64_t size) {
    if (size > bytes.size()) return false;
    if (size > 0) std::memcpy(to, bytes.data(), size);
    bytes = bytes.subspan(size);
    return true;
  };
  Count head[2] = {};
  if (!read(head, sizeof(head)) || head[1] > bytes.size() / sizeof(Count)) return damaged;
  std::vector<Count> lengths(head[1]);
  if (!read(lengths.data(), lengths.size() * sizeof(Count))) return damaged;
  TuneState state;
  state.next_layer = static_cast<int64_t>(head[0]);
  for (const Count length : lengths) {
    if (length > bytes.size() / sizeof(float)) return damaged;
    state.rows.emplace_back(length);
    if (!read(state.rows.back().data(), length * sizeof(float))) return damaged;
  }
  TANDEM_TRY(file.check());
  return state;
}

}  // namespace tandem
