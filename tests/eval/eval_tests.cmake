# Measurements: the phases of a model side by side. One test compiles with Qualcomm's library and runs on its emulator.
tandem_test(eval DIRS eval DEPENDS tandem_eval tandem_compiler)
target_compile_definitions(test_eval PRIVATE TANDEM_WORKER="$<TARGET_FILE:tandem-qnn-worker>")
add_dependencies(test_eval tandem-qnn-worker)
set_tests_properties(eval PROPERTIES RESOURCE_LOCK qnn)
