# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
# Defaults of a top-level build, each only where the user has named none.

set(CMAKE_CXX_EXTENSIONS OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
  # A toolkit's own package does not put nvcc on the PATH.
  find_program(capstone_nvcc nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda
               PATH_SUFFIXES bin NO_CACHE)
  if(NOT capstone_nvcc)
    message(FATAL_ERROR "nvcc was not found on the PATH, in CUDA_HOME or in /usr/local/cuda/bin. "
      "Install a CUDA toolkit, 12.8 or newer, or name its compiler: "
      "-DCMAKE_CUDA_COMPILER=/path/to/nvcc")
  endif()
  set(CMAKE_CUDA_COMPILER ${capstone_nvcc} CACHE FILEPATH "CUDA compiler")
endif()

if(NOT CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
  # Not `native`: that is an error on a machine without a GPU.
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE failed)
  if(NOT failed STREQUAL "0" OR NOT found MATCHES "^[0-9]+\\.[0-9]")
    set(found 9.0)
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" found "${found}")
  list(REMOVE_DUPLICATES found)
  string(REPLACE "." "" found "${found}")
  set(CMAKE_CUDA_ARCHITECTURES ${found} CACHE STRING "Compute capabilities to build for")
  message(STATUS "CUDA architectures: ${found} (the GPUs here, else 90)")
endif()
