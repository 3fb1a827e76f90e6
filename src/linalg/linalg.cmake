# Dense matrices (linalg). As in the CPU back end's kernels.cmake, only the files of an instruction set get its flags, and
# they define nothing that another file could define too.
tandem_module(linalg DIRS linalg DEPENDS tandem_base)
set(LINALG_DIR ${PROJECT_SOURCE_DIR}/src/linalg)
# Sums of products are fused multiply-adds where the instruction set has them: the bits are then the same on all of those.
set(LINALG_TILES ${LINALG_DIR}/tile_kernels_portable.cpp ${LINALG_DIR}/tile_kernels_avx2.cpp
    ${LINALG_DIR}/tile_kernels_avx512.cpp)
set_source_files_properties(${LINALG_TILES} PROPERTIES COMPILE_OPTIONS -ffp-contract=fast SKIP_UNITY_BUILD_INCLUSION ON)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  target_compile_definitions(tandem_linalg PRIVATE TANDEM_LINALG_X86)
  set_source_files_properties(${LINALG_DIR}/tile_kernels_avx2.cpp PROPERTIES COMPILE_OPTIONS
                              "-ffp-contract=fast;-mavx2;-mfma")
  set_source_files_properties(${LINALG_DIR}/tile_kernels_avx512.cpp PROPERTIES COMPILE_OPTIONS
                              "-ffp-contract=fast;-mavx512f;-mavx2;-mfma;-mprefer-vector-width=512")
endif()
