#include "weight_layout/bind_matrix.h"

#include "base/error.h"

namespace tandem {

Result<PackedMatrix> bind_matrix(const WeightEntry& entry, const Artifact& artifact) {
  if (entry.layout != WeightLayout::kPanel16) {
    return unsupported("weight \"{}\" has the layout {}, which the CPU does not read", entry.name,
                       weight_layout_name(entry.layout));
  }
  if (is_quantized(entry.format) && entry.cols > kMaxQuantizedCols) {
    return unsupported("weight \"{}\" has {} inputs; the CPU's integer kernels take up to {}", entry.name, entry.cols,
                       kMaxQuantizedCols);
  }
  const PackedSizes sizes = packed_sizes(entry.format, entry.rows, entry.cols, entry.block);
  if (entry.data.size != sizes.data || entry.scales.size != sizes.scales ||
      entry.multipliers.size != sizes.multipliers) {
    return corrupt("the weight \"{}\" does not have the bytes of a {} [{}, {}]", entry.name,
                   weight_format_name(entry.format), entry.rows, entry.cols);
  }
  PackedMatrix matrix;
  matrix.format = entry.format;
  matrix.rows = entry.rows;
  matrix.cols = entry.cols;
  matrix.block = entry.block;
  matrix.data = artifact.bytes(entry.data).data();
  matrix.scales = reinterpret_cast<const float*>(artifact.bytes(entry.scales).data());
  matrix.multipliers = artifact.bytes(entry.multipliers).data();
  return matrix;
}

Result<RowTable> bind_row_table(const WeightEntry& entry, const Artifact& artifact) {
  if (entry.layout != WeightLayout::kRows || entry.format != WeightFormat::kI8) {
    return corrupt("weight \"{}\" is {} in the layout {}, and no table of int8 rows", entry.name,
                   weight_format_name(entry.format), weight_layout_name(entry.layout));
  }
  if (entry.cols > kMaxQuantizedCols) {
    return unsupported("weight \"{}\" has {} inputs; the CPU's integer kernels take up to {}", entry.name, entry.cols,
                       kMaxQuantizedCols);
  }
  const PackedSizes sizes = row_table_sizes(entry.rows, entry.cols);
  if (entry.data.size != sizes.data || entry.scales.size != sizes.scales || entry.multipliers.size != 0) {
    return corrupt("the weight \"{}\" does not have the bytes of a table [{}, {}]", entry.name, entry.rows, entry.cols);
  }
  RowTable table;
  table.rows = entry.rows;
  table.cols = entry.cols;
  table.values = reinterpret_cast<const int8_t*>(artifact.bytes(entry.data).data());
  table.scales = reinterpret_cast<const float*>(artifact.bytes(entry.scales).data());
  return table;
}

}  // namespace tandem
