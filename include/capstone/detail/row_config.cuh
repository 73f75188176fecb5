// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The config of kernels that work on rows, and the quantities derived from it.
#pragma once

#include <capstone/detail/team.cuh>

namespace capstone {

/// Which lane adds which elements in which order: all that can change a bit of a result. It is
/// chosen by device, kernel, dtypes and cols alone, never by rows, alignment or stride.
struct row_reduction {
  int lanes = 256;    ///< threads of one block that share a row: a power of two up to 32, else a multiple of 32
  int elements = 8;   ///< consecutive elements a lane owns in one step
  int cluster = 1;    ///< blocks that share a row (sm_90 and newer when above 1)
  friend CAPSTONE_FN constexpr bool operator==(const row_reduction&, const row_reduction&) = default;
};

/// How a row stays on chip between the reduction and the output.
enum class row_hold : int {
  registers,  ///< as float32
  packed,     ///< as loaded, converted again at each use: half the registers for 16-bit inputs
  reread,     ///< not at all: read again, mostly from L2
};

/// When the weights are loaded: all before the reduction, to overlap it; all after it; each vector
/// where it is used, to save registers; or once for all rows of a looping grid.
enum class row_weights : int { early, late, as_used, once };

/// What may differ from call to call: it cannot change a bit of a result.
struct row_schedule {
  int tile_rows = 1;      ///< rows a block works on at a time, one team each
  int load_bytes = 16;    ///< physical access width of x, in bytes
  row_hold hold = row_hold::packed;
  row_weights weights = row_weights::late;
  int persistent = 0;     ///< blocks per SM of a grid that loops over the rows; 0: a block per tile
  detail::cache_use cache = detail::cache_use::normal;  ///< of x, residual and the outputs
  friend CAPSTONE_FN constexpr bool operator==(const row_schedule&, const row_schedule&) = default;
};

struct row_config {
  row_reduction reduction;
  row_schedule schedule;
  friend CAPSTONE_FN constexpr bool operator==(const row_config&, const row_config&) = default;
};

namespace detail {

constexpr int64 tile_cols(const row_reduction& r) {
  return int64(r.lanes) * r.elements * r.cluster;
}
/// Steps of `tile_cols` that cover a row.
constexpr int64 row_steps(const row_reduction& r, int64 cols) {
  return ceil_div<int64>(cols, tile_cols(r));
}
constexpr int block_threads(const row_config& c) {
  return c.reduction.lanes * c.schedule.tile_rows;
}
/// Blocks of the grid. A grid's x extent ends at 2^31 - 1; every kernel loops, so that is no limit.
constexpr int64 row_grid(const row_config& c, int64 rows, int sms) {
  const int64 tiles = ceil_div<int64>(rows, c.schedule.tile_rows);
  int64 teams = 0x7fffffff / c.reduction.cluster;
  if (c.schedule.persistent > 0) {
    const int64 resident = int64(sms) * c.schedule.persistent / c.reduction.cluster;
    if (resident > 0 && resident < teams) teams = resident;
  }
  return (tiles < teams ? tiles : teams) * c.reduction.cluster;
}

/// Where no table has an entry: two vectors of 16 bytes a lane, so that a row of 4096 16-bit
/// elements takes 256 lanes, and long rows 1024.
constexpr row_reduction default_reduction(int64 cols, int element_bytes) {
  const int elements = 16 / element_bytes;
  int64 lanes = bit_ceil(ceil_div<int64>(cols, 2 * elements));
  if (lanes > 1024) lanes = 1024;
  return {.lanes = int(lanes), .elements = elements, .cluster = 1};
}

/// The schedule of the run-time path for a reduction: blocks of at least 128 threads.
constexpr int default_tile_rows(const row_reduction& r) {
  return r.lanes < 128 && r.cluster == 1 ? 128 / r.lanes : 1;
}

/// Illegal configs fail here, by the sentence that names the field.
template <row_config C>
struct legal {
  static constexpr row_reduction r = C.reduction;
  static constexpr row_schedule s = C.schedule;
  static_assert(r.lanes >= 1 && r.lanes <= 1024 && (r.lanes < 32 ? bit_ceil(r.lanes) == r.lanes : r.lanes % 32 == 0),
                "config.reduction.lanes must be 1, 2, 4, 8, 16 or a multiple of 32 up to 1024");
  static_assert(r.elements >= 1 && r.elements <= 64 && bit_ceil(r.elements) == r.elements,
                "config.reduction.elements must be a power of two up to 64");
  static_assert(r.cluster >= 1 && r.cluster <= 8 && bit_ceil(r.cluster) == r.cluster,
                "config.reduction.cluster must be 1, 2, 4 or 8");
  static_assert(s.tile_rows >= 1 && r.lanes * s.tile_rows <= 1024,
                "config.schedule.tile_rows must be at least 1 and lanes * tile_rows at most 1024");
  static_assert(s.tile_rows == 1 || r.cluster == 1,
                "config.schedule.tile_rows must be 1 in a cluster");
  static_assert(r.lanes <= 32 || s.tile_rows <= 15,
                "config.schedule.tile_rows must be at most 15 above 32 lanes: a block has 16 barriers");
  static_assert(s.load_bytes == 2 || s.load_bytes == 4 || s.load_bytes == 8 || s.load_bytes == 16,
                "config.schedule.load_bytes must be 2, 4, 8 or 16");
  static_assert(s.persistent >= 0, "config.schedule.persistent must not be negative");
  static constexpr bool value = true;
};

/// Vectors a lane of the run-time path holds; longer rows are read twice. Two are 16384 columns of a
/// 16-bit type; four spill with a residual at the 64 registers that 1024 threads leave each.
inline constexpr int held_units = 2;

/// What every kernel of rows has; a kernel derives from it and adds `params` and
/// `template <row_schedule S, class Team> static void run(Team&, const params&)`. The params have the
/// members rows, cols, tile_rows and reduction. With Steps == 0 it is the run-time path: the
/// reduction comes with the params.
template <row_config C, int Steps, int ElementBytes>
struct row_kernel {
  static_assert(legal<C>::value);
  static constexpr bool at_run_time = Steps == 0;
  static constexpr int vector = C.schedule.load_bytes / ElementBytes;
  static constexpr int max_threads = at_run_time ? 1024 : block_threads(C);
  static constexpr row_schedule schedule = C.schedule;

