// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// y = 2 x in float32, right with `fault=none` and broken in a way of its own with every other value:
// candidates for `autotune` to survive, to name and not to choose. tests/check/planted.py says what
// must become of each.
#include <capstone/detail/launch.cuh>

namespace capstone {

enum class planted_fault {
  none,
  slow,                    // right, and reads everything 50 times
  wrong_tail,              // the last row of a tile that is not full; no tuned shape has one
  partial_write,           // leaves the last column out
  accumulates,             // adds to what the output held
  out_of_bounds,           // writes where nothing is, far away
  past_the_end,            // writes one element behind the last row
  misaligned,              // stores a vector where only an element may be
  endless,
  trap,
  too_fast,                // does nothing at the tuned size, which the gate's few rows do not show
  tires,                   // right until it has been launched 10 times, then does nothing
  too_much_shared_memory,  // more than a block can have
  does_not_compile,
  racy,                    // a result depends on who came first
  spills,                  // right, but not with the registers there are
  crashes_when_timed,      // out_of_bounds at the tuned size only
  endless_when_timed
};

struct planted_config {
  struct {
    int lanes = 128;
  } reduction;
  struct {
    int tile_rows = 1;
    planted_fault fault = planted_fault::none;
  } schedule;
};

struct planted_params {
  const float* x;
  float* y;
  detail::int64 rows, cols, stride;
};

#if defined(__CUDACC__)
#define CAPSTONE_PLANTED_MEMORY static __device__
#else
#define CAPSTONE_PLANTED_MEMORY static
#endif
CAPSTONE_PLANTED_MEMORY unsigned planted_launches, planted_tickets;  // outlive a launch

/// `Lanes` threads a row, `TileRows` rows a block; on the host one thread.
template <int Lanes, int TileRows, planted_fault Fault>
struct planted_twice {
  using params = planted_params;
  using int64 = detail::int64;
  using fault = planted_fault;
  static constexpr int max_threads = Lanes * TileRows;
  static constexpr int64 most_gate_rows = 64;
  static int team_blocks(const params&) { return 1; }
  static int team_rows(const params&) { return TileRows; }

  template <class Kernel, template <class> class Team, class... Where>
  static CAPSTONE_FN void on_team(const params& p, Where... where) {
    static_assert(Fault != fault::does_not_compile, "a fault was planted here");
#if defined(__CUDA_ARCH__)
    const int64 at = int64(blockIdx.x) * TileRows + threadIdx.x / Lanes;
    if (at < p.rows) row(p, at, int(threadIdx.x % Lanes), Lanes);
#else
    const int64 first_and_step[] = {where...};
    for (int64 at = first_and_step[0]; at < p.rows; at += first_and_step[1]) row(p, at, 0, 1);
#endif
  }

 private:
  static CAPSTONE_FN void row(const params& p, int64 at, int lane, int lanes) {
    const float* const x = p.x + at * p.stride;
    float* const y = p.y + at * p.stride;
    const bool tuned_size = p.rows > most_gate_rows, first = at == 0 && lane == 0;
    if (Fault == fault::too_fast && tuned_size) return;
    if (Fault == fault::tires && counted(planted_launches, first) > 10) return;
    if (Fault == fault::endless || (Fault == fault::endless_when_timed && tuned_size))
      while (first) asm volatile("");
#if defined(__CUDA_ARCH__)
    if (Fault == fault::trap) __trap();
    if (Fault == fault::misaligned && lane == 0) *reinterpret_cast<float4*>(y + 1) = make_float4(0, 0, 0, 0);
    if (Fault == fault::spills) return spill(p, x, y, lane, lanes);
#else
    if (Fault == fault::trap) __builtin_trap();
#endif
    const int64 cols = p.cols - (Fault == fault::partial_write ? 1 : 0);
    const bool in_tail = p.rows % TileRows != 0 && at == p.rows - 1;
    const float factor = Fault == fault::wrong_tail && in_tail ? 3.0f : 2.0f;
    const bool wild = Fault == fault::out_of_bounds || (Fault == fault::crashes_when_timed && tuned_size);
    for (int64 c = lane; c < cols; c += lanes) {
      float value = x[c];
      if (Fault == fault::slow)
        for (int i = 0; i < 50; ++i) value = *const_cast<const volatile float*>(x + c);
      value *= factor;
      if (Fault == fault::accumulates) value += y[c];
      if (Fault == fault::racy && c == 0) value += float(counted(planted_tickets, true));
      y[c + (wild ? int64(1) << 40 : 0)] = value;
    }
    if (Fault == fault::past_the_end && at == p.rows - 1 && lane == 0) y[p.cols] = 0;
  }

  /// The count; one more from here on if `add`. Others only read, through L1, for atomics of two
  /// million threads on one word would take longer than the work.
  static CAPSTONE_FN unsigned counted(unsigned& count, bool add) {
#if defined(__CUDA_ARCH__)
    return add ? atomicAdd(&count, 1u) : count;
#else
    return add ? count++ : count;
#endif
  }

#if defined(__CUDA_ARCH__)
  // x and y may be the same memory for all that the compiler knows: no load may follow a store.
  static CAPSTONE_FN void spill(const params& p, const float* x, float* y, int lane, int lanes) {
    constexpr int held = 192;  // of the 128 registers that 512 threads leave each
    for (int64 c = lane; c < p.cols; c += int64(lanes) * held) {
      float v[held];
#pragma unroll
      for (int i = 0; i < held; ++i) v[i] = c + i * lanes < p.cols ? x[c + i * lanes] : 0;
#pragma unroll
      for (int i = 0; i < held; ++i)
        if (c + i * lanes < p.cols) y[c + i * lanes] = 2.0f * v[i];
    }
  }
#endif
};

}  // namespace capstone

