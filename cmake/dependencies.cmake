# SPDX-FileCopyrightText: The capstone authors
# SPDX-License-Identifier: Apache-2.0
# The libraries the tools and tests use, each behind one name of ours, so that it does not matter
# which version of a package names its target how. CMAKE_PREFIX_PATH may name folders that hold
# unpacked packages instead of installed ones.

function(capstone_missing what debian_package)
  message(FATAL_ERROR "${what} was not found: install the Debian or Ubuntu package "
    "${debian_package} (tools/install-deps does so), or name a folder that holds it in "
    "CMAKE_PREFIX_PATH.")
endfunction()

# A header-only library, found by its own package file or else by its header.
function(capstone_header_library target package package_target header debian_package)
  add_library(${target} INTERFACE)
  find_package(${package} CONFIG QUIET)
  if(TARGET ${package_target})
    target_link_libraries(${target} INTERFACE ${package_target})
    return()
  endif()
  find_path(${target}_include ${header})
  mark_as_advanced(${target}_include)
  if(NOT ${target}_include)
    capstone_missing("${package} (${header})" ${debian_package})
  endif()
  target_include_directories(${target} SYSTEM INTERFACE ${${target}_include})
endfunction()

capstone_header_library(capstone_cli CLI11 CLI11::CLI11 CLI/CLI.hpp libcli11-dev)
# The journal of a tuning run and the lines between the tuner and its workers.
capstone_header_library(capstone_json nlohmann_json nlohmann_json::nlohmann_json nlohmann/json.hpp
                        nlohmann-json3-dev)
if(CAPSTONE_BUILD_TESTS)
  capstone_header_library(capstone_doctest doctest doctest::doctest doctest/doctest.h doctest-dev)
endif()

add_library(capstone_yaml INTERFACE)
find_package(yaml-cpp CONFIG QUIET)
if(TARGET yaml-cpp::yaml-cpp)  # 0.8
  target_link_libraries(capstone_yaml INTERFACE yaml-cpp::yaml-cpp)
elseif(TARGET yaml-cpp)  # 0.7
  target_link_libraries(capstone_yaml INTERFACE yaml-cpp)
else()
  capstone_missing("yaml-cpp" libyaml-cpp-dev)
endif()

add_library(capstone_crypto INTERFACE)
find_package(OpenSSL COMPONENTS Crypto QUIET)
if(NOT TARGET OpenSSL::Crypto)
  capstone_missing("OpenSSL's libcrypto" libssl-dev)
endif()
target_link_libraries(capstone_crypto INTERFACE OpenSSL::Crypto)
# Debian keeps this one header in the architecture's folder, which only an installed package has on
# the compiler's path.
find_path(capstone_crypto_include openssl/configuration.h HINTS ${OPENSSL_INCLUDE_DIR})
mark_as_advanced(capstone_crypto_include)
if(capstone_crypto_include AND NOT capstone_crypto_include STREQUAL OPENSSL_INCLUDE_DIR)
  target_include_directories(capstone_crypto SYSTEM INTERFACE ${capstone_crypto_include})
endif()
