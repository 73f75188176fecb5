// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/race.hpp"

#include <stdexcept>
#include <utility>

namespace capstone::claims {

using namespace tools;

namespace {

constexpr int max_sets = 256;  // small calls beyond that are kept cold by evicting L2 instead
constexpr int floor_finalists = 3, floor_rounds = 5;

}  // namespace

void add_sets(const device& where, const kernel_spec& kernel, const problem& what,
              std::uint64_t seed, timing_options& timing, race& r) {
  const traffic_model traffic = kernel.traffic(what);
  const std::vector<buffer_desc> descs = kernel.buffers(what);
  const std::size_t set_bytes =
      buffer_set::bytes_needed(descs) + streaming_floor::bytes_needed(traffic);
  timing.bytes_per_call = traffic.read_bytes + traffic.written_bytes;
  timing.sets = sets_for_cold(where, timing.bytes_per_call, set_bytes, max_sets);
  for (int set = 0; set < timing.sets; ++set)
    r.sets.emplace_back(where, descs, seed + static_cast<std::uint64_t>(set));
}

void add_own_arm(const char* name, const device& where, const kernel_spec& kernel,
                 const problem& what, race& r) {
  const bool on_host = where.is_host();
  r.arms.push_back({name, [on_host, &kernel, &what, &r](int set, void* stream) {
                      const pointers& data = r.sets[static_cast<std::size_t>(set)].data();
                      const std::string failure =
                          on_host ? kernel.call_host(what, data) : kernel.call(what, data, stream);
                      if (!failure.empty())
                        throw std::runtime_error(kernel.name() + ": " + failure);
                    }});
}

void add_floor(const device& where, const kernel_spec& kernel, const problem& what,
               const timing_options& timing, race& r) {
  r.floor.emplace(where, kernel.traffic(what), timing.sets);
  timing_options quick = timing;
  quick.warm_up_ms = timing.warm_up_ms / 4;
  for (arm& a : fastest_arms(where, r.floor->arms(), quick, floor_rounds, floor_finalists)) {
    r.floor_arms.push_back(a.name);
    r.arms.push_back(std::move(a));
  }
}

}  // namespace capstone::claims
