# SPDX-License-Identifier: Apache-2.0
# What megaconv needs. Everything is found, nothing is downloaded; all that is missing is named at once,
# with the packages that hold it.

set(missing_packages)
macro(megaconv_require name package)
  find_package(${name} QUIET)
  if(NOT ${name}_FOUND)
    message(STATUS "${name} not found (package ${package})")
    list(APPEND missing_packages ${package})
  endif()
endmacro()

find_package(Threads REQUIRED)
megaconv_require(nlohmann_json nlohmann-json3-dev)  # mapping files; header-only
if(MEGACONV_BUILD_TOOLS)
  megaconv_require(CLI11 libcli11-dev)
  megaconv_require(spdlog libspdlog-dev)
endif()
if(MEGACONV_BUILD_TESTS)
  megaconv_require(Catch2 catch2)  # 2.13 or 3
endif()
if(missing_packages)
  list(JOIN missing_packages " " missing_packages)
  message(FATAL_ERROR "Something required is missing. On Debian and Ubuntu this installs it:\n"
          "  apt-get install ${missing_packages}\n"
          "Elsewhere, put its prefix into CMAKE_PREFIX_PATH.")
endif()

# Optional: without them a feature is off, and the summary at the end says so.
find_package(SQLite3 QUIET)
add_feature_info("SQLite" SQLite3_FOUND "plan database: `megaconv tune` and tuned plans (package libsqlite3-dev)")
find_package(Protobuf QUIET)
set(MEGACONV_HAVE_PROTOBUF FALSE)
if(TARGET protobuf::libprotobuf-lite AND TARGET protobuf::protoc)
  set(MEGACONV_HAVE_PROTOBUF TRUE)
endif()
add_feature_info("protobuf" MEGACONV_HAVE_PROTOBUF
                 "ONNX models (packages libprotobuf-dev protobuf-compiler)")
if(MEGACONV_BUILD_TOOLS)
  find_package(OpenCL QUIET)  # without it the package file of Debian's dnnl ends the configure step
  if(OpenCL_FOUND)
    find_package(dnnl CONFIG QUIET)
  endif()
  add_feature_info("oneDNN" dnnl_FOUND
                   "peer of `megaconv bench --peer onednn` (packages libdnnl-dev ocl-icd-opencl-dev)")
endif()
if(MEGACONV_BUILD_TESTS)
  find_path(MEGACONV_RELACY_INCLUDE_DIR relacy/relacy.hpp)
  mark_as_advanced(MEGACONV_RELACY_INCLUDE_DIR)
  add_feature_info("Relacy" MEGACONV_RELACY_INCLUDE_DIR
                   "model checks of the protocols between threads (package relacy-dev)")
endif()
