// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What `bench` and `profile` time in the same way: capstone against the streaming floor, cold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/buffers.hpp"
#include "core/floor.hpp"
#include "core/timer.hpp"

namespace capstone::claims {

/// All memory of one comparison, and its arms. The arms refer to it, so it stays where it is.
struct race {
  race() = default;
  race(const race&) = delete;
  race& operator=(const race&) = delete;

  std::vector<tools::buffer_set> sets;
  std::vector<tools::memory> scratch;
  std::optional<tools::streaming_floor> floor;
  std::vector<tools::arm> arms;
  std::vector<std::string> floor_arms;  ///< names of those that compete for being the floor
};

/// Makes as many buffer sets as a cold rotation needs, room for the floor's streams kept free, and
/// says so in `timing`. Throws std::bad_alloc.
void add_sets(const tools::device& where, const tools::kernel_spec& kernel,
              const tools::problem& what, std::uint64_t seed, tools::timing_options& timing,
              race& r);

/// Calls of the shipped function under this name. `kernel` and `what` must outlive the race.
void add_own_arm(const char* name, const tools::device& where, const tools::kernel_spec& kernel,
                 const tools::problem& what, race& r);

/// The streaming kernels that were fastest in a short race of their own.
void add_floor(const tools::device& where, const tools::kernel_spec& kernel,
               const tools::problem& what, const tools::timing_options& timing, race& r);

}  // namespace capstone::claims
