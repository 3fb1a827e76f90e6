// Options of back ends by name, as text: {"profile", "sustained"}. `tandem run --help` shows those of running a file.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace tandem {

using BackendOptions = std::map<std::string, std::string, std::less<>>;

}  // namespace tandem
