#include "weights/checkpoint_weights.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

// Calls visit(piece, first row in the tensor, rows, rows already visited) for each run of rows inside one piece.
template <typename Visit>
Status visit_rows(const WeightSource& source, int64_t row_begin, int64_t rows, Visit&& visit) {
  int64_t piece_begin = 0, done = 0;
  for (const SourcePiece& piece : source.pieces) {
    const int64_t begin = std::max(row_begin, piece_begin), end = std::min(row_begin + rows, piece_begin + piece.rows);
    if (begin < end) {
      TANDEM_TRY(visit(piece, piece.row_begin + begin - piece_begin, end - begin, done));
      done += end - begin;
    }
    piece_begin += piece.rows;
  }
  return done == rows ? ok_status() : Status(internal_error("rows of \"{}\" that it does not have", source.name));
}

}  // namespace

Status CheckpointWeights::read_rows(std::string_view name, int64_t row_begin, int64_t rows, float* out) const {
  const WeightSource* source = plan_.find_weight(name);
  if (source == nullptr) return internal_error("no weight is named \"{}\"", name);
  return visit_rows(
      *source, row_begin, rows, [&](const SourcePiece& piece, int64_t first, int64_t count, int64_t done) -> Status {
        auto tensor = checkpoint_.tensor(piece.tensor);
        if (!tensor.ok()) return tensor.status();
        TANDEM_TRY(checkpoint_.check(*tensor));
        TANDEM_TRY(read_rows_f32(*tensor, first, count,
                                 std::span(out + done * source->cols, static_cast<size_t>(count * source->cols))));
        return checkpoint_.check(*tensor);
      });
}

Result<std::vector<float>> CheckpointWeights::read_vector(std::string_view name) const {
  const VectorSource* source = plan_.find_vector(name);
  if (source == nullptr) return internal_error("no vector is named \"{}\"", name);
  if (source->tensor.empty()) return source->values;
  TANDEM_ASSIGN(const TensorView tensor, checkpoint_.tensor(source->tensor));
  std::vector<float> values(static_cast<size_t>(source->length));
  TANDEM_TRY(checkpoint_.check(tensor));
  TANDEM_TRY(read_rows_f32(tensor, source->begin, source->length, values));
  TANDEM_TRY(checkpoint_.check(tensor));
  return values;
}

Status CheckpointWeights::visit_source(std::string_view name, const Checkpoint::ByteVisitor& visit) const {
  const auto visit_piece = [&](const std::string& tensor_name, int64_t first, int64_t count) -> Status {
    TANDEM_ASSIGN(const TensorView tensor, checkpoint_.tensor(tensor_name));
    Status status = checkpoint_.check(tensor);
    checkpoint_.visit_bytes(tensor, first, count, [&](std::span<const uint8_t> bytes) {
      constexpr size_t kStep = 8 << 20;
      for (size_t at = 0; at < bytes.size() && status.ok(); at += kStep) {
        const auto part = bytes.subspan(at, std::min(kStep, bytes.size() - at));
        visit(part);
        checkpoint_.release_bytes(part);
        status = checkpoint_.check(tensor);
      }
    });
    return status;
  };
  if (const VectorSource* vector = plan_.find_vector(name)) {
    if (!vector->tensor.empty()) return visit_piece(vector->tensor, vector->begin, vector->length);
    visit({reinterpret_cast<const uint8_t*>(vector->values.data()), vector->values.size() * sizeof(float)});
    return ok_status();
  }
  const WeightSource* weight = plan_.find_weight(name);
  if (weight == nullptr) return internal_error("no weight is named \"{}\"", name);
  for (const SourcePiece& piece : weight->pieces) TANDEM_TRY(visit_piece(piece.tensor, piece.row_begin, piece.rows));
  return ok_status();
}

void CheckpointWeights::release_rows(const WeightSource& source, int64_t row_begin, int64_t rows) const {
  const Status ignored =
      visit_rows(source, row_begin, rows, [&](const SourcePiece& piece, int64_t first, int64_t count, int64_t) {
        auto tensor = checkpoint_.tensor(piece.tensor);
        if (!tensor.ok()) return tensor.status();
        checkpoint_.release_rows(*tensor, first, count);
        return ok_status();
      });
  (void)ignored;  // Rows that cannot be found have no pages to release.
}

}  // namespace tandem