  /// Blocks that share a row, and rows a block works on at a time.
  template <class Params>
  static int team_blocks(const Params& p) { return at_run_time ? p.reduction.cluster : C.reduction.cluster; }
  template <class Params>
  static int team_rows(const Params& p) { return at_run_time ? p.tile_rows : C.schedule.tile_rows; }

  /// Runs `Kernel` on a team built as Team<shape>(shape, cols, where...).
  template <class Kernel, template <class> class Team, class Params, class... Where>
  static CAPSTONE_FN void on_team(const Params& p, Where... where) {
    if constexpr (at_run_time) {
      const row_reduction& r = p.reduction;
      // Only the widest access has one vector a step; the others are for what is not aligned.
      if constexpr (C.schedule.load_bytes == 16)
        if (r.elements == vector && p.cols <= int64(r.lanes) * r.cluster * vector * held_units) {
          constexpr row_schedule held{.hold = row_hold::packed, .weights = row_weights::early};
          Team<short_row_shape<vector, held_units>> team({r.lanes, r.cluster, p.tile_rows}, p.cols, where...);
          Kernel::template run<held>(team, p);
          return team.finish();
        }
      Team<runtime_shape<vector>> team({r.lanes, r.elements, r.cluster, p.tile_rows}, p.cols, where...);
      Kernel::template run<schedule>(team, p);
      team.finish();
    } else {
      Team<static_shape<C.reduction.lanes, C.reduction.elements, C.reduction.cluster, Steps,
                        C.schedule.tile_rows, vector>> team({}, p.cols, where...);
      Kernel::template run<schedule>(team, p);
      team.finish();
    }
  }
};

}  // namespace detail
}  // namespace capstone
