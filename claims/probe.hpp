// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims probe`: what `claims calibrate` has the profiler run, plain streaming kernels and an
/// empty one. Of no use by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device.hpp"

namespace capstone::claims {

inline constexpr int probe_launches = 5;  ///< of the empty kernel, of the tensor pipe's load, then of each copy

/// A streaming kernel of core/floor over `bytes` in all, in streams of equal size.
struct probed_copy {
  std::int64_t reads = 0, writes = 0, bytes = 0;
  std::string variant;  ///< an arm of streaming_floor, "u4 t256 cs"
  bool operator==(const probed_copy&) const = default;
};

/// `bytes` split into equal streams of whole 16-byte vectors, so a few bytes fewer where they do
/// not divide.
tools::traffic_model streams_of(std::int64_t reads, std::int64_t writes, std::int64_t bytes);

/// The list as one word for a command line: "1,1,24576,u4+t256+cs/2,2,1048576,u8+t128+cs".
std::string write_plan(const std::vector<probed_copy>& copies);
/// Throws std::invalid_argument.
std::vector<probed_copy> read_plan(const std::string& plan);

/// The command: launches the empty kernel and then each copy of the plan, in its order, with the
/// profiler on for nothing else. Returns its exit code.
int probe(const tools::device& where, const std::string& plan);

}  // namespace capstone::claims
