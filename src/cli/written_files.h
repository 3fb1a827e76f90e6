// Files that a command writes must not be those that it reads, nor each other.
#pragma once

#include <filesystem>
#include <initializer_list>
#include <string_view>

namespace tandem {

struct NamedPath {
  std::string_view option;     // "--report"
  std::filesystem::path path;  // Empty: not given.
};

// Ends the command, as refuse() does, if one of `written` is another one of them or one of `read`: a slip of the hand
// (--out model.tdm) must not cost a model.
void refuse_same_files(std::initializer_list<NamedPath> written, std::initializer_list<NamedPath> read);

}  // namespace tandem
