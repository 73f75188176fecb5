// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What one run of `claims profile` saw, and the verdicts that follow from it and the predictions.
/// evidence/<device>/profiles/<session>.yaml
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "claims/prediction.hpp"

namespace capstone::claims {

inline constexpr const char* profile_schema = "capstone-profile/1";

/// A metric over the profiled launches, in base units. A launch without a number ("n/a") is a NaN
/// in memory and null in the file.
struct counter_values {
  std::string metric, unit;
  std::vector<double> values;
};

/// Which kernels ran inside the profiled calls.
struct seen_launches {
  std::vector<std::string> symbols;  ///< mangled, each once
  std::int64_t kernels = 0;          ///< per call
  std::int64_t grid = 0, block = 0;
  std::int64_t streams = 0;          ///< those other than the one that was passed
};

/// A reason why nothing, or nothing yet, can be concluded.
struct run_fault {
  std::string kind;  ///< INVALID or INCONCLUSIVE
  std::string sentence;
};

struct claim_verdict {
  std::string claim;    ///< a metric, or identity, time, spread, prediction
  std::string verdict;  ///< CONFIRMED, REFUTED, INCONCLUSIVE, INVALID
  double observed = 0, low = 0, high = 0;
  std::string why;
};

struct profiled {
  std::string kernel, dtype;
  problem_id what;
  config_values config;
  std::string prediction_path, prediction_sha256;  ///< the path from evidence/<device>/
  std::int64_t core_passes = 0, pipes_passes = 0, launches = 0;
  std::string l2;
  seen_launches seen;
  ratio_band time_us, floor_us;  ///< without the profiler: cold, interleaved
  std::vector<counter_values> counters;
  std::vector<run_fault> faults;
  std::vector<claim_verdict> verdicts;
  std::string verdict, story, next;
};

struct profile_record {
  run_context run;
  record_device device;
  std::string ncu;  ///< "2025.3.1.0 (build 36398880)"
  std::vector<std::string> options;
  std::int64_t seed = 0;
  std::vector<profiled> problems;
};

std::string write_profile(const profile_record& record);
profile_record read_profile(const std::string& path);  ///< strict; throws record_error

/// Fills `verdicts`, `verdict`, `story` and `next` of `seen` from what it holds and `p`: a pure
/// function, so that a reader of the record comes to the same. The worst verdict is the whole's:
/// INVALID, then REFUTED, INCONCLUSIVE, CONFIRMED.
void judge(const prediction& p, profiled& seen);

}  // namespace capstone::claims
