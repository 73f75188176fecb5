// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Microbenchmarks whose work is known: what a GPU's pipes, its L2, its latencies and its launches
/// give at most. Those that are arms are timed by core/timer like everything else, hot: the arms
/// refer to their object, so they must not outlive it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device.hpp"
#include "core/timer.hpp"

namespace capstone::tools {

/// What every SM is kept busy with, from registers alone.
enum class pipe {
  fma,      ///< float32 multiply-adds
  special,  ///< rsqrt.approx of float32
  tensor,   ///< mma.sync m16n8k16, bf16 to float32, random operands; needs compute capability 8.0
};

class pipe_load {
 public:
  pipe_load(const device& where, pipe which, int iterations);

  /// Per call: a multiply-add counts as 2, a special function as 1.
  double operations() const { return operations_; }
  arm as_arm() const;

 private:
  pipe which_;
  int iterations_, grid_ = 0;
  double operations_ = 0;
  memory sink_;
};

/// All SMs read the same `bytes` (a multiple of 512) again and again, past L1.
class l2_load {
 public:
  l2_load(const device& where, std::int64_t bytes);

  /// Bytes that one call reads in all: about 2 GB, at least the whole set once.
  double bytes_per_call() const;
  arm as_arm() const;

 private:
  std::int64_t bytes_;
  int grid_ = 0, loops_ = 0;
  memory data_, sink_;
};

/// One thread whose every load from DRAM needs the one before. A call goes on where the last one
/// ended, so that no line is met again before all others were: nothing is found in L2.
class pointer_chase {
 public:
  pointer_chase(const device& where, int steps);

  std::int64_t bytes() const { return static_cast<std::int64_t>(lines_.size()); }  ///< > 4 x L2
  arm as_arm() const;

 private:
  int steps_;
  memory lines_, state_;
};

/// One block of 256 threads that sums a value a thread `repeats` times, each time what came out of
/// the time before: shuffles in the warps, shared memory and one barrier between them.
class block_reduction {
 public:
  block_reduction(const device& where, int repeats);
  arm as_arm() const;

 private:
  int repeats_;
  memory sink_;
};

/// Iterations of the tensor load: some 0.5 ms, so that ramps and launches do not count.
inline constexpr int tensor_iterations = 1024;

/// A kernel that does nothing.
arm empty_arm();

/// Microseconds per launch of empty kernels back to back on a stream, the host's part included
/// where that is the slower one; one value a sample.
std::vector<double> stream_launch_us(const device& where, int launches, int samples);

/// Microseconds per node of a graph of empty kernels in a row, one value a sample.
std::vector<double> graph_node_us(const device& where, int nodes, int samples);

}  // namespace capstone::tools