// ---- the spec -------------------------------------------------------------------------------------
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include <cstring>
#include <string>
#include <vector>

#include "core/check.cuh"
#include "core/spec.hpp"

namespace capstone::tools {
namespace {

enum field { lanes, tile_rows, fault };
const std::vector<std::string> fault_names = {
    "none",    "slow",  "wrong_tail", "partial_write", "accumulates",            "out_of_bounds",    "past_the_end", "misaligned",
    "endless", "trap",  "too_fast",   "tires",         "too_much_shared_memory", "does_not_compile", "racy",         "spills",
    "crashes_when_timed", "endless_when_timed"};
constexpr int planted_tile = 4;  // so that 37 rows, 3 and 5 have a tail

struct twice_reference {
  const float *x, *y;
  std::int64_t cols, stride;
  __host__ __device__ void operator()(std::int64_t row, tally* tallies) const {
    for (std::int64_t c = 0; c < cols; ++c)
      tallies[0].add(row, c, y[row * stride + c], 2 * double(x[row * stride + c]), 0);  // exact
  }
};

launch_plan plan_of(const problem& p, const pointers& at, const config& c) {
  const planted_params params{static_cast<const float*>(at[0]), static_cast<float*>(at[1]), p.shape[0], p.shape[1],
                              p.shape[1] + p.pad};
  launch_plan plan;
  plan.kernel_type = "capstone::planted_twice<" + std::to_string(c[lanes]) + ", " + std::to_string(c[tile_rows]) +
                     ", capstone::planted_fault::" + fault_names.at(std::size_t(c[fault])) + ">";
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.grid[0] = unsigned((p.shape[0] + c[tile_rows] - 1) / c[tile_rows]);
  plan.block = unsigned(c[lanes] * c[tile_rows]);
  if (planted_fault(c[fault]) == planted_fault::too_much_shared_memory) plan.smem_bytes = 300 * 1024;
  return plan;
}

kernel_spec planted_kernel() {
  kernel_spec k;
  k.op = "planted";
  k.dtype = "f32";
  k.rounding = "none: twice a float32 is exact";
  k.tuned = true;
  k.buffers = [](const problem& p) {
    const std::int64_t rows = p.shape[0], cols = p.shape[1], stride = cols + p.pad;
    return std::vector<buffer_desc>{{"x", role::in, dtype::f32, rows, cols, stride, p.offset, -1, p.data},
                                    {"y", role::out, dtype::f32, rows, cols, stride, p.offset, -1, p.data}};
  };
  k.check = [](const problem& p, const pointers& in, const pointers& out, const config&, bool on_host) {
    const twice_reference r{static_cast<const float*>(in[0]), static_cast<const float*>(out[1]), p.shape[1], p.shape[1] + p.pad};
    return check_rows<1>(r, p.shape[0], {"y"}, p.data != "normal", on_host);
  };
  k.traffic = [](const problem& p) {
    const std::int64_t bytes = p.shape[0] * p.shape[1] * 4;
    return traffic_model{bytes, bytes, 1, 1};
  };
  k.default_config = [](const problem&) { return config{128, 1, int(planted_fault::none)}; };
  k.plan = [](const problem& p, const pointers& at, const config& c, const device_limits&) { return plan_of(p, at, c); };
  k.default_plan = [](const problem& p, const pointers& at, const config& c, const device_limits&) {
    return plan_of(p, at, {c[lanes], 1, int(planted_fault::none)});
  };
  return k;
}

const register_op registered([] {
  op o;
  o.name = "planted";
  o.header = "tests/planted/planted.cu";
  o.config_type = "capstone::planted_config";
  o.dims = {"rows", "cols"};
  o.axes = {{"lanes", part::reduction, {128}, {}, {}, {}, {}},
            {"tile_rows", part::schedule, {1, planted_tile}, {}, {}, {}, {}},
            {"fault", part::schedule, {}, fault_names, {}, {}, "capstone::planted_fault"}};
  for (std::size_t i = 0; i < fault_names.size(); ++i) o.axes[fault].values.push_back(int(i));
  o.config_fields = sizeof(planted_config) / sizeof(int);
  o.rules = {{"faults are planted in tiles of 4 rows",
              [](const config& c, const problem&, const kernel_spec&, const device_limits&) {
                return planted_fault(c[fault]) == planted_fault::none || c[tile_rows] == planted_tile;
              }},
             {"the host forgives what is misaligned and knows neither registers nor shared memory",
              [](const config& c, const problem&, const kernel_spec&, const device_limits& on) {
                const auto is = planted_fault(c[fault]);
                return on.sms > 0 || (is != planted_fault::misaligned && is != planted_fault::spills &&
                                      is != planted_fault::too_much_shared_memory);
              }}};
  o.kernels = {planted_kernel()};
  return o;
}());

}  // namespace
}  // namespace capstone::tools
#endif
