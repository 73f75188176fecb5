// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `autotune verify` and `autotune rerun`: the frozen configs on a GPU as it is today.
#pragma once

#include <string>
#include <vector>

#include "autotune/session.hpp"
#include "core/records.hpp"

namespace capstone::tools {

struct rerun_request {
  std::string tree;                  ///< whose configs/ are meant
  std::string against;               ///< another tree, whose choices race against them; "": none
  std::vector<std::string> kernels;  ///< empty: all
  std::string dtype;                 ///< "": all
  std::vector<problem> problems;     ///< empty: all row counts that were measured
  std::string device;                ///< a GPU's number, "" for 0, or "host"
  std::string out;                   ///< the record goes to OUT/.autotune/rerun.json
  session_settings how;
  int jobs = 1;
  double tolerance = 0.05;           ///< what counts as drift
};

/// Runs every frozen config through the gate and checks it at the shapes it was measured at. Prints a line
/// per config; returns the exit code. Throws record_error for what is stale, device_failed, device_busy.
int verify_frozen(const rerun_request& request);

/// Races each frozen config against the default schedule, the configs that tied with it and the choice of
/// `against`, in the same rounds. Says what drifted and, with `against`, on how many entries the two trees
/// agree; writes the record. Returns the exit code; throws as above.
int rerun(const rerun_request& request);

/// The way back from config_text. Throws std::invalid_argument.
config config_from_text(const op& of, const std::string& text);

}  // namespace capstone::tools
