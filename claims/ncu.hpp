// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Nsight Compute's command line: what is asked of it, and how its output is read. Whatever is
/// ambiguous in the output is refused, never guessed.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace capstone::claims {

/// The profiler cannot be used or its output not be read. `remedy` says what to do, or is "".
class ncu_error : public std::runtime_error {
 public:
  ncu_error(const std::string& what, std::string remedy) : std::runtime_error(what), remedy(std::move(remedy)) {}
  std::string remedy;
};

/// One kernel launch in a report.
struct ncu_row {
  std::string kernel;  ///< mangled, where the options below were used
  std::string stream;
  long long grid[3] = {}, block[3] = {};
  std::vector<double> values;  ///< by metric, in base units; NaN for "n/a"
};

struct ncu_table {
  std::vector<std::string> metrics, units;  ///< base units: byte, ns, hz, %, sector, inst, cycle, ""
  std::vector<ncu_row> rows;                ///< in the order of the launches
};

/// Reads `--csv --page raw` (wide: a header, a row of units, a row a launch) or `--page details`
/// (long: a row a metric), told apart by their headers; lines beginning with == are skipped unless
/// they are errors. Scaled units (Mbyte, usecond) are converted. Throws ncu_error for a metric that
/// is not there, a unit that is blank where one is due or unknown, a number in another locale or
/// otherwise ambiguous, or no kernels.
ncu_table parse_ncu_csv(const std::string& text, const std::vector<std::string>& metrics);

/// Throws ncu_error for a name with a character that no metric has, such as a zero-width space.
void check_metric_names(const std::vector<std::string>& metrics);

/// The passes that each `==PROF== Profiling "…" … N passes` line of the log names, in order.
/// Throws ncu_error with a remedy for what the log says in the way of errors: denied counters
/// (ERR_NVGPUCTRPERM), another client of the counters, MIG, an incompatible driver, no kernels.
std::vector<int> parse_ncu_log(const std::string& text);

/// What the profiler itself complains of in a text, its ==ERROR== and ==WARNING== lines without that mark.
std::vector<std::string> ncu_complaints(const std::string& text);
/// What to do about complaints of the profiler's, or "" where none is known.
std::string ncu_remedy(const std::vector<std::string>& complaints);

/// The installed profiler.
struct ncu_tool {
  std::string path, version;  ///< "2025.3.1.0 (build 36398880)"
  std::vector<std::string> options;  ///< long options that its --help lists, e.g. "--clock-control"
};
/// $NCU, or ncu on the PATH. Throws ncu_error.
ncu_tool find_ncu();

/// Which of these the profiler does not list for a GPU of compute capability `cc`, by its
/// --query-metrics; launch__* is not in that list and passes. Nothing for a chip that has no name here.
std::vector<std::string> unknown_metrics(const ncu_tool& tool, const std::vector<std::string>& metrics, int cc);

/// The installed profiler, once its --help lists every option that is passed and its --query-metrics all of
/// these: what it would refuse is an ncu_error before any program runs.
ncu_tool find_ncu_for(const std::vector<std::string>& metrics, int cc);

/// One run: the program with its arguments under the profiler, its report kept below `folder` as
/// <name>.ncu-rep with <name>.log and <name>.csv, what the program printed in <name>.out and <name>.err.
struct ncu_run {
  std::string folder, name;
  std::vector<std::string> metrics;
  std::vector<std::string> program;
  bool cold = true;       ///< caches emptied before every launch
  double timeout_s = 120;
};
/// Every option that changes what is measured, explicitly; those that this version's help does not
/// list are an ncu_error, but for those known to be new.
std::vector<std::string> ncu_arguments(const ncu_tool& tool, const ncu_run& run);

struct ncu_result {
  ncu_table table;
  std::vector<int> passes;              ///< by launch
  std::vector<std::string> arguments;   ///< as passed
};
/// Throws ncu_error; where the program or the profiler failed, with their own last lines, the program's first.
ncu_result run_ncu(const ncu_tool& tool, const ncu_run& run);

}  // namespace capstone::claims
