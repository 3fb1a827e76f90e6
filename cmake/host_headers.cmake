# Replaces dependencies.cmake when cross-compiling without the target's packages: the same CMake targets, from headers
# of this machine that are the same for every processor. xxHash can be compiled from its headers alone, and GoogleTest
# comes as source. PCRE2 and zlib cannot: code that needs them compiles, but does not link.
find_package(Threads REQUIRED)
find_program(FLATC flatc REQUIRED)

# Symbolic links to just these: a compiler that saw all of /usr/include would find this machine's C library there.
set(LINKED_HEADERS ${PROJECT_BINARY_DIR}/host_headers)
file(MAKE_DIRECTORY ${LINKED_HEADERS})
function(tandem_host_headers TARGET)
  cmake_parse_arguments(HOST "" "" "HEADERS" ${ARGN})
  foreach(HEADER IN LISTS HOST_HEADERS)
    find_path(HOST_FOLDER_OF_${HEADER} ${HEADER} REQUIRED NO_CMAKE_FIND_ROOT_PATH)
    file(CREATE_LINK ${HOST_FOLDER_OF_${HEADER}}/${HEADER} ${LINKED_HEADERS}/${HEADER} SYMBOLIC)
  endforeach()
  add_library(${TARGET} INTERFACE IMPORTED)
  target_include_directories(${TARGET} SYSTEM INTERFACE ${LINKED_HEADERS})
endfunction()

tandem_host_headers(nlohmann_json::nlohmann_json HEADERS nlohmann)
tandem_host_headers(xxhash_headers HEADERS xxhash.h flatbuffers)
tandem_host_headers(CLI11::CLI11 HEADERS CLI)
tandem_host_headers(PkgConfig::PCRE2 HEADERS pcre2.h)
tandem_host_headers(ZLIB::ZLIB HEADERS zlib.h zconf.h)

if(TANDEM_TESTS)
  find_path(GOOGLETEST googletest/src/gtest-all.cc PATHS /usr/src/googletest REQUIRED NO_CMAKE_FIND_ROOT_PATH)
  add_library(host_gtest STATIC EXCLUDE_FROM_ALL ${GOOGLETEST}/googletest/src/gtest-all.cc
              ${GOOGLETEST}/googletest/src/gtest_main.cc)
  target_include_directories(host_gtest PRIVATE ${GOOGLETEST}/googletest)
  target_include_directories(host_gtest SYSTEM PUBLIC ${GOOGLETEST}/googletest/include)
  target_link_libraries(host_gtest PUBLIC Threads::Threads)
  target_compile_options(host_gtest PRIVATE -O1)  # Takes a third of the time to compile.
  add_library(GTest::gtest_main ALIAS host_gtest)
endif()
