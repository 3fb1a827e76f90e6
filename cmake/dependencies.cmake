# The libraries that we link, and where they come from: docs/dependencies.md gives the reason for each.
option(TANDEM_HOST_HEADERS "Compile for another processor with no packages of it but the C++ library" OFF)
if(TANDEM_HOST_HEADERS)
  include(${CMAKE_CURRENT_LIST_DIR}/host_headers.cmake)
  return()
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h REQUIRED)  # Header-only for what we use.
find_program(FLATC flatc REQUIRED)
if(TANDEM_TESTS)
  pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
endif()
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)  # Header-only, too: base/hash.cpp compiles it in.
add_library(xxhash_headers INTERFACE IMPORTED)
target_include_directories(xxhash_headers SYSTEM INTERFACE ${XXHASH_INCLUDE})
find_package(CLI11 REQUIRED)
