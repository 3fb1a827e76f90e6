#include "base/file_status.h"

#include <system_error>

#include "base/error.h"

namespace tandem {

Result<bool> regular_file_exists(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  // Only if the system did not answer: absence is an answer, and so are kinds that the library has no name for.
  if (status.type() == std::filesystem::file_type::none) {
    return io_error("{}: cannot be accessed ({})", path.string(), error.message());
  }
  return status.type() == std::filesystem::file_type::regular;
}

}  // namespace tandem
