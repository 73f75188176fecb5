// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Which kernels and problems a command works on, and where it keeps its records.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "claims/record.hpp"
#include "core/device.hpp"

namespace capstone::claims {

/// The command line. An empty list selects all, but of the suites those in `default_suites`.
struct selection {
  std::vector<std::string> kernels, dtypes, suites, shapes;
  std::vector<std::string> default_suites;  ///< what the command does unasked; empty: all
  std::string device;                       ///< "", a GPU's number, or "host"
  std::string out;  ///< the tree that holds evidence/; "" is the default one
  std::uint64_t seed = 1;
  bool verbose = false;
  bool tuned_only = false;  ///< those with speed claims, where the choice holds any
};

/// A problem and the suite it comes from ("shape" for one of the command line).
struct suite_problem {
  std::string suite;
  problem what;
};

struct chosen {
  const op* of = nullptr;
  const kernel_spec* kernel = nullptr;
  std::vector<suite_problem> problems;
};

/// Throws std::invalid_argument for a kernel, dtype or suite that nobody knows. On the host,
/// suites that the user did not name (all but edge) are cut to what takes a moment.
std::vector<chosen> choose(const selection& wanted, const device& where);

/// This program's command line with another command and its options, for the same problems in the same order.
std::vector<std::string> this_program_again(const std::vector<std::string>& command, const selection& wanted,
                                            const std::vector<std::string>& plugins, const device& where);

/// The source tree for GPUs, build/host below it for the host, unless the user says otherwise.
/// Times of the host are never kept among the evidence: throws std::invalid_argument for such an
/// `out`.
std::string out_root(const selection& wanted, const device& where);

std::string verify_path(const std::string& out, const std::string& device,
                        const kernel_spec& kernel);
std::string session_path(const std::string& out, const std::string& device,
                         const std::string& session);

record_device describe(const device& where);

/// Kernel and dtype of those that ran with the default config, for want of a frozen one.
using kernel_names = std::set<std::pair<std::string, std::string>>;

/// Prints what to do about them, if there are any.
void advise_tuning(const kernel_names& untuned, const device& where);

}  // namespace capstone::claims
