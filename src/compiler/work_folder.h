// Where a compile keeps its finished segments until the file can be put together: FILE.work/. An interrupted compile
// leaves it behind, and the next one with the same checkpoint and options goes on from there.
//
// The folder is known as ours by the text of the lock in it, and by having nothing else in it than files with names
// that a compile gives. In a folder of another kind nothing is written, and never is anything removed that a compile
// did not make.
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
  std::string note = {};  // Whatever its maker wants to know of it later.
};

// Whether the same command would meet an error of this kind again: a weight that is not a number, a shape that nothing
// can do. A stop, a full disk or a crash need not come again.
bool comes_again(ErrorCode code);

class WorkFolder {
 public:
  // Opens or creates the folder for `output`. Work that was done for another key (other checkpoint, other options) is
  // thrown away. Refused while another compile holds it, and where it is not ours: a link, somebody else's, a folder
  // with anything in it that a compile does not write.
  static Result<WorkFolder> open(const std::filesystem::path& output, const std::string& key);

  WorkFolder(WorkFolder&& other) noexcept;
  WorkFolder& operator=(WorkFolder&&) = delete;
  ~WorkFolder();

  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path segment_path(size_t index) const;
  std::filesystem::path encodings_path() const { return folder_ / "encodings.json"; }
  // What a worker of a shard gets, gives and says.
  static std::filesystem::path shard_job_path(const std::filesystem::path& folder, size_t task,
                                              std::string_view suffix);

  // What is known of a segment if it was finished, by this run or an earlier one, and made from these bytes.
  const FinishedSegment* find(const std::string& name, uint64_t source) const;
  // Records a segment whose file is complete.
  Status add(const std::string& name, const FinishedSegment& segment);
  // What the finished segments take of the disk.
  uint64_t finished_bytes() const;
  // After an error: where it comes_again(), nothing of the work can be of use and it is removed; else it stays. Gives
  // the error back.
  Error give_up(Error error);
  // Removes all of it: the output exists, or never will. What somebody else put there meanwhile stays.
  void remove();

 private:
  WorkFolder() = default;
  Status enter();
  Status take_lock(bool is_new);
  Status open_lock(const std::filesystem::path& path, bool is_new);
  Status sign_lock();
  void read_manifest();
  // False if something stays that should not.
  bool remove_leftovers();

  std::filesystem::path output_;
  std::filesystem::path folder_;
  std::string key_;
  std::map<std::string, FinishedSegment> finished_;
  int lock_ = -1;
};

}  // namespace tandem
