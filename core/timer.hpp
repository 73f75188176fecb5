// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Cold timings of arms that alternate in randomised rounds.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/stats.hpp"

namespace capstone::tools {

/// Something that is timed. `run(set, stream)` enqueues one call on buffer set `set`.
struct arm {
  std::string name;
  std::function<void(int set, void* stream)> run;
};

enum class timer_kind { graph, events, host };  ///< CUDA-graph replays, events, steady clock
const char* token(timer_kind kind);

struct timing_options {
  int sets = 1;  ///< buffer sets the caller made; calls rotate over them
  /// For cold rotation: sets * bytes_per_call against 3 x L2. 0 asks for no care: what the caches
  /// hold stays there (hot).
  std::int64_t bytes_per_call = 0;
  int rounds = 40;
  double sample_us = 500;  ///< a sample repeats the call until it lasts about this long
  std::uint64_t seed = 1;
  double warm_up_ms = 200;  ///< busy time before the first sample, for the clocks
  /// Events at 50 us and more, graph replays below; decided once for all arms, by the first one.
  double graph_below_us = 50;
};

struct arm_samples {
  std::string name;
  std::vector<double> us;   ///< per round, microseconds per call
  std::vector<int> sm_mhz;  ///< per round; empty where NVML is not there
  std::vector<double> watts;
};

struct timing {
  timer_kind timer = timer_kind::events;
  int calls_per_sample = 0, sets = 0;
  bool flushed = false;  ///< an L2-sized read ran before each sample (too few sets to rotate)
  std::vector<arm_samples> arms;  ///< in the order given
};

/// Runs every arm once per round, in random order, and returns all samples. The first call of each
/// arm (module load, attributes) happens before anything is timed. Throws on any CUDA error.
timing time_arms(const device& where, const std::vector<arm>& arms, const timing_options& options);

/// How many buffer sets make the rotation exceed 3 x L2, capped by `max_sets` and free memory.
int sets_for_cold(const device& where, std::int64_t bytes_per_call, std::size_t set_bytes,
                  int max_sets);

/// Bytes that can be allocated there now.
std::size_t free_memory(const device& where);

}  // namespace capstone::tools
