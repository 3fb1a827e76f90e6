#include "backends/cpu/lower/weight_writer.h"

#include <span>

#include "backends/cpu/kernels/packed_matrix.h"
#include "base/checked.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

static_assert(kRowGranularity == kPanelRows);

Range take(uint32_t segment, uint64_t size, uint64_t& cursor) {
  if (size == 0) return {};
  cursor = round_up(cursor, kPartAlignment);
  const Range range{segment, cursor, size};
  cursor += size;
  return range;
}

template <typename T>
std::span<const uint8_t> bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(T)};
}

}  // namespace

Status lay_out_weight(WeightEntry& entry, uint32_t segment, uint64_t& cursor) {
  if (is_quantized(entry.format) && entry.cols > kMaxQuantizedCols) {
    return unsupported("weight \"{}\" has {} inputs; integer formats take up to {} on the CPU, use fp16 for it",
                       entry.name, entry.cols, kMaxQuantizedCols);
  }
  entry.layout = WeightLayout::kPanel16;
  const PackedSizes sizes = packed_sizes(entry.format, entry.rows, entry.cols, entry.block);
  entry.data = take(segment, sizes.data, cursor);
  entry.scales = take(segment, sizes.scales, cursor);
  entry.multipliers = take(segment, sizes.multipliers, cursor);
  return ok_status();
}

Status write_weight_rows(AtomicFile& file, const WeightEntry& entry, int64_t first_row, const WeightMatrix& rows) {
  if (first_row % kPanelRows != 0) return internal_error("rows of \"{}\" begin inside a panel", entry.name);
  const PackedStorage packed = pack_matrix(rows);
  // Every part is a list of panels: what comes before these rows is as large as a matrix of so many rows.
  const PackedSizes before = packed_sizes(entry.format, first_row, entry.cols, entry.block);
  TANDEM_TRY(file.write_at(entry.data.offset + before.data, bytes_of(packed.data)));
  TANDEM_TRY(file.write_at(entry.scales.offset + before.scales, bytes_of(packed.scales)));
  return file.write_at(entry.multipliers.offset + before.multipliers, bytes_of(packed.multipliers));
}

}  // namespace tandem::cpu
