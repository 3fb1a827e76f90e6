// Where the QNN libraries may be: a path that the user gives, an environment variable, a local folder, the folders
// where Python keeps packages. Only paths are searched; no program is started.
#pragma once

#include <string>
#include <vector>

#include "tandem/status.h"

namespace tandem::qnn {

inline constexpr const char* kLibrariesVariable = "TANDEM_QNN_LIBS";
inline constexpr const char* kHowToGet = "`make qnn` or `pip install onnxruntime-qnn` installs them";

struct SearchOptions {
  // A folder that has libQnnHtp.so, or that file. Nothing else is tried when it is given.
  std::string path;
  // Where the package's files may lie, in this order; relative to the working directory.
  std::vector<std::string> folders = {"build/qnn"};
  // Whether to look where Python's packages are, when all else has failed: in PYTHONPATH, in the virtual environment,
  // beside each python3 in PATH, in the user's own folder.
  bool python_packages = true;
};

struct LibraryPaths {
  std::string htp;     // libQnnHtp.so
  std::string system;  // libQnnSystem.so beside it; "" if it is not there.
  std::string found_by;
};

Result<LibraryPaths> find_libraries(const SearchOptions& options = {});

}  // namespace tandem::qnn
