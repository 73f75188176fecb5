// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `autotune inspect`: what the compiler made of the frozen configs, without a GPU.
#pragma once

#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "core/records.hpp"
#include "core/spec.hpp"

namespace capstone::tools {

/// A kernel that a config names, for one architecture.
struct subject {
  std::string label, header, kernel_type;
  int cc = 0;
  bool aligned = false;  ///< rows and config allow 16-byte loads
  bool operator<(const subject& other) const {
    return std::tie(cc, kernel_type) < std::tie(other.cc, other.kernel_type);
  }
};

/// The kernels of one frozen file; `archs` empty: for the device it was tuned on.
void add_frozen(const op& of, const frozen_config& file, std::vector<int> archs,
                std::set<subject>& into);

struct inspect_request {
  std::string tree;          ///< whose configs/
  std::vector<int> archs;    ///< 90 for sm_90; empty: each config's own
  bool defaults = false;     ///< also the kernels of untuned shapes, for sm_80, 90, 100 and 120
  int require_width = 0;     ///< bytes that the widest global load of an aligned kernel must have
  int jobs = 1;
};

/// Prints a line per kernel; returns the exit code.
int inspect(const inspect_request& request);

/// Global loads and stores by their width in bytes.
struct access_widths {
  std::map<int, int> loads, stores;
};

/// Reads them from the disassembler's text.
access_widths read_sass(const std::string& sass);

}  // namespace capstone::tools
