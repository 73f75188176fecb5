// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Teams: the threads that work on one row together, and what they can do. A kernel body is written
/// once against this interface and runs on the device team and, lane by lane, on the host team.
#pragma once

#include <capstone/detail/numeric.cuh>
#include <capstone/detail/vec.cuh>

namespace capstone::detail {

/// Where the elements of a row lie, known at compile time. A team has `Cluster` blocks of `Lanes`
/// threads; in step s, lane l of block b owns the `Elements` elements from column
/// ((s * Cluster + b) * Lanes + l) * Elements on, and moves them as vectors of `Vector` elements.
template <int Lanes, int Elements, int Cluster, int Steps, int TileRows, int Vector>
struct static_shape {
  using index = int;  // cols <= Steps * tile_cols, checked by the launcher
  static constexpr bool holds = true;
  static constexpr int vector = Vector, unroll = Steps * (Elements / Vector);
  static constexpr int max_lanes = Lanes, max_team = Lanes * Cluster;
  static CAPSTONE_FN constexpr int lanes() { return Lanes; }
  static CAPSTONE_FN constexpr int elements() { return Elements; }
  static CAPSTONE_FN constexpr int cluster() { return Cluster; }
  static CAPSTONE_FN constexpr int tile_rows() { return TileRows; }
  static CAPSTONE_FN constexpr int units(index) { return unroll; }
  static_assert(Vector >= 1 && Elements % Vector == 0,
                "config: load_bytes must not exceed elements * sizeof(x)");
};

/// The same mapping with everything but the vector width known at run time: the path for column
/// counts, alignments and row counts that have no frozen schedule.
template <int Vector>
struct runtime_shape {
  using index = int64;
  static constexpr bool holds = false;  // any number of vectors a lane: nothing can be kept
  static constexpr int vector = Vector, unroll = 4, max_lanes = 1024, max_team = 8 * 1024;
  int lanes_, elements_, cluster_, tile_rows_;
  CAPSTONE_FN int lanes() const { return lanes_; }
  CAPSTONE_FN int elements() const { return elements_; }
  CAPSTONE_FN int cluster() const { return cluster_; }
  CAPSTONE_FN int tile_rows() const { return tile_rows_; }
  CAPSTONE_FN index units(index cols) const {
    return ceil_div<index>(cols, index(lanes_) * elements_ * cluster_) * (elements_ / Vector);
  }
};

/// The run-time mapping of rows short enough to be held: `Units` vectors a lane, one a step, so that
/// everything unrolls and what lies beyond the row is masked.
template <int Vector, int Units>
struct short_row_shape {
  using index = int;
  static constexpr bool holds = true;
  static constexpr int vector = Vector, unroll = Units, max_lanes = 1024, max_team = 8 * 1024;
  int lanes_, cluster_, tile_rows_;
  CAPSTONE_FN int lanes() const { return lanes_; }
  static CAPSTONE_FN constexpr int elements() { return Vector; }
  CAPSTONE_FN int cluster() const { return cluster_; }
  CAPSTONE_FN int tile_rows() const { return tile_rows_; }
  static CAPSTONE_FN constexpr int units(index) { return Units; }
};

/// One vector of a row: who owns it and where it lies.
template <class Index>
struct position {
  int lane;     ///< lane within the team, over all its blocks
  Index unit;   ///< counts the vectors of a lane
  Index col;    ///< of the first element
  int64 offset; ///< col again, as the sum that lets an address keep its constant part
  bool inside;  ///< col < cols; a vector never straddles the end, its width divides cols
};

template <class Shape>
CAPSTONE_FN position<typename Shape::index> position_of(const Shape& s, int block, int lane,
                                                        typename Shape::index unit,
                                                        typename Shape::index cols) {
  using index = typename Shape::index;
  const int vectors = s.elements() / Shape::vector;
  const index own = index(block * s.lanes() + lane) * s.elements();
  const index ahead = unit / vectors * s.cluster() * s.lanes() * s.elements() +
                      unit % vectors * Shape::vector;
  return {block * s.lanes() + lane, unit, own + ahead, int64(own) + int64(ahead), own + ahead < cols};
}

/// Reductions: `identity`, `apply` between lanes.
struct add {
  static CAPSTONE_FN constexpr float identity() { return 0.0f; }
  static CAPSTONE_FN float apply(float a, float b) { return add_rn(a, b); }
};
struct maximum {  // NaN wins, unlike fmaxf
  static CAPSTONE_FN float identity() { return __builtin_bit_cast(float, 0xff800000u); }
  static CAPSTONE_FN float apply(float a, float b) { return a != a ? a : (a > b ? a : b); }
};

/// Partial results combine in this order on both teams: a butterfly over the lanes of a warp, a
/// butterfly over the warps of a block, then the blocks of a cluster one after another.
/// The depth of the whole tree is what a tolerance needs.
CAPSTONE_FN constexpr int combine_depth(int lanes, int cluster) {
  int depth = cluster - 1;
  for (int l = 1; l < lanes; l *= 2) ++depth;
  return depth;
}

#if defined(__CUDACC__)

/// 2 x 32 warp partials, then 2 cluster cells: one array per kernel, however many teams and
/// reductions its code has.
__device__ __forceinline__ float* team_scratch() {
  __shared__ float cells[66];
  return cells;
}

/// One team of a block, from the point of view of one of its threads.
template <class Shape>
class device_team {
 public:
  using index = typename Shape::index;

