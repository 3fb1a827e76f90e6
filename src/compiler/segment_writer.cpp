#include "compiler/segment_writer.h"

#include <algorithm>
#include <cmath>

#include "artifact/reader.h"
#include "base/error.h"
#include "compiler/source_hash.h"
#include "compiler/weight_writer.h"

namespace tandem {
namespace {

// Weights that are in memory as floats at one time: 16 MB, and as much again for quantized and packed rows.
constexpr int64_t kChunkWeights = 4 << 20;

Error stopped_error() { return cancelled("stopped; the same command goes on where it was"); }

}  // namespace

bool is_intact(const std::filesystem::path& path, const FinishedSegment& finished) {
  const auto file = MappedFile::open(path);
  return file.ok() && file->bytes().size() == finished.size && hash_bytes(file->bytes()) == finished.hash &&
         file->check().ok();
}

void SegmentWriter::report_progress(const std::string& stage) const {
  if (job_.options().progress) job_.options().progress({stage, done_bytes_, file_.total_bytes()});
}

Result<std::vector<SegmentFile>> SegmentWriter::finish_all() {
  std::vector<SegmentFile> segments;
  for (size_t i = 0; i < file_.segments.size(); ++i) {
    TANDEM_ASSIGN(SegmentFile segment, finish(i));
    segments.push_back(std::move(segment));
  }
  return segments;
}

Result<SegmentFile> SegmentWriter::finish(size_t index) {
  const SegmentPlan& segment = file_.segments[index];
  const std::filesystem::path path = work_.segment_path(index);
  report_progress(segment.name);
  TANDEM_ASSIGN(const uint64_t source, hash_source(segment));
  const FinishedSegment* finished = work_.find(segment.name, source);
  if (finished != nullptr && is_intact(path, *finished)) {
    total_.add(finished->report);
    ++job_.report().segments_reused;
    done_bytes_ += segment.size;
    return SegmentFile{segment.name, path, finished->hash};
  }
  QuantizationReport report;
  TANDEM_TRY(write(path, segment, report));
  TANDEM_ASSIGN(const MappedFile file, MappedFile::open(path));
  const FinishedSegment done{file.bytes().size(), hash_bytes(file.bytes()), source, report};
  TANDEM_TRY(file.check());
  TANDEM_TRY(work_.add(segment.name, done));
  total_.add(report);
  return SegmentFile{segment.name, path, done.hash};
}

Result<uint64_t> SegmentWriter::hash_source(const SegmentPlan& segment) const {
  SourceHash hash;
  hash.add(segment.blob);
  for (const size_t v : segment.vectors) TANDEM_TRY(hash.add_weight(job_.weights(), file_.vectors[v].name));
  for (const size_t w : segment.weights) {
    if (job_.stopped()) return stopped_error();
    TANDEM_TRY(hash.add_weight(job_.weights(), file_.weights[w].name));
  }
  return hash.value();
}

Status SegmentWriter::write(const std::filesystem::path& path, const SegmentPlan& segment, QuantizationReport& report) {
  TANDEM_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TANDEM_TRY(file.set_size(segment.size));
  if (!segment.blob.empty()) TANDEM_TRY(file.write_at(0, segment.blob));
  for (const size_t v : segment.vectors) {
    const VectorEntry& entry = file_.vectors[v];
    TANDEM_ASSIGN(const std::vector<float> values, job_.weights().read_vector(entry.name));
    for (const float value : values) {
      if (!std::isfinite(value)) return corrupt("\"{}\" has a value that is not a number", entry.name);
    }
    TANDEM_TRY(file.write_at(entry.data.offset,
                             {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)}));
  }
  uint64_t weight_bytes = 0;
  for (const size_t w : segment.weights) {
    TANDEM_TRY(write_weight(file, segment.name, file_.weights[w], report, weight_bytes));
  }
  done_bytes_ += segment.size - weight_bytes;
  return file.commit();
}

Status SegmentWriter::write_weight(AtomicFile& file, const std::string& stage, const WeightEntry& entry,
                                   QuantizationReport& report, uint64_t& weight_bytes) {
  const WeightSource& source = *job_.plan().find_weight(entry.name);
  const int64_t chunk = std::max<int64_t>(kChunkWeights / entry.cols / kRowGranularity, 1) * kRowGranularity;
  const WeightSpec spec{entry.format, entry.block == 0 ? WeightSpec().block : entry.block};
  std::vector<float> values;
  for (int64_t row = 0; row < entry.rows; row += chunk) {
    if (job_.stopped()) return stopped_error();
    const int64_t count = std::min(chunk, entry.rows - row);
    values.resize(static_cast<size_t>(count * entry.cols));
    TANDEM_TRY(job_.weights().read_rows(entry.name, row, count, values.data()));
    job_.weights().release_rows(source, row, count);
    auto matrix = job_.tuned().has(entry.name) ? job_.tuned().rows(entry.name, row, count, entry.format, entry.block)
                                               : quantize_matrix(values.data(), count, entry.cols, spec, pool_,
                                                                 {.importance = {}, .first_row = row});
    if (!matrix.ok()) return with_context(std::move(matrix).error(), "weight \"{}\"", entry.name);
    report.add(quantization_report(values.data(), *matrix));
    TANDEM_TRY(write_weight_rows(file, entry, row, *matrix));
    const uint64_t all = entry.bytes();
    const auto share = [&](int64_t rows) {
      return all * static_cast<uint64_t>(rows) / static_cast<uint64_t>(entry.rows);
    };
    const uint64_t bytes = share(row + count) - share(row);
    weight_bytes += bytes;
    done_bytes_ += bytes;
    report_progress(stage);
  }
  return ok_status();
}

}  // namespace tandem
