include(backends/cpu/kernels/kernels.cmake)
tandem_module(cpu_execute DIRS backends/cpu/execute DEPENDS tandem_artifact tandem_backend_interface tandem_cpu_kernels
              tandem_weight_layout)
tandem_module(cpu_compile DIRS backends/cpu/compile DEPENDS tandem_compiler)
