// Quantizes weights and writes them into segments, a chunk of rows at a time.
#pragma once

#include "artifact/writer.h"
#include "base/atomic_file.h"
#include "base/thread_pool.h"
#include "compiler/compile_job.h"
#include "compiler/work_folder.h"

namespace tandem {

class SegmentWriter {
 public:
  // All must outlive it.
  SegmentWriter(CompileJob& job, const FilePlan& file, WorkFolder& work, ThreadPool& pool)
      : job_(job), file_(file), work_(work), pool_(pool) {}

  // The segments' files in order, made now or by an earlier run.
  Result<std::vector<SegmentFile>> finish_all();
  // Of all segments so far.
  const QuantizationReport& report() const { return total_; }

 private:
  Result<SegmentFile> finish(size_t index);
  Result<uint64_t> hash_source(const SegmentPlan& segment) const;
  void report_progress(const std::string& stage) const;
  Status write(const std::filesystem::path& path, const SegmentPlan& segment, QuantizationReport& report);
  Status write_weight(AtomicFile& file, const std::string& stage, const WeightEntry& entry, QuantizationReport& report,
                      uint64_t& weight_bytes);

  CompileJob& job_;
  const FilePlan& file_;
  WorkFolder& work_;
  ThreadPool& pool_;
  uint64_t done_bytes_ = 0;
  QuantizationReport total_;
};

// Whether a finished segment's file is unchanged.
bool is_intact(const std::filesystem::path& path, const FinishedSegment& finished);

}  // namespace tandem
