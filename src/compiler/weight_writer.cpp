#include "compiler/weight_writer.h"

#include <span>

#include "base/checked.h"
#include "base/error.h"
#include "weight_layout/packed_matrix.h"
#include "weight_layout/row_table.h"

namespace tandem {
namespace {

static_assert(kRowGranularity == kPanelRows);

Range allocate(uint32_t segment, uint64_t size, uint64_t& cursor) {
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

// The parts of the first `rows` rows.
PackedSizes sizes_of(const WeightEntry& entry, int64_t rows) {
  if (entry.layout == WeightLayout::kRows) return row_table_sizes(rows, entry.cols);
  return packed_sizes(entry.format, rows, entry.cols, entry.block);
}

}  // namespace

Status lay_out_weight(WeightEntry& entry, uint32_t segment, uint64_t& cursor) {
  if (is_quantized(entry.format) && entry.cols > kMaxQuantizedCols) {
    return unsupported("weight \"{}\" has {} inputs; integer formats take up to {} on the CPU, use fp16 for it",
                       entry.name, entry.cols, kMaxQuantizedCols);
  }
  if (entry.layout == WeightLayout::kRows && entry.format != WeightFormat::kI8) {
    return internal_error("\"{}\" is {}, and tables of rows are int8", entry.name, weight_format_name(entry.format));
  }
  const PackedSizes sizes = sizes_of(entry, entry.rows);
  entry.data = allocate(segment, sizes.data, cursor);
  entry.scales = allocate(segment, sizes.scales, cursor);
  entry.multipliers = allocate(segment, sizes.multipliers, cursor);
  return ok_status();
}

Status write_weight_rows(AtomicFile& file, const WeightEntry& entry, int64_t first_row, const WeightMatrix& rows) {
  if (first_row % kPanelRows != 0) return internal_error("rows of \"{}\" begin inside a panel", entry.name);
  const PackedStorage packed = entry.layout == WeightLayout::kRows ? pack_row_table(rows) : pack_matrix(rows);
  // Every part is a list of panels or rows: what precedes these is as large as a matrix of that many rows.
  const PackedSizes before = sizes_of(entry, first_row);
  TANDEM_TRY(file.write_at(entry.data.offset + before.data, bytes_of(packed.data)));
  TANDEM_TRY(file.write_at(entry.scales.offset + before.scales, bytes_of(packed.scales)));
  return file.write_at(entry.multipliers.offset + before.multipliers, bytes_of(packed.multipliers));
}

}  // namespace tandem
