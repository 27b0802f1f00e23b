# SPDX-License-Identifier: Apache-2.0
# Finds a CUDA compiler that works with the host compiler. Without one the CPU parts are built all the
# same, unless MEGACONV_CUDA is ON.
#
# Sets MEGACONV_HAVE_CUDA; when it is true the CUDA language is enabled and CUDAToolkit is found. Compilers
# are tried in this order, and the first that is new enough and passes CMake's own test project is taken:
#   CMAKE_CUDA_COMPILER; CUDACXX or else nvcc on PATH; CUDA_HOME; /usr/local/cuda; /usr/lib/cuda;
#   /usr/local/cuda-* from the newest down
include(CheckCompilerFlag)
include(CheckLanguage)

set(MEGACONV_CUDA AUTO CACHE STRING "CUDA parts: AUTO (if a compiler is found), ON (required) or OFF")
set_property(CACHE MEGACONV_CUDA PROPERTY STRINGS AUTO ON OFF)
set(MEGACONV_CUDA_ARCHITECTURES "75-virtual;90-real" CACHE STRING
    "CUDA architectures. The default: machine code for Hopper, PTX that the driver compiles for others. \
90-real is Hopper alone, 86-real one older GPU alone, without the kernels of compute capability 9.0")
set(MEGACONV_CUDA_KERNELS ALL CACHE STRING
    "ALL, or the sets of kernels to compile (runtime/cuda/kernel_variants.hpp). Plans that need another are refused")
option(MEGACONV_CUDA_OPTIMIZE "Optimize kernels; without it they only show that they compile, in a third of the time" ON)
set(least_cuda_version 12.4)  # the first that takes g++ 13 (Ubuntu 24.04) as its host compiler

# Sets `result` to the release of a toolkit ("13.0.88"), or to nothing if `nvcc` does not run.
function(megaconv_nvcc_version nvcc result)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "V([0-9]+\\.[0-9]+\\.[0-9]+)" matched "${text}")
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

set(MEGACONV_HAVE_CUDA FALSE)
set(cuda_status "off: MEGACONV_CUDA=OFF")
if(MEGACONV_CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(candidates ${CMAKE_CUDA_COMPILER})
  else()
    find_program(nvcc_on_path NAMES $ENV{CUDACXX} nvcc NO_CACHE)
    file(GLOB versioned_nvcc /usr/local/cuda-*/bin/nvcc)
    list(SORT versioned_nvcc COMPARE NATURAL ORDER DESCENDING)
    set(candidates ${nvcc_on_path} $ENV{CUDA_HOME}/bin/nvcc /usr/local/cuda/bin/nvcc
                   /usr/lib/cuda/bin/nvcc ${versioned_nvcc})
  endif()
  if(NOT DEFINED ENV{CUDAHOSTCXX})
    set(ENV{CUDAHOSTCXX} ${CMAKE_CXX_COMPILER})
  endif()

  set(cuda_status "off: no nvcc on PATH, in CUDACXX, /usr/local/cuda or /usr/lib/cuda")
  foreach(nvcc IN LISTS candidates)
    if(NOT EXISTS ${nvcc} OR MEGACONV_HAVE_CUDA)
      continue()
    endif()
    megaconv_nvcc_version(${nvcc} cuda_version)
    if(cuda_version VERSION_LESS least_cuda_version)
      set(cuda_status "off: ${nvcc} is version '${cuda_version}', ${least_cuda_version} or newer is needed")
      continue()
    endif()
    if(NOT CMAKE_CUDA_COMPILER)
      unset(CMAKE_CUDA_COMPILER)  # NOTFOUND of the candidate before this one
      unset(CMAKE_CUDA_COMPILER CACHE)
      set(ENV{CUDACXX} ${nvcc})
      check_language(CUDA)
    endif()
    if(CMAKE_CUDA_COMPILER)
      set(MEGACONV_HAVE_CUDA TRUE)
      set(cuda_status "toolkit ${cuda_version}, ${nvcc}")
    else()
      set(cuda_status "off: ${nvcc} ${cuda_version} does not work with ${CMAKE_CXX_COMPILER} \
${CMAKE_CXX_COMPILER_VERSION} (CMakeFiles/CMakeError.log)")
    endif()
  endforeach()

  if(MEGACONV_HAVE_CUDA)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    if(NOT MEGACONV_CUDA_OPTIMIZE)
      check_compiler_flag(CUDA --Ofast-compile=max MEGACONV_NVCC_COMPILES_FAST)  # CUDA 12.9
      if(MEGACONV_NVCC_COMPILES_FAST)
        string(APPEND CMAKE_CUDA_FLAGS " --Ofast-compile=max")
      endif()
    endif()
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # nvcc has the flag, CMake 3.25 does not know it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    endif()
  elseif(NOT MEGACONV_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "MEGACONV_CUDA=${MEGACONV_CUDA} asks for CUDA, which is ${cuda_status}")
  endif()
endif()
add_feature_info("CUDA" MEGACONV_HAVE_CUDA "${cuda_status}")

if(MEGACONV_HAVE_CUDA AND MEGACONV_BUILD_TOOLS)
  list(APPEND CMAKE_MODULE_PATH ${CMAKE_CURRENT_LIST_DIR})
  find_package(CuDNN 9 QUIET)
  add_feature_info("cuDNN" CuDNN_FOUND
                   "peer of `megaconv bench --backend cuda --peer cudnn` (cuDNN 9; CuDNN_ROOT says where)")
endif()
