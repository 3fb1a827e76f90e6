# tandem_room(NAME DIR [DEPENDS ...]) makes the static library tandem_NAME from the .cpp files of src/DIR (not of its
# sub-folders). Each folder of src/ is a room; what it may use is in DEPENDS and nowhere else (docs/architecture.md).
add_library(tandem_options INTERFACE)
target_compile_options(tandem_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                       -Wnon-virtual-dtor -Woverloaded-virtual)
if(TANDEM_WERROR)
  target_compile_options(tandem_options INTERFACE -Werror)
endif()
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  # ARM always has fused multiply-adds, and compilers put them where x86-64 rounds twice: the same checkpoint would give
  # other scales and codes there than here.
  target_compile_options(tandem_options INTERFACE -ffp-contract=off)
endif()
target_include_directories(tandem_options INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
if(TANDEM_SANITIZE)
  target_compile_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(tandem_options INTERFACE -fsanitize=${TANDEM_SANITIZE})
endif()

function(tandem_room NAME DIR)
  cmake_parse_arguments(ROOM "" "" "DEPENDS" ${ARGN})
  file(GLOB ROOM_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${DIR}/*.cpp)
  if(NOT ROOM_SOURCES)
    add_library(tandem_${NAME} INTERFACE)
    target_link_libraries(tandem_${NAME} INTERFACE tandem_options ${ROOM_DEPENDS})
    return()
  endif()
  add_library(tandem_${NAME} STATIC ${ROOM_SOURCES})
  target_link_libraries(tandem_${NAME} PUBLIC tandem_options ${ROOM_DEPENDS})
endfunction()

# tandem_test(NAME DIR DEPENDS ...) makes the test program test_NAME from tests/DIR/*.cpp.
function(tandem_test NAME DIR)
  cmake_parse_arguments(TEST "" "" "DEPENDS" ${ARGN})
  file(GLOB TEST_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${DIR}/*.cpp)
  if(NOT TEST_SOURCES)
    return()
  endif()
  add_executable(test_${NAME} ${TEST_SOURCES})
  target_link_libraries(test_${NAME} PRIVATE ${TEST_DEPENDS} GTest::gtest_main)
  target_include_directories(test_${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(test_${NAME} PRIVATE TANDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  # What is tested is optimized; the tests themselves only have to be compiled quickly, but for those that compute much.
  if(NOT TANDEM_SANITIZE)
    target_compile_options(test_${NAME} PRIVATE -O1)
  elseif(NOT NAME MATCHES "^(base|text|quant|artifact|cpu_kernels|runtime)$")
    target_compile_options(test_${NAME} PRIVATE -O0)
  endif()
  add_test(NAME ${NAME} COMMAND test_${NAME})
endfunction()
