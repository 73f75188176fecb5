// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// A prediction: what the counters and the clock will say of one kernel on one problem, written
/// before anyone looks. evidence/<device>/predictions/<kernel>.<dtype>/<shape>.<n>.yaml
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "claims/record.hpp"

namespace capstone::claims {

inline constexpr const char* prediction_schema = "capstone-prediction/2";
/// Of predictions whose rival stories name what excludes them, and not the values that do.
inline constexpr const char* older_prediction_schema = "capstone-prediction/1";

/// A part of the expected time: its formula with the numbers in it, and its value.
struct time_term {
  std::string name;  ///< dram, l2, fma, special, tensor, issue, launch, chain, tail
  std::string formula;
  double us = 0;
};

/// An interval that the median of the profiled launches must lie in.
struct counter_prediction {
  std::string metric, unit;  ///< as the profiler names it, in base units: byte, sector, inst, %
  double value = 0, low = 0, high = 0;
  std::string formula;
};

/// Another story of what the kernel does, what it would show of the metrics that it changes, and
/// which of their intervals it would miss.
struct rival_story {
  std::string name, story;
  std::vector<std::pair<std::string, double>> shows;  ///< by metric; none in the older schema
  std::vector<std::string> excluded_by;
};

struct predicted_launch {
  std::string symbol;  ///< mangled
  std::int64_t grid = 0, block = 0, kernels = 1, registers = 0, smem_bytes = 0;
  double waves = 0;
};

struct prediction {
  std::string schema = prediction_schema;
  std::string date, commit;
  std::string supersedes, why;  ///< sha256 of the prediction that this one replaces, or ""
  std::string kernel, dtype;
  problem_id what;
  record_device device;
  std::string ceilings, source;  ///< sha256 of the ceilings' file and of the kernel's source
  config_values config;
  std::string model;  ///< "full", or "memory only": arithmetic left out, on purpose
  std::int64_t prior_profiles = 0;  ///< of this kernel and shape, when this was written
  predicted_launch launch;
  std::string l2;  ///< "cold": the profiler empties the caches before every launch
  std::vector<time_term> terms;
  std::string binding, second;  ///< the two longest terms
  double margin = 0;            ///< first / second
  double expected_us = 0, low_us = 0, high_us = 0, physics_us = 0;  ///< nothing may beat the last
  std::vector<counter_prediction> counters;
  std::vector<rival_story> rivals;
  std::int64_t launch_dominates_below_rows = 0;  ///< below it launch and fixed cost exceed the streaming
  std::int64_t launch_dominates_below_bytes = 0;

  const counter_prediction* find(const std::string& metric) const;
};

/// The metrics that `r` would show outside of the intervals of `p`, in its order.
std::vector<std::string> excluding(const prediction& p, const rival_story& r);

std::string write_prediction(const prediction& p);
prediction parse_prediction(const std::string& text, const std::string& file);  ///< strict

/// "sha256:…" of a file's bytes.
std::string file_digest(const std::string& path);

}  // namespace capstone::claims
