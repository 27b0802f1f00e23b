# SPDX-License-Identifier: Apache-2.0
# Library, headers, command, CMake package and pkg-config file. tests/install builds users of the result.
include(CMakePackageConfigHelpers)

set(cmake_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/megaconv)
install(TARGETS megaconv EXPORT megaconvTargets)
if(TARGET megaconv_c)
  install(TARGETS megaconv_c EXPORT megaconvTargets)
endif()
install(DIRECTORY include/megaconv TYPE INCLUDE)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT megaconvTargets NAMESPACE megaconv:: DESTINATION ${cmake_package_dir})

# What a user of the static library links as well.
set(pc_private_libs "-lstdc++ -lm -pthread")
set(static_with_sqlite FALSE)
if(SQLite3_FOUND AND NOT BUILD_SHARED_LIBS)
  set(static_with_sqlite TRUE)
  string(PREPEND pc_private_libs "-lsqlite3 ")
endif()
set(static_with_protobuf FALSE)
if(MEGACONV_HAVE_PROTOBUF AND NOT BUILD_SHARED_LIBS)
  set(static_with_protobuf TRUE)
  string(PREPEND pc_private_libs "-lprotobuf-lite ")
endif()
set(static_with_cuda FALSE)
if(MEGACONV_HAVE_CUDA AND NOT BUILD_SHARED_LIBS)
  set(static_with_cuda TRUE)
  string(PREPEND pc_private_libs "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt ")
endif()

configure_package_config_file(cmake/megaconvConfig.cmake.in megaconvConfig.cmake
                              INSTALL_DESTINATION ${cmake_package_dir})
write_basic_package_version_file(megaconvConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/megaconvConfig.cmake
              ${PROJECT_BINARY_DIR}/megaconvConfigVersion.cmake
        DESTINATION ${cmake_package_dir})

# The prefix is relative to the file itself, so that an installed tree can be moved.
file(RELATIVE_PATH prefix_from_pc ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" prefix_from_pc ${prefix_from_pc})
configure_file(cmake/megaconv.pc.in megaconv.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/megaconv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
