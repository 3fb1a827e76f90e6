# What we link, and where it comes from: docs/dependencies.md says why each one is here.
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
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
# Compiled from its header, so that an app has to bring no library for it.
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
add_library(xxhash_header INTERFACE IMPORTED)
target_include_directories(xxhash_header SYSTEM INTERFACE ${XXHASH_INCLUDE})
target_compile_definitions(xxhash_header INTERFACE XXH_INLINE_ALL)
find_package(CLI11 REQUIRED)
