# The C interface, used by a C program. C is enabled for it alone: nothing else of tandem is in C.
if(NOT CMAKE_C_COMPILER)
  # The one that belongs to the C++ compiler: sanitizers and cross compilers must be the same.
  get_filename_component(C_API_FOLDER ${CMAKE_CXX_COMPILER} DIRECTORY)
  get_filename_component(C_API_NAME ${CMAKE_CXX_COMPILER} NAME)
  string(REPLACE "clang++" "clang" C_API_NAME ${C_API_NAME})
  string(REPLACE "g++" "gcc" C_API_NAME ${C_API_NAME})
  string(REPLACE "c++" "cc" C_API_NAME ${C_API_NAME})
  if(EXISTS ${C_API_FOLDER}/${C_API_NAME})
    set(CMAKE_C_COMPILER ${C_API_FOLDER}/${C_API_NAME})
  endif()
endif()
enable_language(C)

file(GLOB C_API_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.c)
add_executable(test_c_api ${C_API_SOURCES})
set_target_properties(test_c_api PROPERTIES C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF LINKER_LANGUAGE CXX)
target_compile_definitions(test_c_api PRIVATE _POSIX_C_SOURCE=200809L TANDEM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_compile_options(test_c_api PRIVATE -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow -Werror)
target_include_directories(test_c_api PRIVATE ${PROJECT_SOURCE_DIR}/include)
if(TARGET tandem_shared)
  target_link_libraries(test_c_api PRIVATE tandem_shared Threads::Threads m)
else()
  target_link_libraries(test_c_api PRIVATE tandem_c_api Threads::Threads m)  # With a sanitizer's flags, if there is one.
endif()
add_test(NAME c_api COMMAND test_c_api ${PROJECT_SOURCE_DIR}/tests/data/artifact/v1.tdm)

# From C++: what callbacks throw.
tandem_test(c_api_exceptions DIRS c_api DEPENDS tandem_c_api)

# From a language that knows only the library's symbols.
if(Python3_FOUND AND TARGET tandem AND TARGET tandem_shared)
  add_test(NAME c_api_ctypes COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_ctypes.py
                                     $<TARGET_FILE:tandem_shared> $<TARGET_FILE:tandem> -v)
elseif(TARGET tandem_shared)
  add_test(NAME c_api_ctypes COMMAND ${CMAKE_COMMAND} -E echo "not tested, because there is no python3")
  set_tests_properties(c_api_ctypes PROPERTIES SKIP_REGULAR_EXPRESSION "not tested, because")
endif()
