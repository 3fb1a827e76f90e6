// Where a compile keeps its finished segments until the file can be put together: FILE.work/. An interrupted compile
// leaves it behind, and the next one with the same checkpoint and options goes on from there.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "quant/quantize.h"
#include "tandem/status.h"

namespace tandem {

struct FinishedSegment {
  uint64_t size = 0;
  uint64_t hash = 0;
  QuantizationReport report;
  std::string note;  // Whatever its maker wants to know of it later.
};

class WorkFolder {
 public:
  // Opens or creates the folder for `output`. Work that was done for another key (other checkpoint, other options) is
  // thrown away. Refused while another compile holds it.
  static Result<WorkFolder> open(const std::filesystem::path& output, const std::string& key);

  WorkFolder(WorkFolder&& other) noexcept;
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder();

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path segment_path(size_t index) const;
  // What is known of a segment if it was finished, by this run or an earlier one.
  const FinishedSegment* find(const std::string& name) const;
  // Records a segment whose file is complete.
  Status add(const std::string& name, const FinishedSegment& segment);
  // The output exists: nothing of this is needed any more.
  void remove();

 private:
  WorkFolder() = default;
  void read_manifest();

  std::filesystem::path folder_;
  std::string key_;
  std::map<std::string, FinishedSegment> finished_;
  int lock_ = -1;
};

}  // namespace tandem
