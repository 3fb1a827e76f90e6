# tandem_module(NAME DIRS ... [DEPENDS ...]) makes the static library tandem_NAME from the .cpp files of the folders
# src/DIR (not of their sub-folders). A module may use only what DEPENDS lists (docs/architecture.md).
add_library(tandem_options INTERFACE)
target_compile_options(tandem_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                       $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual>)
if(TANDEM_WERROR)
  target_compile_options(tandem_options INTERFACE -Werror)
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  # ARM always has fused multiply-adds, and compilers use them where x86-64 rounds twice: the same checkpoint would give
  # other scales and quantized values there than here.
  target_compile_options(tandem_options INTERFACE -ffp-contract=off)
endif()
target_include_directories(tandem_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
if(TANDEM_SANITIZE)
  target_compile_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
endif()

# Most of a small file's compile time is its headers: several files at a time take less than half.
function(tandem_compile_together TARGET COUNT)
  set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ${TANDEM_UNITY} UNITY_BUILD_BATCH_SIZE ${COUNT})
endfunction()

function(tandem_module NAME)
  cmake_parse_arguments(MODULE "" "" "DIRS;DEPENDS" ${ARGN})
  list(TRANSFORM MODULE_DIRS REPLACE "^(.+)$" "${PROJECT_SOURCE_DIR}/src/\\1/*.cpp")
  file(GLOB MODULE_SOURCES CONFIGURE_DEPENDS ${MODULE_DIRS})
  add_library(tandem_${NAME} STATIC ${MODULE_SOURCES})
  tandem_compile_together(tandem_${NAME} 8)
  target_link_libraries(tandem_${NAME} PUBLIC tandem_options ${MODULE_DEPENDS})
  if(NOT TANDEM_SANITIZE)
    # A library drops code that no export reaches (src/library): a module has more than one half needs.
    target_compile_options(tandem_${NAME} PRIVATE -ffunction-sections -fdata-sections)
  endif()
endfunction()

# tandem_test(NAME DIRS ... DEPENDS ...) makes the test program test_NAME from the .cpp files of the folders tests/DIR.
function(tandem_test NAME)
  cmake_parse_arguments(TEST "" "" "DIRS;DEPENDS" ${ARGN})
  list(TRANSFORM TEST_DIRS REPLACE "^(.+)$" "${PROJECT_SOURCE_DIR}/tests/\\1/*.cpp")
  file(GLOB TEST_SOURCES CONFIGURE_DEPENDS ${TEST_DIRS})
  if(NOT TEST_SOURCES)
    return()
  endif()
  add_executable(test_${NAME} ${TEST_SOURCES})
  # Each file uses a namespace named after it instead of an anonymous one, so that helpers may have the same names.
  tandem_compile_together(test_${NAME} 4)
  target_link_libraries(test_${NAME} PRIVATE ${TEST_DEPENDS} GTest::gtest_main)
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${NAME} PRIVATE TANDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # The tested code is optimized; the tests themselves only need to compile quickly, except those that compute a lot.
  if(NOT TANDEM_SANITIZE)
    target_compile_options(test_${NAME} PRIVATE -O1)
  elseif(NOT NAME MATCHES "^(base|tokenizer|quant|artifact|cpu_kernels|runtime)$")
    target_compile_options(test_${NAME} PRIVATE -O0)
  endif()
  add_test(NAME ${NAME} COMMAND test_${NAME})
endfunction()
