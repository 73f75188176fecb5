// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Kernels and launches as Nsight Systems records them. It wraps a program from its start, where CUPTI
/// records within one: this program runs itself again under it, and markers in the trace tell the windows
/// apart. Its reports are read as `nsys stats` writes them, which is documented and needs no library; as
/// JSON, for in its CSV a quote within a name is not told from the end of the field.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "claims/trace.hpp"

namespace capstone::claims {

/// An installed Nsight Systems that has been seen to give a report.
struct nsys_tool {
  std::string path, version;           ///< "2022.4.2.1-df9881f"
  std::string gpu_report, api_report;  ///< what this version calls them: "cuda_gpu_trace" or "gputrace"
};

/// $NSYS, or nsys on the PATH, of the toolkit, or beside Nsight Compute, which traces a trivial program.
/// Throws trace_error with a short reason: "not found", or "no importer beside it", as where only the part
/// that comes with Nsight Compute is installed, which writes what nothing there reads.
nsys_tool find_nsys();

/// One run: the program with its arguments, its report and what it printed below `folder`.
struct nsys_run {
  std::string folder, name;
  std::vector<std::string> program;
  double timeout_s = 120;
};
/// All that it ran. Throws trace_error; where the program failed, with its last line.
lane_events run_nsys(const nsys_tool& tool, const nsys_run& run);

/// The two reports as JSON: what the GPU ran, and the calls that launched. Throws trace_error.
lane_events read_nsys(const std::string& gpu_json, const std::string& api_json);

/// What lies between the first marker and the second, the third and the fourth, and so on; on the GPU and
/// on the host each by its own clock. Throws trace_error unless there are two markers a window.
std::vector<lane_events> split_windows(const lane_events& events, std::size_t windows);

/// Traces by the `choice` of "auto", "nsys" and "cupti": auto takes CUPTI where nsys throws trace_error, and
/// says why in the id.
tracer_id trace_by(const std::string& choice, const std::function<tracer_id()>& by_nsys, const std::function<tracer_id()>& by_cupti);

}  // namespace capstone::claims
