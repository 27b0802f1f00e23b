# SPDX-License-Identifier: Apache-2.0
# Run by the build: writes OUTPUT with a digest of the sources that decide how fast a plan is, and of how they
# are compiled. Measurements of another build are not used (docs/tuning.md).
#   cmake -DSOURCE_DIR=... -DOUTPUT=... -DVERSION=... -DTOOLCHAIN=... -P BuildId.cmake
cmake_minimum_required(VERSION 3.25)
file(GLOB_RECURSE sources RELATIVE ${SOURCE_DIR} ${SOURCE_DIR}/include/* ${SOURCE_DIR}/mapping/*
     ${SOURCE_DIR}/tasks/* ${SOURCE_DIR}/runtime/*)
list(SORT sources)
set(digests "${TOOLCHAIN}")
foreach(source IN LISTS sources)
  if(source MATCHES "^runtime/tuning/|^include/megaconv/plan_database|reference|CMakeLists")
    continue()
  endif()
  file(SHA256 ${SOURCE_DIR}/${source} digest)
  string(APPEND digests "${source} ${digest}\n")
endforeach()
string(SHA256 build "${digests}")
string(SUBSTRING ${build} 0 12 build)
file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT [[
#include "megaconv/plan_database.hpp"
const char* megaconv::library_build() noexcept { return "@VERSION@-@build@"; }
]])
