// A weight of an artifact as the kernels read it; the sizes of its parts are checked against its format and shape.
#pragma once

#include "artifact/reader.h"
#include "tandem/status.h"
#include "weight_layout/packed_matrix.h"
#include "weight_layout/row_table.h"

namespace tandem {

// The matrix points into the mapped file: the artifact must outlive it.
Result<PackedMatrix> bind_matrix(const WeightEntry& entry, const Artifact& artifact);
// The same for a weight in the layout kRows.
Result<RowTable> bind_row_table(const WeightEntry& entry, const Artifact& artifact);

}  // namespace tandem
