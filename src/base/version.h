#pragma once

#include <string_view>

namespace tandem {

// Kept equal to project(VERSION) in CMakeLists.txt by a test.
inline constexpr std::string_view kVersion = "0.1.0";

}  // namespace tandem
