#include "base/output_path.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"

namespace tandem {
namespace {

Status check_folder(const std::filesystem::path& path) {
  const std::filesystem::path folder = parent_folder(path);
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) {
    if (errno == ENOENT) {
      return invalid_argument("{}: the folder {} does not exist", path.string(), folder.string());
    }
    return io_error("{}: the folder {} cannot be used ({})", path.string(), folder.string(), std::strerror(errno));
  }
  if (!S_ISDIR(info.st_mode)) return invalid_argument("{}: {} is not a folder", path.string(), folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    return io_error("{}: the folder {} cannot be written to ({})", path.string(), folder.string(),
                    std::strerror(errno));
  }
  return ok_status();
}

std::string target_of(const std::filesystem::path& link) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(link, error);
  return error ? "somewhere" : target.string();
}

}  // namespace

Result<bool> is_same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  struct stat info[2] = {};
  const std::filesystem::path* const paths[2] = {&a, &b};
  for (int i = 0; i < 2; ++i) {
    if (::stat(paths[i]->c_str(), &info[i]) == 0) continue;
    // Where one cannot get in, one cannot write either. Other errors are no answer.
    if (errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP) return false;
    return io_error("{}: cannot be accessed ({})", paths[i]->string(), std::strerror(errno));
  }
  return info[0].st_dev == info[1].st_dev && info[0].st_ino == info[1].st_ino;
}

bool file_starts_with(const std::filesystem::path& path, std::string_view start) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // Reading a named pipe could block forever.
  std::ifstream stream(path, std::ios::binary);
  std::string bytes(start.size(), '\0');
  return stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size())) && bytes == start;
}

Status check_output_path(const std::filesystem::path& path, const OutputRules& rules) {
  const std::string name = path.string();
  if (path.empty()) return invalid_argument("the output has no name; give the name of a file to write");
  struct stat info {};
  if (!path.has_filename() || (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode))) {
    return invalid_argument("{} is a folder; give the name of a file to write", name);
  }
  for (const std::filesystem::path& input : rules.inputs) {
    TANDEM_ASSIGN(const bool is_input, is_same_file(path, input));
    if (!is_input) continue;
    return invalid_argument("{} is one of the files that are read ({}); choose another name for the output", name,
                            input.string());
  }
  TANDEM_TRY(check_folder(path));
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return ok_status();
    return io_error("{}: cannot be accessed ({})", name, std::strerror(errno));
  }
  if (S_ISLNK(info.st_mode)) {
    if (rules.force) return ok_status();
    return invalid_argument("{} is a symbolic link to {}; give that name, or remove the link{}", name, target_of(path),
                            rules.advice);
  }
  if (!S_ISREG(info.st_mode)) {
    return invalid_argument("{} is a device or a pipe; give the name of a file to write", name);
  }
  if (rules.force || info.st_size == 0 || (rules.may_replace && rules.may_replace(path))) return ok_status();
  return invalid_argument("{} is there already and is not {}; choose another name{}", name, rules.kind, rules.advice);
}

}  // namespace tandem