  __device__ __forceinline__ device_team(const Shape& shape, int64 cols)
      : shape_(shape), cols_(index(cols)), block_(0), parity_(0) {
    team_ = int(threadIdx.x) / shape_.lanes();
    lane_ = int(threadIdx.x) % shape_.lanes();
    if (shape_.cluster() > 1) block_ = int(blockIdx.x) % shape_.cluster();
  }

  /// The rows of this team are first_row(), first_row() + row_step(), ...
  __device__ __forceinline__ int64 first_row() const {
    return int64(blockIdx.x / unsigned(shape_.cluster())) * shape_.tile_rows() + team_;
  }
  __device__ __forceinline__ int64 row_step() const {
    return int64(gridDim.x / unsigned(shape_.cluster())) * shape_.tile_rows();
  }

  /// Calls f(position) for every vector of the row that this thread owns, also those outside it.
  template <class F>
  __device__ __forceinline__ void each(F&& f) const {
    const index units = shape_.units(cols_);
#pragma unroll (Shape::unroll)
    for (index u = 0; u < units; ++u) f(position_of(shape_, block_, lane_, u, cols_));
  }

  /// Evaluates f at every position once and keeps the values in registers; the result is called
  /// like f. Without `Keep` it is f itself, evaluated anew at every use.
  template <bool Keep, class F>
  __device__ __forceinline__ auto hold(F f) const {
    if constexpr (Keep) {
      static_assert(Shape::holds, "a schedule that holds a row needs a shape with a fixed number of vectors");
      held<decltype(f(position<index>{}))> kept;
      each([&](auto at) { kept.values[at.unit] = f(at); });
      return kept;
    } else {
      return f;
    }
  }

  /// Folds the elements of f inside the row, lane by lane in column order, then combines the lanes.
  /// Every thread of the team gets the same bits.
  template <class Op, class F, class Fold>
  __device__ __forceinline__ float reduce(F&& f, Fold&& fold) {
    float part = Op::identity();
    each([&](auto at) {
      if (!at.inside) return;
      const auto v = f(at);
#pragma unroll
      for (int i = 0; i < Shape::vector; ++i) part = fold(part, v.v[i]);
    });
    return combine<Op>(part);
  }

  /// Before the kernel returns: no block of a cluster may leave while another reads its memory.
  __device__ __forceinline__ void finish() const {
    if (shape_.cluster() > 1) cluster_sync();
  }

 private:
  template <class T>
  struct held {
    T values[Shape::unroll];
    template <class At>
    __device__ __forceinline__ const T& operator()(At at) const { return values[at.unit]; }
  };

  template <class Op>
  __device__ __forceinline__ float combine(float v) {
    const int lanes = shape_.lanes();
    // Teams of part of a warp may be in different rows, so the mask names this team's lanes only.
    const unsigned mask = lanes < 32 ? ((1u << (lanes & 31)) - 1u) << (threadIdx.x % 32u / lanes * lanes)
                                     : 0xffffffffu;
#pragma unroll
    for (int o = 16; o > 0; o /= 2)
      if (o < lanes) v = Op::apply(v, __shfl_xor_sync(mask, v, o));
    if (Shape::max_lanes <= 32 || lanes <= 32) return clustered<Op>(v);

    // Two buffers in turn: a warp that runs ahead into the next reduction writes the other one, and
    // it cannot come back to this one before the barrier that all readers of it have reached.
    float* const parts = team_scratch() + 32 * parity_;
    const int warp = int(threadIdx.x) / 32, first = team_ * (lanes / 32), warps = lanes / 32;
    if (threadIdx.x % 32 == 0) parts[warp] = v;
    barrier();
    // Every group of bit_ceil(warps) lanes holds all partials, so every lane ends with the sum.
    const int l = int(threadIdx.x) % 32 % int(bit_ceil(warps));
    v = l < warps ? parts[first + l] : Op::identity();
#pragma unroll
    for (int o = 16; o > 0; o /= 2)
      if (o < warps) v = Op::apply(v, __shfl_xor_sync(0xffffffffu, v, o));
    if (shape_.cluster() == 1) parity_ ^= 1;
    return clustered<Op>(v);
  }

