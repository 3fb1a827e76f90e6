# The CPU kernels: one library with every instruction set that the target CPU family may have; dispatch.cpp picks one at
# run time. Only files named *_<isa>.cpp get that instruction set's flags. They must define nothing with external
# linkage that another file could define too (no inline functions of shared headers, no std templates): the linker keeps
# one copy of those, and if it keeps the AVX-512 one, older CPUs crash.
set(KERNELS_DIR ${PROJECT_SOURCE_DIR}/src/backends/cpu/kernels)
add_library(tandem_cpu_kernels STATIC
            ${KERNELS_DIR}/dispatch.cpp
            ${KERNELS_DIR}/linear_int_portable.cpp
            ${KERNELS_DIR}/table_portable.cpp)
target_link_libraries(tandem_cpu_kernels PUBLIC tandem_options tandem_ir tandem_weight_layout)
# No contraction of a*b+c: variants of a kernel must round alike, and fused multiply-adds are written where wanted.
target_compile_options(tandem_cpu_kernels PRIVATE -ffp-contract=off -fno-math-errno)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
  set(KERNELS_AVX2
      ${KERNELS_DIR}/linear_i8_avx2.cpp
      ${KERNELS_DIR}/linear_lpbq4_avx2.cpp
      ${KERNELS_DIR}/table_avx2.cpp)
  set(KERNELS_AVX512VNNI
      ${KERNELS_DIR}/linear_int_avx512vnni.cpp
      ${KERNELS_DIR}/table_avx512vnni.cpp)
  set(KERNELS_AVXVNNI ${KERNELS_DIR}/linear_int_avxvnni.cpp)
  set(KERNELS_AMX ${KERNELS_DIR}/int_attention_amx.cpp ${KERNELS_DIR}/linear_int_amx.cpp)
  target_sources(tandem_cpu_kernels PRIVATE ${KERNELS_AVX2} ${KERNELS_AVXVNNI} ${KERNELS_AVX512VNNI}
                 ${KERNELS_AMX})
  set_source_files_properties(${KERNELS_AVX2} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(${KERNELS_AVXVNNI} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c;-mavxvnni")
  set(AVX512VNNI_OPTIONS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mbmi2 -mfma -mf16c
      -mprefer-vector-width=512)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 warns about its own _mm512_undefined_*() (GCC bug 105593).
    list(APPEND AVX512VNNI_OPTIONS -Wno-uninitialized -Wno-maybe-uninitialized)
  endif()
  set_source_files_properties(${KERNELS_AVX512VNNI} PROPERTIES COMPILE_OPTIONS "${AVX512VNNI_OPTIONS}")
  set_source_files_properties(${KERNELS_AMX} PROPERTIES COMPILE_OPTIONS "${AVX512VNNI_OPTIONS};-mamx-tile;-mamx-int8")
  target_compile_definitions(tandem_cpu_kernels PRIVATE TANDEM_KERNELS_X86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  # Every 64-bit ARM CPU has what *_neon.cpp use.
  target_sources(tandem_cpu_kernels PRIVATE ${KERNELS_DIR}/linear_int_neon.cpp ${KERNELS_DIR}/linear_int_dotprod.cpp
                                            ${KERNELS_DIR}/linear_int_i8mm.cpp ${KERNELS_DIR}/table_neon.cpp)
  set_source_files_properties(${KERNELS_DIR}/linear_int_dotprod.cpp PROPERTIES COMPILE_OPTIONS
                              "-march=armv8.2-a+dotprod")
  set_source_files_properties(${KERNELS_DIR}/linear_int_i8mm.cpp PROPERTIES COMPILE_OPTIONS
                              "-march=armv8.2-a+dotprod+i8mm")
  target_compile_definitions(tandem_cpu_kernels PRIVATE TANDEM_KERNELS_ARM)
endif()
