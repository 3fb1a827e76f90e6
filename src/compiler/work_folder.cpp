#include "compiler/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/list_folder.h"
#include "base/mapped_file.h"
#include "base/output_path.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kManifestLimit = 64 << 20;
constexpr const char* kLockName = "tandem-work.lock";
constexpr std::string_view kLockText =
    "What `tandem compile` has finished. The same command goes on from here; delete the folder to start anew.\n";
constexpr std::array<std::string_view, 3> kShardSuffixes = {".job.json", ".result.json", ".log"};

uint64_t count_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

double number_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : 0.0;
}

bool is_digits(std::string_view text, size_t least) {
  return text.size() >= least && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_finished_name(std::string_view name) {
  constexpr std::string_view kSegment = ".segment", kShard = "shard", kTuned = ".tuned";
  if (name == kLockName || name == "manifest.json" || name == "encodings.json" || name == "tuning.state") {
    return true;
  }
  if (name.ends_with(kSegment)) return is_digits(name.substr(0, name.size() - kSegment.size()), 5);
  if (name.ends_with(kTuned)) return is_digits(name.substr(0, name.size() - kTuned.size()), 5);
  if (!name.starts_with(kShard)) return false;
  return std::ranges::any_of(kShardSuffixes, [&](std::string_view suffix) {
    return name.ends_with(suffix) &&
           is_digits(name.substr(kShard.size(), name.size() - std::min(name.size(), kShard.size() + suffix.size())), 3);
  });
}

// A temporary file for one of those, or for the output itself, which is assembled here too.
bool is_temporary_name(std::string_view name, std::string_view output) {
  const std::string_view finished = name.substr(0, name.size() - std::min(name.size(), kTemporarySuffixBytes));
  return is_temporary_name_of(name, output) || (is_finished_name(finished) && is_temporary_name_of(name, finished));
}

Error not_ours(const fs::path& path, std::string_view why) {
  return invalid_argument("{} {}, and the compile needs this folder for itself; move it away or choose another output",
                          path.string(), why);
}

struct Entries {
  std::vector<fs::path> ours;
  std::optional<fs::path> foreign;  // The first file that no compile makes.
};

Result<Entries> list(const fs::path& folder, const fs::path& output) {
  Entries entries;
  TANDEM_ASSIGN(const std::vector<std::string> names, list_folder(folder));
  for (const std::string& name : names) {
    const fs::path path = folder / name;
    struct stat info {};
    if (::lstat(path.c_str(), &info) != 0) {
      if (errno == ENOENT) continue;  // Just removed.
      return io_error("{}: cannot be looked at ({})", path.string(), std::strerror(errno));
    }
    if (S_ISREG(info.st_mode) && (is_finished_name(name) || is_temporary_name(name, output.filename().string()))) {
      entries.ours.push_back(path);
    } else if (!entries.foreign) {
      entries.foreign = path;
    }
  }
  return entries;
}

// Whether a lock is ours: it holds our text, or the part of it that a power cut left, in an otherwise empty folder.
bool is_our_lock(const fs::path& path, bool is_alone) {
  if (file_starts_with(path, kLockText)) return true;
  const auto text = read_text_file(path, kLockText.size());
  if (!is_alone || !text.ok()) return false;
  for (size_t i = 0; i < text->size(); ++i) {
    if ((*text)[i] != '\0' && (*text)[i] != kLockText[i]) return false;
  }
  return true;
}

// In a folder that others may write to, another user could have planted files.
Status check_owner(const fs::path& folder, const struct stat& info) {
  struct stat parent {};
  const bool is_shared =
      ::stat(parent_folder(folder).c_str(), &parent) == 0 && (parent.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  if (is_shared && info.st_uid != ::geteuid()) return not_ours(folder, "belongs to another user");
  return ok_status();
}

}  // namespace

bool comes_again(ErrorCode code) {
  return code == ErrorCode::kCorrupt || code == ErrorCode::kInvalidArgument || code == ErrorCode::kUnsupported;
}

fs::path WorkFolder::path_for(const fs::path& output, const std::string& part) {
  fs::path folder = output;
  folder += part.empty() ? ".work" : "." + part + ".work";
  return folder;
}

Result<WorkFolder> WorkFolder::open(const fs::path& output, const std::string& key, const std::string& part) {
  WorkFolder work;
  work.output_ = output;
  work.folder_ = path_for(output, part);
  work.key_ = key;
  TANDEM_TRY(work.enter());
  work.read_manifest();
  work.remove_leftovers();
  return work;
}

// Creates the folder or finds it to be ours, and locks it.
Status WorkFolder::enter() {
  constexpr int kTries = 8;
  for (int i = 0; i < kTries && lock_ < 0; ++i) {
    const bool is_new = ::mkdir(folder_.c_str(), 0700) == 0;
    if (!is_new && errno != EEXIST) {
      return io_error("{}: cannot be created ({})", folder_.string(), std::strerror(errno));
    }
    struct stat info {};
    if (::lstat(folder_.c_str(), &info) != 0) continue;  // Another compile has just finished there.
    if (!S_ISDIR(info.st_mode)) return not_ours(folder_, S_ISLNK(info.st_mode) ? "is a link" : "is not a folder");
    if (!is_new) {
      TANDEM_TRY(check_owner(folder_, info));
      TANDEM_ASSIGN(const Entries entries, list(folder_, output_));
      if (entries.foreign) return not_ours(*entries.foreign, "was not made by a compile");
      const fs::path lock = folder_ / kLockName;
      const bool has_lock = std::ranges::find(entries.ours, lock) != entries.ours.end();
      // A power cut just after its creation leaves an empty one.
      const bool is_ours = has_lock ? is_our_lock(lock, entries.ours.size() == 1) : entries.ours.empty();
      if (!is_ours) return not_ours(folder_, "was made by somebody else, or by another version of tandem");
    }
    if (Status status = acquire_lock(is_new); !status.ok()) {
      if (is_new) ::rmdir(folder_.c_str());
      return status;
    }
  }
  if (lock_ >= 0) return ok_status();
  return io_error("another compile is writing {}; wait for it or choose another output", output_.string());
}

// Leaves lock_ at -1 if the folder was removed meanwhile.
Status WorkFolder::acquire_lock(bool is_new) {
  const fs::path path = folder_ / kLockName;
  Status status = open_lock(path, is_new);
  if (status.ok() && lock_ >= 0) status = sign_lock();
  if (status.ok()) return status;
  if (lock_ >= 0) {
    if (is_new) ::unlink(path.c_str());
    ::close(std::exchange(lock_, -1));
  }
  return status;
}

// The text that marks the folder as ours is on the disk before anything else is in the folder.
Status WorkFolder::sign_lock() {
  struct stat info {};
  if (::fstat(lock_, &info) != 0) {
    return io_error("{}: cannot be looked at ({})", (folder_ / kLockName).string(), std::strerror(errno));
  }
  if (info.st_nlink > 1) return not_ours(folder_ / kLockName, "has a second name");
  std::string text(kLockText.size(), '\0');
  const bool is_signed =
      ::pread(lock_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) && text == kLockText;
  if (is_signed) return ok_status();
  const bool is_written =
      ::pwrite(lock_, kLockText.data(), kLockText.size(), 0) == static_cast<ssize_t>(kLockText.size());
  if (!is_written || ::fsync(lock_) != 0) {
    return io_error("{}: cannot be written ({})", (folder_ / kLockName).string(), std::strerror(errno));
  }
  return sync_folder(folder_);
}

Status WorkFolder::open_lock(const fs::path& path, bool is_new) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (fd < 0) {
    if (errno == ENOENT && !is_new) return ok_status();
    return io_error("{}: cannot be locked ({})", folder_.string(), std::strerror(errno));
  }
  int locked = 0;
  while ((locked = ::flock(fd, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
  }
  struct stat info {};
  if (locked != 0) {
    const int error = errno;
    ::close(fd);  // Not ours: the folder must stay as it is.
    if (error == EWOULDBLOCK) {
      return io_error("another compile is writing {}; wait for it or choose another output", output_.string());
    }
    return io_error("{}: cannot be locked ({})", folder_.string(), std::strerror(error));
  }
  if (::fstat(fd, &info) != 0 || info.st_nlink == 0) {  // Its owner removed it before we had the lock.
    ::close(fd);
    return ok_status();
  }
  lock_ = fd;
  return ok_status();
}

WorkFolder::WorkFolder(WorkFolder&& other) noexcept
    : output_(std::move(other.output_)),
      folder_(std::move(other.folder_)),
      key_(std::move(other.key_)),
      finished_(std::move(other.finished_)),
      lock_(std::exchange(other.lock_, -1)) {}

WorkFolder::~WorkFolder() {
  if (lock_ < 0) return;
  // A compile that finished nothing leaves nothing to resume.
  if (finished_.empty()) remove();
  if (lock_ >= 0) ::close(lock_);
}

// A manifest that is absent, broken or of another key means starting over: it can only save time.
void WorkFolder::read_manifest() {
  auto text = read_text_file(folder_ / "manifest.json", kManifestLimit);
  if (!text.ok()) return;
  auto json = parse_json(*text, "manifest.json");
  if (!json.ok() || !json->is_object() || !json->contains("key") || (*json)["key"] != key_) return;
  const auto segments = json->find("segments");
  if (segments == json->end() || !segments->is_object()) return;
  for (const auto& [name, item] : segments->items()) {
    if (!item.is_object()) continue;
    FinishedSegment segment;
    segment.size = count_of(item, "size");
    segment.hash = count_of(item, "hash");
    segment.source = count_of(item, "source");
    segment.report.count = static_cast<int64_t>(count_of(item, "count"));
    segment.report.signal = number_of(item, "signal");
    segment.report.noise = number_of(item, "noise");
    segment.report.max_error = number_of(item, "max_error");
    if (const auto note = item.find("note"); note != item.end() && note->is_string()) segment.note = *note;
    finished_[name] = segment;
  }
}

// Removes what an earlier compile left: everything if nothing can be resumed, otherwise its unfinished files.
bool WorkFolder::remove_leftovers() {
  const auto entries = list(folder_, output_);
  bool all = entries.ok() && !entries->foreign;
  if (!entries.ok()) return all;
  for (const fs::path& path : entries->ours) {
    const std::string name = path.filename().string();
    if (name == kLockName || (!finished_.empty() && is_finished_name(name))) continue;
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) all = false;
  }
  return all;
}

fs::path WorkFolder::tuned_path(const fs::path& folder, int64_t layer) {
  return folder / str_format("{:05}.tuned", layer);
}

fs::path WorkFolder::segment_path(size_t index) const { return folder_ / str_format("{:05}.segment", index); }

fs::path WorkFolder::shard_job_path(const fs::path& folder, size_t task, std::string_view suffix) {
  return folder / str_format("shard{:03}{}", task, suffix);
}

const FinishedSegment* WorkFolder::find(const std::string& name, uint64_t source) const {
  const auto it = finished_.find(name);
  return it == finished_.end() || it->second.source != source ? nullptr : &it->second;
}

Status WorkFolder::add(const std::string& name, const FinishedSegment& segment) {
  finished_[name] = segment;
  Json segments = Json::object();
  for (const auto& [key, s] : finished_) {
    segments[key] = {{"size", s.size},
                     {"hash", s.hash},
                     {"source", s.source},
                     {"count", s.report.count},
                     {"signal", s.report.signal},
                     {"noise", s.report.noise},
                     {"max_error", s.report.max_error},
                     {"note", s.note}};
  }
  return write_file_atomically(folder_ / "manifest.json", dump_json(Json{{"key", key_}, {"segments", segments}}));
}

uint64_t WorkFolder::finished_bytes() const {
  const auto entries = list(folder_, output_);
  uint64_t bytes = 0;
  if (!entries.ok()) return bytes;
  for (const fs::path& path : entries->ours) {
    struct stat info {};
    if (::lstat(path.c_str(), &info) == 0) bytes += static_cast<uint64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

Error WorkFolder::give_up(Error error) {
  if (comes_again(error.code)) remove();
  return error;
}

void WorkFolder::remove() {
  finished_.clear();
  // The lock marks the folder as ours, so it is removed last, on the disk too. Otherwise the next compile would find
  // files that it cannot recognize as ours.
  if (remove_leftovers() && sync_folder(folder_).ok()) {
    ::unlink((folder_ / kLockName).c_str());
    ::rmdir(folder_.c_str());
  }
  // Unlocked last: a waiting compile must not find the folder half removed.
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

}  // namespace tandem
