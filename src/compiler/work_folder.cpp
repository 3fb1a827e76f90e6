#include "compiler/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mapped_file.h"

namespace tandem {
namespace {

constexpr uint64_t kManifestLimit = 64 << 20;

uint64_t count_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number_unsigned() ? it->get<uint64_t>() : 0;
}

double number_of(const Json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_number() ? it->get<double>() : 0.0;
}

}  // namespace

Result<WorkFolder> WorkFolder::open(const std::filesystem::path& output, const std::string& key) {
  WorkFolder work;
  work.folder_ = output;
  work.folder_ += ".work";
  work.key_ = key;
  std::error_code error;
  std::filesystem::create_directories(work.folder_, error);
  if (error) return io_error("{}: cannot be created ({})", work.folder_.string(), error.message());
  work.lock_ = ::open((work.folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (work.lock_ < 0) return io_error("{}: cannot be locked ({})", work.folder_.string(), std::strerror(errno));
  if (::flock(work.lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(std::exchange(work.lock_, -1));  // Not ours: the folder must stay as it is.
    return io_error("another compile is writing {}; wait for it or choose another output", output.string());
  }
  work.read_manifest();
  if (work.finished_.empty()) {
    // Nothing to go on from: leftovers of another compile only take space.
    for (const auto& entry : std::filesystem::directory_iterator(work.folder_, error)) {
      if (entry.path().filename() != "lock") std::filesystem::remove(entry.path(), error);
    }
  }
  return work;
}

WorkFolder::WorkFolder(WorkFolder&& other) noexcept
    : folder_(std::move(other.folder_)),
      key_(std::move(other.key_)),
      finished_(std::move(other.finished_)),
      lock_(std::exchange(other.lock_, -1)) {}

WorkFolder::~WorkFolder() {
  if (lock_ < 0) return;
  // A compile that finished nothing leaves nothing to go on from.
  if (finished_.empty()) remove();
  if (lock_ >= 0) ::close(lock_);
}

// A manifest that is absent, broken or of another key means starting anew: all it can save is time.
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
    segment.report.count = static_cast<int64_t>(count_of(item, "count"));
    segment.report.signal = number_of(item, "signal");
    segment.report.noise = number_of(item, "noise");
    segment.report.max_error = number_of(item, "max_error");
    if (const auto note = item.find("note"); note != item.end() && note->is_string()) segment.note = *note;
    finished_[name] = segment;
  }
}

std::filesystem::path WorkFolder::segment_path(size_t index) const {
  return folder_ / fmt::format("{:05}.segment", index);
}

const FinishedSegment* WorkFolder::find(const std::string& name) const {
  const auto it = finished_.find(name);
  return it == finished_.end() ? nullptr : &it->second;
}

Status WorkFolder::add(const std::string& name, const FinishedSegment& segment) {
  finished_[name] = segment;
  Json segments = Json::object();
  for (const auto& [key, s] : finished_) {
    segments[key] = {{"size", s.size},          {"hash", s.hash},
                     {"count", s.report.count}, {"signal", s.report.signal},
                     {"noise", s.report.noise}, {"max_error", s.report.max_error},
                     {"note", s.note}};
  }
  return write_file_atomically(folder_ / "manifest.json", dump_json(Json{{"key", key_}, {"segments", segments}}));
}

void WorkFolder::remove() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
  // Unlocked last: whoever waits for the lock must not find the folder half gone.
  if (lock_ >= 0) ::close(std::exchange(lock_, -1));
}

}  // namespace tandem
