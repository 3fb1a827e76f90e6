include(backends/qnn/api/qnn_api.cmake)
tandem_module(qnn_execute DIRS backends/qnn/execute DEPENDS tandem_qnn_api tandem_artifact tandem_backend_interface
              tandem_weight_layout)
tandem_module(qnn_lower DIRS backends/qnn/lower DEPENDS tandem_qnn_api tandem_ir)
tandem_module(qnn_compile DIRS backends/qnn/compile DEPENDS tandem_compiler tandem_qnn_lower)
add_subdirectory(backends/qnn/worker)
