tandem_module(reference_execute DIRS backends/reference/execute DEPENDS tandem_artifact tandem_backend_interface
              tandem_reference tandem_weight_layout)
tandem_module(reference_compile DIRS backends/reference/compile DEPENDS tandem_compiler)
