// Packs weights ahead of time into the layout that the CPU's kernels read, a few rows at a time.
#pragma once

#include <cstdint>

#include "artifact/header.h"
#include "base/atomic_file.h"
#include "numerics/weight_matrix.h"
#include "tandem/status.h"

namespace tandem {

// Rows that are written at once start at multiples of this (except at the end of a matrix).
inline constexpr int64_t kRowGranularity = 16;

// Allocates the parts of a weight in a segment, from `cursor` on, and moves the cursor past them. `entry` has name,
// format, layout, block, rows and cols.
Status lay_out_weight(WeightEntry& entry, uint32_t segment, uint64_t& cursor);

// Packs rows [first_row, first_row + rows.rows) and writes them to their offsets in the segment's file.
Status write_weight_rows(AtomicFile& file, const WeightEntry& entry, int64_t first_row, const WeightMatrix& rows);

}  // namespace tandem
