#include "deploy/deploy_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/list_folder.h"

namespace tandem {
namespace {

constexpr uint64_t kManifestLimit = uint64_t{16} << 20;

enum class Kind { kNothing, kFile, kOther };

Result<Kind> kind_of(const std::filesystem::path& path) {
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return Kind::kNothing;
    return io_error("{}: cannot be accessed ({})", path.string(), std::strerror(errno));
  }
  return S_ISREG(info.st_mode) ? Kind::kFile : Kind::kOther;
}

class FolderDeployment {
 public:
  FolderDeployment(const DeployPlan& plan, const std::filesystem::path& folder, const DeployOptions& options)
      : plan_(plan), folder_(folder), options_(options) {}

  Result<DeployReport> run() {
    TANDEM_TRY(find_folder());
    if (exists_) {
      TANDEM_TRY(read_manifest());
      TANDEM_TRY(compare());
    } else {
      for (const PlannedFile& file : plan_.files) changed_.push_back(&file);
    }
    report_.manifest = plan_.manifest;
    report_.warnings = plan_.manifest.warnings;
    for (const PlannedFile* file : changed_) report_.written.push_back(file->entry.name);
    if (options_.dry_run) return std::move(report_);
    TANDEM_TRY(write());
    return std::move(report_);
  }

 private:
  Status find_folder() {
    if (folder_.empty()) return invalid_argument("the folder to deploy to has no name");
    struct stat info {};
    if (::stat(folder_.c_str(), &info) == 0) {
      exists_ = true;
      if (S_ISDIR(info.st_mode)) return ok_status();
      return invalid_argument("{} is a file; give a folder with `to`", folder_.string());
    }
    if (errno != ENOENT) return io_error("{}: cannot be accessed ({})", folder_.string(), std::strerror(errno));
    auto parent = parent_folder(folder_.has_filename() ? folder_ : folder_.parent_path());
    if (::stat(parent.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return ok_status();
    return not_found("there is no folder {} to make {} in", parent.string(), folder_.filename().string());
  }

  Status read_manifest() {
    const auto path = folder_ / kManifestName;
    TANDEM_ASSIGN(const Kind kind, kind_of(path));
    if (kind == Kind::kNothing) return ok_status();
    if (kind == Kind::kFile) {
      TANDEM_ASSIGN(old_text_, read_text_file(path, kManifestLimit));
      auto manifest = Manifest::parse(old_text_, path.string());
      if (manifest.ok()) {
        earlier_ = std::move(manifest).value();
        return ok_status();
      }
    }
    return invalid_argument("{} is not of an earlier deployment; give another folder with `to`", path.string());
  }

  // Whether the file is as an earlier deployment left it; its checksum is set.
  Result<bool> is_ours(const std::string& name, std::string& sha256) const {
    const auto path = folder_ / name;
    TANDEM_ASSIGN(const Kind kind, kind_of(path));
    const auto listed = earlier_.find(name);
    if (kind != Kind::kFile || listed.empty()) return false;
    TANDEM_ASSIGN(const FileContent content, FileContent::map(path));
    const auto has_size = [&](const ManifestFile* file) { return file->size == content.bytes().size(); };
    if (std::ranges::none_of(listed, has_size)) return false;
    TANDEM_ASSIGN(sha256, sha256_of(content, options_.stop));
    return std::ranges::any_of(listed, [&](const ManifestFile* file) { return file->sha256 == sha256; });
  }

  Status compare() {
    for (const PlannedFile& file : plan_.files) {
      const auto path = folder_ / file.entry.name;
      TANDEM_ASSIGN(const Kind kind, kind_of(path));
      std::string sha256;
      if (kind != Kind::kNothing) {
        TANDEM_ASSIGN(const bool ours, is_ours(file.entry.name, sha256));
        if (!ours) {
          return invalid_argument(
              "{} is there already and is not as an earlier deployment left it; move it away, or give another folder "
              "with `to`",
              path.string());
        }
      }
      if (sha256 == file.entry.sha256) {
        report_.unchanged.push_back(file.entry.name);
      } else {
        changed_.push_back(&file);
      }
    }
    for (const ManifestFile* file : files_left_over(earlier_, plan_)) {
      std::string sha256;
      TANDEM_ASSIGN(const bool ours, is_ours(file->name, sha256));
      const bool is_new = report_.removed.empty() || report_.removed.back() != file->name;
      if (ours && is_new) report_.removed.push_back(file->name);
    }
    return ok_status();
  }

  Status write() {
    if (!exists_ && ::mkdir(folder_.c_str(), 0777) != 0) {
      return io_error("{}: cannot be made ({})", folder_.string(), std::strerror(errno));
    }
    remove_temporaries();
    const std::string text = plan_.manifest.to_text();
    if (changed_.empty() && report_.removed.empty() && text == old_text_) return ok_status();
    if (!changed_.empty() || !report_.removed.empty()) {
      TANDEM_TRY(write_file_atomically(folder_ / kManifestName, manifest_in_progress(earlier_, plan_).to_text()));
    }
    for (size_t i = 0; i < changed_.size(); ++i) {
      if (options_.progress) options_.progress({"copying", i, changed_.size()});
      TANDEM_TRY(copy(*changed_[i]));
    }
    for (const std::string& name : report_.removed) {
      if (::unlink((folder_ / name).c_str()) != 0 && errno != ENOENT) {
        return io_error("{}: cannot be removed ({})", (folder_ / name).string(), std::strerror(errno));
      }
    }
    return write_file_atomically(folder_ / kManifestName, text);
  }

  Status copy(const PlannedFile& file) const {
    const auto path = folder_ / file.entry.name;
    TANDEM_ASSIGN(AtomicFile out, AtomicFile::create(path));
    TANDEM_TRY(file.content.in_chunks(options_.stop, [&](std::span<const uint8_t> chunk) { return out.write(chunk); }));
    TANDEM_TRY(out.commit());
    if (file.is_program && ::chmod(path.c_str(), 0755) != 0) {
      return io_error("{}: cannot be made executable ({})", path.string(), std::strerror(errno));
    }
    return ok_status();
  }

  // What a killed deployment left under temporary names.
  void remove_temporaries() const {
    const auto entries = list_folder(folder_);
    if (!entries.ok()) return;
    std::set<std::string> names = {kManifestName};
    for (const ManifestFile& file : earlier_.files) names.insert(file.name);
    for (const std::string& entry : *entries) {
      const auto is_temporary = [&](const std::string& name) { return is_temporary_name_of(entry, name); };
      if (!earlier_.files.empty() && std::ranges::any_of(names, is_temporary)) ::unlink((folder_ / entry).c_str());
    }
  }

  const DeployPlan& plan_;
  const std::filesystem::path& folder_;
  const DeployOptions& options_;
  bool exists_ = false;
  std::string old_text_;
  Manifest earlier_;
  std::vector<const PlannedFile*> changed_;
  DeployReport report_;
};

}  // namespace

std::vector<const ManifestFile*> files_left_over(const Manifest& earlier, const DeployPlan& plan) {
  std::vector<const ManifestFile*> left;
  for (const ManifestFile& file : earlier.files) {
    if (plan.manifest.find(file.name).empty()) left.push_back(&file);
  }
  std::ranges::sort(left, {}, &ManifestFile::name);
  return left;
}

Manifest manifest_in_progress(const Manifest& earlier, const DeployPlan& plan) {
  Manifest manifest = plan.manifest;
  manifest.complete = false;
  for (const ManifestFile& old : earlier.files) {
    const auto is_listed = [&](const ManifestFile& file) { return file.name == old.name && file.is_same_content(old); };
    if (std::ranges::none_of(manifest.files, is_listed)) manifest.files.push_back(old);
  }
  return manifest;
}

Result<DeployReport> deploy_to_folder(const DeployPlan& plan, const std::filesystem::path& folder,
                                      const DeployOptions& options) {
  return FolderDeployment(plan, folder, options).run();
}

}  // namespace tandem
