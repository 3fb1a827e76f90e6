# The tests of the QNN back end's run time, and two fake libraries: the phone's library for shared memory, and a
# libQnnHtp.so that records calls that the x86 one refuses (power, shared memory, context groups).
tandem_test(qnn_execute DIRS backends/qnn/execute DEPENDS tandem_qnn_execute)
set(QNN_EXECUTE_FAKES ${CMAKE_BINARY_DIR}/qnn_execute_fakes)
target_compile_definitions(test_qnn_execute PRIVATE TANDEM_QNN_EXECUTE_FAKES="${QNN_EXECUTE_FAKES}")
foreach(FAKE cdsprpc QnnHtp)
  add_library(fake_phone_${FAKE} MODULE ${PROJECT_SOURCE_DIR}/tests/backends/qnn/execute/fake/${FAKE}.cpp)
  target_include_directories(fake_phone_${FAKE} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include
                                                        ${PROJECT_SOURCE_DIR}/tests)
  set_target_properties(fake_phone_${FAKE} PROPERTIES PREFIX lib OUTPUT_NAME ${FAKE} CXX_VISIBILITY_PRESET default
                        LIBRARY_OUTPUT_DIRECTORY ${QNN_EXECUTE_FAKES})
  add_dependencies(test_qnn_execute fake_phone_${FAKE})
endforeach()
