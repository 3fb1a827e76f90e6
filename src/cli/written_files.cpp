#include "cli/written_files.h"

#include "cli/commands.h"

namespace tandem {
namespace {

bool same_place(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  const auto place = [&](const std::filesystem::path& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored);
  };
  return !a.empty() && !b.empty() && place(a) == place(b);
}

void refuse_if_same(const NamedPath& written, const NamedPath& other) {
  if (!same_place(written.path, other.path)) return;
  refuse(fmt::format("{} and {} both name {}; give them different files", written.option, other.option,
                     written.path.string()));
}

}  // namespace

void refuse_same_files(std::initializer_list<NamedPath> written, std::initializer_list<NamedPath> read) {
  for (const NamedPath& file : written) {
    for (const NamedPath* other = &file + 1; other != written.end(); ++other) refuse_if_same(file, *other);
    for (const NamedPath& other : read) refuse_if_same(file, other);
  }
}

}  // namespace tandem