  template <class Op>
  __device__ __forceinline__ float clustered(float v) {
    if (shape_.cluster() == 1) return v;
    float* const cell = team_scratch() + 64 + parity_;
    if (threadIdx.x == 0) *cell = v;
    cluster_sync();
    float sum = 0;
    for (int b = 0; b < shape_.cluster(); ++b) {
      const float other = remote(cell, b);
      sum = b == 0 ? other : Op::apply(sum, other);
    }
    parity_ ^= 1;
    return sum;
  }

  __device__ __forceinline__ void barrier() const {
    if (shape_.tile_rows() == 1)
      __syncthreads();
    else  // named, so that the teams of a block do not wait for each other
      asm volatile("bar.sync %0, %1;" ::"r"(team_ + 1), "r"(shape_.lanes()) : "memory");
  }

  static __device__ __forceinline__ void cluster_sync() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
#else  // code for sm_80 that the driver compiled for a newer GPU, whose table entry has a cluster
    __trap();
#endif
  }

  static __device__ __forceinline__ float remote(const float* cell, int block) {
    float v = 0;
#if __CUDA_ARCH__ >= 900
    const unsigned local = static_cast<unsigned>(__cvta_generic_to_shared(cell));
    unsigned address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(local), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(address) : "memory");
#endif
    return v;
  }

  Shape shape_;
  index cols_;
  int team_, lane_, block_, parity_;
};

#endif  // __CUDACC__

// GCC 12 does not see that `hold` writes every value that is read.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

/// All lanes of one team in one host thread: the same positions, loads, masks and stores; shuffles,
/// barriers and the cluster exchange become loops in the same order.
template <class Shape>
class host_team {
 public:
  using index = typename Shape::index;

  CAPSTONE_FN host_team(const Shape& shape, int64 cols, int64 first_row, int64 row_step)
      : shape_(shape), cols_(index(cols)), first_row_(first_row), row_step_(row_step) {}

  CAPSTONE_FN int64 first_row() const { return first_row_; }
  CAPSTONE_FN int64 row_step() const { return row_step_; }

  template <class F>
  CAPSTONE_FN void each(F&& f) const {
    for (int block = 0; block < shape_.cluster(); ++block)
      for (int lane = 0; lane < shape_.lanes(); ++lane)
        for (index u = 0; u < shape_.units(cols_); ++u) f(position_of(shape_, block, lane, u, cols_));
  }

  template <bool Keep, class F>
  CAPSTONE_FN auto hold(F f) const {
    if constexpr (Keep) {
      static_assert(Shape::holds, "a schedule that holds a row needs a shape with a fixed number of vectors");
      held<decltype(f(position<index>{}))> kept;
      each([&](auto at) { kept.values[at.lane][at.unit] = f(at); });
      return kept;
    } else {
      return f;
    }
  }

  template <class Op, class F, class Fold>
  CAPSTONE_FN float reduce(F&& f, Fold&& fold) const {
    float parts[Shape::max_team];
    const int lanes = shape_.lanes();
    for (int l = 0; l < lanes * shape_.cluster(); ++l) parts[l] = Op::identity();
    each([&](auto at) {
      if (!at.inside) return;
      const auto v = f(at);
      for (int i = 0; i < Shape::vector; ++i) parts[at.lane] = fold(parts[at.lane], v.v[i]);
    });
    float sum = 0;
    for (int block = 0; block < shape_.cluster(); ++block) {
      float* const mine = parts + block * lanes;
      const int warp_lanes = lanes < 32 ? lanes : 32;
      float warps[32];
      for (int w = 0; w < lanes / warp_lanes; ++w)
        warps[w] = butterfly<Op>(mine + w * warp_lanes, warp_lanes);
      const float v = butterfly<Op>(warps, lanes / warp_lanes);
      sum = block == 0 ? v : Op::apply(sum, v);
    }
    return sum;
  }

  CAPSTONE_FN void finish() const {}

 private:
  template <class T>
  struct held {
    T values[Shape::max_team][Shape::unroll];
    template <class At>
    CAPSTONE_FN const T& operator()(At at) const { return values[at.lane][at.unit]; }
  };

  /// What lane 0 holds after the device's xor butterfly over n values, offset 16 first.
  template <class Op>
  static CAPSTONE_FN float butterfly(const float* values, int n) {
    float v[32], next[32];
    for (int l = 0; l < 32; ++l) v[l] = l < n ? values[l] : Op::identity();
    for (int o = 16; o > 0; o /= 2) {
      if (o >= n) continue;
      for (int l = 0; l < 32; ++l) next[l] = Op::apply(v[l], v[l ^ o]);
      for (int l = 0; l < 32; ++l) v[l] = next[l];
    }
    return v[0];
  }

  Shape shape_;
  index cols_;
  int64 first_row_, row_step_;
};

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

}  // namespace capstone::detail
