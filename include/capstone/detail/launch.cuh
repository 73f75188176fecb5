// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The library's only `__global__` function, its host twin, and the path from a call to a launch.
#pragma once

#include <capstone/detail/row_config.cuh>
#include <capstone/detail/team.cuh>

#if !defined(__CUDACC_RTC__)
#include <capstone/detail/status.hpp>
#include <capstone/detail/table.hpp>
#endif

namespace capstone::detail {

#if defined(__CUDACC__)
/// A kernel is a class, never a value, in the template argument: nvcc 13.0 cannot name a
/// namespaced class-type value in the host stub of a `__global__` template.
template <class Kernel>
__global__ void __launch_bounds__(Kernel::max_threads)
    entry(const __grid_constant__ typename Kernel::params p) {
  Kernel::template on_team<Kernel, device_team>(p);
}
#endif

#if !defined(__CUDACC_RTC__)

/// Runs `Kernel` on the host team over the rows that a grid of `blocks` blocks would work on.
template <class Kernel>
void run_on_host(const typename Kernel::params& p, int64 blocks) {
  const int64 step = blocks / Kernel::team_blocks(p) * Kernel::team_rows(p);
  for (int64 first = 0; first < step; ++first)
    Kernel::template on_team<Kernel, host_team>(p, first, step);
}

/// Grid, block and cluster of one launch.
struct launch_size {
  int64 blocks = 0;
  int threads = 0, cluster = 1;
};

/// The attributes of every device, read once per process.
struct device_list {
  static constexpr int most = 64;
  int count = 0;
  device_key keys[most] = {};

  static const device_list& get() {
    static const device_list list = read();
    return list;
  }

 private:
  static device_list read() {
    device_list list;
    if (cudaGetDeviceCount(&list.count) != cudaSuccess) list.count = 0;
    if (list.count > most) list.count = most;
    for (int d = 0; d < list.count; ++d) {
      int major = 0, minor = 0, sms = 0, l2 = 0;
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, d);
      cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, d);
      cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, d);
      cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, d);
      list.keys[d] = {10 * major + minor, sms, l2};
    }
    return list;
  }
};

/// A matrix in memory as the checks of a call see it.
struct matrix_view {
  const char* name;
  const void* data;
  int element_bytes;
  int64 rows, cols, stride;  ///< in elements

  uint64 begin() const { return reinterpret_cast<uint64>(data); }
  uint64 end() const {
    return begin() + (uint64(rows - 1) * uint64(stride) + uint64(cols)) * uint64(element_bytes);
  }
  bool same_place(const matrix_view& o) const {
    return data == o.data && element_bytes == o.element_bytes && stride == o.stride;
  }
  /// Whether any element may share a byte with one of `o`. Interleaved matrices of equal stride
  /// (columns of a packed tensor) are told apart exactly; unequal strides by their ranges.
  bool overlaps(const matrix_view& o) const {
    if (end() <= o.begin() || o.end() <= begin()) return false;
    const uint64 pitch = uint64(stride) * uint64(element_bytes);
    if (pitch != uint64(o.stride) * uint64(o.element_bytes)) return true;
    const uint64 ahead = o.begin() >= begin() ? (o.begin() - begin()) % pitch
                                              : (pitch - (begin() - o.begin()) % pitch) % pitch;
    return ahead < uint64(cols) * element_bytes || pitch - ahead < uint64(o.cols) * o.element_bytes;
  }
  /// Whether rows can be moved `vector` elements at a time, at most 16 bytes an access.
  bool allows(int vector) const {
    const uint64 bytes = uint64(vector * element_bytes < 16 ? vector * element_bytes : 16);
    return begin() % bytes == 0 && uint64(stride) * uint64(element_bytes) % bytes == 0 &&
           cols % vector == 0;
  }
};

/// The widest vector, a power of two up to 16 bytes of the first matrix, that all allow.
/// Matrices without data do not count.
template <int N>
int widest_vector(const matrix_view (&all)[N]) {
  for (int v = 16 / all[0].element_bytes; v > 1; v /= 2) {
    bool fits = true;
    for (const auto& m : all) fits = fits && (m.data == nullptr || m.allows(v));
    if (fits) return v;
  }
  return 1;
}

/// The part of a config that is compiled: how many blocks a looping grid has changes only the grid.
constexpr row_config compiled_part(row_config c) {
  c.schedule.persistent = 0;
  return c;
}

/// The kernel of `Op` for row `I` of its table, registers sized for the widest row it covers.
template <class Op, class Table, int I>
using table_kernel = typename Op::template kernel<
    compiled_part(Table::rows[I].config),
    int(row_steps(Table::rows[I].config.reduction, Table::rows[I].cols_max))>;

/// The config of the run-time path: its reduction comes with the params, these lanes are not used.
constexpr row_config runtime_config(int load_bytes) {
  return {.reduction = {.lanes = 1, .elements = 1, .cluster = 1},
          .schedule = {.load_bytes = load_bytes, .hold = row_hold::reread, .weights = row_weights::as_used}};
}
template <class Op, int V>
using runtime_kernel = typename Op::template kernel<runtime_config(V * Op::element_bytes), 0>;

/// Which kernel a call gets, and whether it is the run-time path.
struct row_selection {
  row_choice choice;
  int vector = 1;            ///< of the run-time path
  bool fallback = false;     ///< the run-time path, though the table has the cols
};

