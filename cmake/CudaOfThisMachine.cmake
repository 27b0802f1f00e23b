# SPDX-License-Identifier: Apache-2.0
# `pip install .` builds for the GPU that is there, and the CPU part alone where none is: the CUDA kernels take
# minutes to compile. MEGACONV_CUDA and MEGACONV_CUDA_ARCHITECTURES, where they are set, say otherwise.
execute_process(COMMAND nvidia-smi --id=0 --query-gpu=compute_cap --format=csv,noheader
                OUTPUT_VARIABLE capability ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(capability MATCHES "^[0-9]+\\.[0-9]+$" AND capability VERSION_GREATER_EQUAL 7.5)
  set(cuda_default AUTO)
  string(REPLACE "." "" architecture ${capability})
  set(MEGACONV_CUDA_ARCHITECTURES ${architecture}-real CACHE STRING "CUDA architectures")
else()
  set(cuda_default OFF)
endif()
set(MEGACONV_CUDA ${cuda_default} CACHE STRING "CUDA parts: AUTO (if a compiler is found), ON (required) or OFF")
