# The NPU half of the compiler: its passes and plans, and files that are compiled with Qualcomm's library and run on its
# emulator. Workers are separate processes.
tandem_test(compiler_npu DIRS backends/qnn/compile compiler/calibration
            DEPENDS tandem_compiler tandem_runtime tandem_eval)
target_compile_definitions(test_compiler_npu PRIVATE TANDEM_WORKER="$<TARGET_FILE:tandem-qnn-worker>")
add_dependencies(test_compiler_npu tandem-qnn-worker)
