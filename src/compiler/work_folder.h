// Where a compile keeps its finished segments until it can assemble the file: FILE.work/ and, for several targets,
// FILE.TARGET.work/ for each. An interrupted compile leaves it behind, and the next one with the same checkpoint and
// options resumes from there.
//
// A folder is ours if its lock contains our text and all other files have names that a compile uses. Nothing is written
// to other folders, and files that a compile did not make are never removed.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "quant/quantize.h"
#include "tandem/status.h"

namespace tandem {

struct FinishedSegment {
  uint64_t size = 0;
  uint64_t hash = 0;
  uint64_t source = 0;  // Checksum of the bytes that it was made from (source_hash.h).
  QuantizationReport report = {};
  std::string note = {};  // For the segment's writer, to read later.
};

// Whether the same command would fail again with an error of this kind: a weight that is NaN, an unsupported shape. A
// stop, a full disk or a crash need not recur.
bool comes_again(ErrorCode code);

class WorkFolder {
 public:
  // Opens or creates the folder for `output`. Work for another key (other checkpoint, other options) is discarded.
  // Refused while another compile holds it, and where it is not ours: a link, another user's, a folder with any file
  // that a compile does not write.
  // `part` is the target's name where a file gets several.
  static Result<WorkFolder> open(const std::filesystem::path& output, const std::string& key,
                                 const std::string& part = {});
  static std::filesystem::path path_for(const std::filesystem::path& output, const std::string& part);

  WorkFolder(WorkFolder&& other) noexcept;
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder();

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path segment_path(size_t index) const;
  std::filesystem::path encodings_path() const { return folder_ / "encodings.json"; }
  // A layer's tuned weights, and the activations after the last layer that has them.
  static std::filesystem::path tuned_path(const std::filesystem::path& folder, int64_t layer);
  std::filesystem::path tuned_path(int64_t layer) const { return tuned_path(folder_, layer); }
  std::filesystem::path tuning_state_path() const { return folder_ / "tuning.state"; }
  // A shard worker's job, result and log.
  static std::filesystem::path shard_job_path(const std::filesystem::path& folder, size_t task,
                                              std::string_view suffix);

  // A segment's record if this run or an earlier one finished it from these bytes.
  const FinishedSegment* find(const std::string& name, uint64_t source) const;
  // Records a segment whose file is complete.
  Status add(const std::string& name, const FinishedSegment& segment);
  // The disk space of the finished segments.
  uint64_t finished_bytes() const;
  // After an error: if it comes_again(), the work is useless and is removed; otherwise it stays. Returns the error.
  Error give_up(Error error);
  // Removes all of it: the output exists, or never will. Other people's files stay.
  void remove();

 private:
  WorkFolder() = default;
  Status enter();
  Status acquire_lock(bool is_new);
  Status open_lock(const std::filesystem::path& path, bool is_new);
  Status sign_lock();
  void read_manifest();
  // False if something could not be removed.
  bool remove_leftovers();

  std::filesystem::path output_;
  std::filesystem::path folder_;
  std::string key_;
  std::map<std::string, FinishedSegment> finished_;
  int lock_ = -1;
};

}  // namespace tandem
