// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The part of `claims profile` that needs no GPU: which prediction counts, and what the rows of a
/// profiler's report say of each problem.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "claims/ncu.hpp"
#include "claims/profile_record.hpp"

namespace capstone::claims {

// ---- Predictions on file ------------------------------------------------------------------------

/// `predictions/rms_norm.bf16/rows=4096,cols=8192.1.yaml`, from evidence/<device>/. The layout of a
/// problem that is not plain follows the shape.
std::string prediction_path(const std::string& kernel, const std::string& dtype,
                            const problem_id& what, int n);

prediction read_prediction(const std::string& path);  ///< strict; throws record_error

struct newest_prediction {
  int n = 0;           ///< 0: there is none
  std::string path;    ///< from evidence/<device>/
  std::string digest;  ///< "sha256:…" of the file
  prediction content;
};

/// The one with the largest n; `folder` is evidence/<device>. Throws record_error where it cannot
/// be read.
newest_prediction find_newest_prediction(const std::string& folder, const std::string& kernel,
                                         const std::string& dtype, const problem_id& what);

/// The newest of each problem, of all devices below `evidence`, sorted by path.
std::vector<prediction> newest_predictions(const std::string& evidence);

/// What is about to be profiled, as a prediction of it must say too.
struct prediction_key {
  std::string device, kernel, dtype;
  problem_id what;
  config_values config;
  std::string source, ceilings;  ///< digests
};
std::string name_of(const prediction_key& key);  ///< "rms_norm bf16 rows=4096,cols=8192"

/// "" or the sentence why `newest` is no prediction of `now`. One older than its ceilings would be
/// a digest that differs; when the two were written does not matter.
std::string why_not_predicted(const newest_prediction& newest, const prediction_key& now);

// ---- The program under the profiler -------------------------------------------------------------

/// What the profiled program prints of a problem, `fault` being "" or why its output is wrong.
std::string harness_line(const std::string& name, const std::string& fault);

/// The fault of each of these problems, in order, as those lines tell; "" where there is none. A
/// problem of which the output says nothing has a fault.
std::vector<std::string> harness_faults(const std::string& output,
                                        const std::vector<std::string>& names);

// ---- The rows of a report -----------------------------------------------------------------------

/// The kernels of one call of a library function, all that ran between its marker and the next.
struct profiled_call {
  std::string stream;             ///< the marker's, which is the one that was passed
  std::vector<std::size_t> rows;  ///< of the report
};

struct report_calls {
  std::vector<profiled_call> calls;
  std::size_t stray = 0;  ///< kernels before the first marker
};
report_calls split_calls(const ncu_table& table, const std::string& marker);

/// "" or why the report cannot be told apart into this many calls of this many problems.
std::string why_not_split(const report_calls& report, std::size_t problems, std::size_t launches);

/// One of the two runs of the profiler, told apart.
struct told_run {
  ncu_result result;
  report_calls calls;
};

/// Fills what was seen, passes, counters and the faults that follow, for problem `index` of the
/// selection; `pipes` is null where that run failed. Every metric of `core_names`, `pipes_names`
/// and the prediction gets its values, NaN where the report has none.
void fill_from_report(const told_run& core, const told_run* pipes, std::size_t index,
                      std::size_t launches, const std::vector<std::string>& core_names,
                      const std::vector<std::string>& pipes_names, const prediction& predicted,
                      profiled& entry);

// ---- Permission ---------------------------------------------------------------------------------

/// "" or why counters cannot be read, with what to do; from the text of /proc/driver/nvidia/params
/// ("" where there is none).
std::string why_counters_denied(const std::string& params, bool privileged);

}  // namespace capstone::claims
