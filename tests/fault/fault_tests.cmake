# System calls that fail, and power that does, by a library that is put before the C library's functions. A sanitizer puts
# its own there, and other systems have other ways.
if(NOT Python3_FOUND OR NOT TARGET tandem OR TANDEM_SANITIZE OR NOT CMAKE_SYSTEM_NAME STREQUAL Linux)
  return()
endif()

file(GLOB FAULT_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cpp)
add_library(tandem_fault_shim SHARED ${FAULT_SOURCES})
set_target_properties(tandem_fault_shim PROPERTIES CXX_VISIBILITY_PRESET default)
target_link_libraries(tandem_fault_shim PRIVATE tandem_options ${CMAKE_DL_LIBS})
target_compile_options(tandem_fault_shim PRIVATE -O1)  # As the tests: it only has to be compiled quickly.

set(FAULT_TESTS faults power_cut)
if(TANDEM_NPU_TESTS)
  list(APPEND FAULT_TESTS npu_faults)
endif()
foreach(TEST ${FAULT_TESTS})
  add_test(NAME ${TEST}
           COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/test_${TEST}.py $<TARGET_FILE:tandem>
                   ${PROJECT_BINARY_DIR}/tools/tandem-make-checkpoint $<TARGET_FILE:tandem_fault_shim> -v)
endforeach()
if(TANDEM_NPU_TESTS)
  set_tests_properties(npu_faults PROPERTIES RESOURCE_LOCK qnn LABELS npu)
endif()
