// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// When kernels and launches ran: what follows from their intervals, and how it is kept.
/// evidence/<device>/timelines/<kernel>.<dtype>.<shape>.yaml, and the same events as a Chrome trace,
/// which Perfetto opens, in the .json beside it. A picture is drawn from the record alone: one lane
/// below the other on one scale from each lane's first launch, kernels as bars, launches above them.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "claims/record.hpp"

namespace capstone::claims {

inline constexpr const char* timeline_schema = "capstone-timeline/2";
/// One window a lane, its first 40 kernels and launches, no overhead, and the tracer's name and version in
/// one text, `source`. Read, never written.
inline constexpr const char* timeline_schema_of_one_window = "capstone-timeline/1";

/// Something that ran, nanoseconds on one clock. `correlation` joins a kernel and its launch.
struct traced_interval {
  std::string name;
  std::uint64_t begin_ns = 0, end_ns = 0;
  std::uint64_t correlation = 0;
  std::uint64_t stream = 0;  ///< of a kernel
};

struct lane_events {
  std::vector<traced_interval> kernels;    ///< and copies and fills by the device
  std::vector<traced_interval> launches;
  std::vector<traced_interval> overheads;  ///< the tracer's own work
};

/// Nothing, or not all, could be traced; the sentence says why.
struct trace_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline constexpr const char* cupti_name = "CUPTI activity";
inline constexpr const char* nsys_name = "nsys";

/// What traced, and why it was not the one before it.
struct tracer_id {
  std::string name;      ///< "CUPTI activity", "nsys"
  std::string version;   ///< "13.0 (API version 130001)"
  std::string fallback;  ///< "nsys: no importer beside it"; "" where the first choice traced
  std::string label() const;  ///< "CUPTI activity 13.0 (API version 130001); nsys: no importer beside it"
};

/// Whether this call of the runtime or driver launches kernels; takes the version off its name ("_v7000").
bool is_launch_call(std::string& name);

/// The function's name without namespaces, template arguments and parameters; of the library's one
/// `entry<Kernel>` the kernel's: "rms_norm_kernel".
std::string short_kernel_name(const std::string& demangled);

/// Nanoseconds that at least one of the intervals covers; they may overlap and come in any order.
std::uint64_t covered_ns(std::vector<std::pair<std::uint64_t, std::uint64_t>> intervals);

/// One way to make the same calls, traced several times and untraced. What is kept is the traced
/// window whose share is the median.
struct timeline_lane {
  std::string name;  ///< "capstone, stream"
  std::int64_t calls = 0;
  double kernels_per_call = 0;
  double wall_us_per_call = 0;  ///< host time of calls and wait, without tracing
  double window_us = 0;         ///< first kernel's begin to last kernel's end
  double busy_us = 0, gap_us = 0;  ///< within the window: some kernel runs, and none does
  double launch_share = 0;      ///< gap / window
  std::vector<double> shares;   ///< of every window that was traced, in that order
  /// Within the window: the tracer's own work, an upper part of the gaps. Nothing where it does not tell.
  std::optional<double> overhead_us;
  double api_us_per_call = 0;   ///< the host inside launch calls
  double kernel_us = 0;         ///< median
  std::vector<std::string> names;
  struct bar {
    double begin_us = 0, length_us = 0;  ///< from the lane's first event
    std::int64_t name = 0;               ///< index into `names`
  };
  std::vector<bar> kernels;
  std::vector<std::pair<double, double>> launches;  ///< begin and length
};

/// Fills all but name, calls, wall time and `shares`. Throws std::runtime_error for a lane without kernels.
void derive(const lane_events& events, timeline_lane& lane);

struct timeline_record {
  run_context run;
  record_device device;
  tracer_id tracer;
  std::string kernel, dtype;
  problem_id what;
  std::string l2;  ///< "cold": the calls rotate over three times the L2 or more; else "warm"
  std::vector<timeline_lane> lanes;
};
std::string write_timeline(const timeline_record& record);

/// Strict, and every number that follows from the intervals must follow from them. Throws record_error.
timeline_record read_timeline(const std::string& path);

/// A process per lane, thread 0 the host's launches, a thread per stream; flows join them. The tracer is in
/// `otherData`.
std::string chrome_trace(const std::vector<std::pair<std::string, lane_events>>& lanes, const tracer_id& tracer);

}  // namespace capstone::claims
