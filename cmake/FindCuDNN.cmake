# SPDX-License-Identifier: Apache-2.0
# Finds cuDNN 9 or newer, a peer to measure against: in CuDNN_ROOT, in the CUDA toolkit, in the system, or in
# the Python package nvidia-cudnn-cu* (which has no libcudnn.so, only libcudnn.so.9).
#
# Defines CuDNN::cudnn, CuDNN_FOUND, CuDNN_VERSION.
find_program(CuDNN_PYTHON NAMES python3)
mark_as_advanced(CuDNN_PYTHON)
set(cudnn_of_python "")
if(CuDNN_PYTHON)
  execute_process(COMMAND ${CuDNN_PYTHON} -c "import nvidia.cudnn as c; print(list(c.__path__)[0])"
                  OUTPUT_VARIABLE cudnn_of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()

find_path(CuDNN_INCLUDE_DIR cudnn_version.h
          HINTS ${CUDAToolkit_INCLUDE_DIRS} PATHS ${cudnn_of_python} PATH_SUFFIXES include)
find_library(CuDNN_LIBRARY NAMES cudnn libcudnn.so.9 NAMES_PER_DIR
             HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT} PATHS ${cudnn_of_python}
             PATH_SUFFIXES lib lib64)
mark_as_advanced(CuDNN_INCLUDE_DIR CuDNN_LIBRARY)

if(CuDNN_INCLUDE_DIR)
  file(STRINGS ${CuDNN_INCLUDE_DIR}/cudnn_version.h lines REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX REPLACE "[^0-9;]" "" CuDNN_VERSION "${lines}")
  string(REPLACE ";" "." CuDNN_VERSION "${CuDNN_VERSION}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CuDNN REQUIRED_VARS CuDNN_LIBRARY CuDNN_INCLUDE_DIR
                                  VERSION_VAR CuDNN_VERSION)
if(CuDNN_FOUND AND NOT TARGET CuDNN::cudnn)
  add_library(CuDNN::cudnn UNKNOWN IMPORTED)
  set_target_properties(CuDNN::cudnn PROPERTIES IMPORTED_LOCATION ${CuDNN_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${CuDNN_INCLUDE_DIR})
endif()