template <class Op, class Table>
row_selection select_row_kernel(const device_key& device, int64 rows, int64 cols, int vector) {
  row_selection s{choose<Table>(device, Op::variant, Op::dtype, rows, cols, Op::element_bytes)};
  if (s.choice.row >= 0 && Table::rows[s.choice.row].config.schedule.load_bytes > vector * Op::element_bytes)
    s.choice.row = -1;
  s.vector = vector < s.choice.reduction.elements ? vector : s.choice.reduction.elements;
  s.fallback = s.choice.match != match_kind::none && s.choice.row < 0;
  return s;
}

/// The selection in the caller's words.
template <class Op, class Table>
config_choice query_row_kernel(const device_key& device, int64 rows, int64 cols, int vector) {
  const row_selection s = select_row_kernel<Op, Table>(device, rows, cols, vector);
  config_choice c{s.choice.match, runtime_config(s.vector * Op::element_bytes), s.fallback};
  c.config.reduction = s.choice.reduction;
  c.config.schedule.tile_rows = default_tile_rows(s.choice.reduction);
  if (s.choice.row >= 0) c.config = Table::rows[s.choice.row].config;
  return c;
}

/// The launch of the run-time path; writes the reduction into the params.
template <class Params>
launch_size runtime_launch(Params& p, const row_reduction& r) {
  p.reduction = r;
  p.tile_rows = default_tile_rows(r);
  row_config c{.reduction = r, .schedule = {.tile_rows = p.tile_rows}};
  return {row_grid(c, p.rows, 0), block_threads(c), r.cluster};
}

/// Calls f.template operator()<Kernel>(launch_size) with the kernel that `s` names.
template <class Op, class Table, class F, int I = 0>
auto visit_row_kernel(const row_selection& s, typename Op::params& p, int sms, F&& f) {
  if constexpr (I < Table::count) {
    if constexpr (same_text(Table::rows[I].variant, Op::variant) &&
                  same_text(Table::rows[I].dtype, Op::dtype)) {
      if (s.choice.row == I) {
        constexpr row_config c = Table::rows[I].config;
        return f.template operator()<table_kernel<Op, Table, I>>(
            launch_size{row_grid(c, p.rows, sms), block_threads(c), c.reduction.cluster});
      }
    }
    return visit_row_kernel<Op, Table, F, I + 1>(s, p, sms, static_cast<F&&>(f));
  } else {
    const launch_size size = runtime_launch(p, s.choice.reduction);
    constexpr int most = 16 / Op::element_bytes;
    if constexpr (most >= 8)
      if (s.vector == 8) return f.template operator()<runtime_kernel<Op, 8>>(size);
    if (s.vector == 4) return f.template operator()<runtime_kernel<Op, 4>>(size);
    if (s.vector == 2) return f.template operator()<runtime_kernel<Op, 2>>(size);
    return f.template operator()<runtime_kernel<Op, 1>>(size);
  }
}

/// The shipped path on the host team. No GPU, so no entry of a table fits: the default reduction.
template <class Op, class Table>
void run_rows_on_host(typename Op::params p, int vector) {
  const row_selection s = select_row_kernel<Op, Table>({}, p.rows, p.cols, vector);
  visit_row_kernel<Op, Table>(s, p, 0, [&]<class Kernel>(const launch_size& size) {
    run_on_host<Kernel>(p, size.blocks);
  });
}

#if defined(__CUDACC__)

template <class Kernel>
cudaError_t launch(const typename Kernel::params& p, const launch_size& size, cudaStream_t stream) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(size.blocks));
  config.blockDim = dim3(unsigned(size.threads));
  config.stream = stream;
  cudaLaunchAttribute attributes[1];
  if (size.cluster > 1) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = unsigned(size.cluster);
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    config.attrs = attributes;
    config.numAttrs = 1;
  }
  void* arguments[] = {const_cast<typename Kernel::params*>(&p)};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(&entry<Kernel>), arguments);
}

/// Selects and launches on the device that `stream` belongs to, which need not be the current one.
template <class Op, class Table>
status launch_rows(typename Op::params p, int vector, cudaStream_t stream) {
  int current = 0;
  if (const cudaError_t e = cudaGetDevice(&current)) return e;
  int target = current;
  // CUDA refuses to name the device of a stream that is being captured (13.0, driver 580), so a
  // capture goes by the current device; it has to be the stream's for any launch in it anyway.
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  if (const cudaError_t e = cudaStreamIsCapturing(stream, &capture)) return e;
  if (capture == cudaStreamCaptureStatusNone)
    if (const cudaError_t e = cudaStreamGetDevice(stream, &target)) return e;
  if (target != current)
    if (const cudaError_t e = cudaSetDevice(target)) return e;
  const device_key key = target < device_list::most ? device_list::get().keys[target] : device_key{};
  const row_selection s = select_row_kernel<Op, Table>(key, p.rows, p.cols, vector);
  const cudaError_t code = visit_row_kernel<Op, Table>(
      s, p, key.sms, [&]<class Kernel>(const launch_size& size) { return launch<Kernel>(p, size, stream); });
  if (target != current) cudaSetDevice(current);
  return code;
}

#endif  // __CUDACC__
#endif  // !__CUDACC_RTC__

}  // namespace capstone::detail
