# What `cmake --install` installs: libraries, public headers, files for CMake and pkg-config to find them, programs.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tandem_shared tandem_static tandem_compiler_shared EXPORT tandemTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tandem RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET tandem-qnn-worker)  # Only with the back end that needs it.
  install(TARGETS tandem-qnn-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/tandem DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN *.h)

set(TANDEM_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/tandem)
install(EXPORT tandemTargets NAMESPACE tandem:: DESTINATION ${TANDEM_CMAKE_DIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tandemConfig.cmake.in
                              ${PROJECT_BINARY_DIR}/package/tandemConfig.cmake INSTALL_DESTINATION ${TANDEM_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/tandemConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/tandemConfig.cmake ${PROJECT_BINARY_DIR}/package/tandemConfigVersion.cmake
        DESTINATION ${TANDEM_CMAKE_DIR})

# Relative to the .pc file, because `cmake --install --prefix` may choose any prefix.
file(RELATIVE_PATH TANDEM_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
foreach(NAME tandem tandem-compiler)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${NAME}.pc.in ${PROJECT_BINARY_DIR}/package/${NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/package/${NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
