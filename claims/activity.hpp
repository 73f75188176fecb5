// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Kernels and launches as CUPTI's activity interface records them.
#pragma once

#include <memory>
#include <string>

#include "claims/trace.hpp"

namespace capstone::claims {

/// Records from its construction to its destruction; only one at a time. libcupti is loaded here and
/// nowhere else: a program that uses CUPTI cannot run under Nsight Compute, and `claims` must.
class activity_tracer {
 public:
  activity_tracer();  ///< throws trace_error: no libcupti, another version, denied
  ~activity_tracer();
  activity_tracer(const activity_tracer&) = delete;
  activity_tracer& operator=(const activity_tracer&) = delete;

  /// "13.0 (API version 130001)"
  const std::string& version() const;

  /// Nanoseconds now, on the events' clock.
  std::uint64_t now_ns() const;

  /// What ran since the last call. The device must be idle. Throws trace_error where records
  /// were dropped.
  lane_events take();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace capstone::claims
