// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The two teams reduce to the same bits, in every geometry a config can name.

#include <capstone/detail/launch.cuh>

#include "core/spec.hpp"
#include "tests/gpu/device_buffer.hpp"

using namespace capstone;
using namespace capstone::tests;

namespace {

struct reduce_params {
  const f16* x;
  float* out;  // per row: sum of squares, maximum, sum
  detail::int64 rows, cols;
  row_reduction reduction;
  int tile_rows;
};

template <row_config C, int Steps, int Vector>
struct reduce_kernel : detail::row_kernel<C, Steps, sizeof(f16)> {
  using params = reduce_params;
  template <row_schedule S, class Team>
  static CAPSTONE_FN void run(Team& team, const params& p) {
    for (detail::int64 row = team.first_row(); row < p.rows; row += team.row_step()) {
      const f16* x = p.x + row * p.cols;
      const auto load = [=](auto at) {
        detail::raw<f16, Vector> v{};
        if (at.inside) v = detail::load<Vector>(x + at.offset);
        return detail::widen(v);
      };
      const float squares = team.template reduce<detail::add>(load, [](float a, float v) { return detail::fma_rn(v, v, a); });
      const float most = team.template reduce<detail::maximum>(load, [](float a, float v) { return detail::maximum::apply(a, v); });
      const float sum = team.template reduce<detail::add>(load, [](float a, float v) { return detail::add_rn(a, v); });
      p.out[row * 3] = squares, p.out[row * 3 + 1] = most, p.out[row * 3 + 2] = sum;
    }
  }
};

/// Runs on both teams and compares bits; also against the run-time shape with the same reduction.
template <row_config C, int Cols, int Vector = 8>
void compare() {
  CAPTURE(C.reduction.lanes);
  CAPTURE(C.reduction.elements);
  CAPTURE(C.reduction.cluster);
  CAPTURE(C.schedule.tile_rows);
  CAPTURE(Cols);
  constexpr int rows = 29, steps = int(detail::row_steps(C.reduction, Cols));
  using fixed = reduce_kernel<C, steps, Vector>;
  using at_run_time = reduce_kernel<detail::runtime_config(2 * Vector), 0, Vector>;

  const auto x = normals<f16>(rows * Cols, 7 + Cols);
  const device_buffer<f16> dx(x);
  device_buffer<float> out(rows * 3);
  reduce_params p{dx.get(), out.get(), rows, Cols, C.reduction, C.schedule.tile_rows};
  const detail::launch_size size{detail::row_grid(C, rows, 0), detail::block_threads(C), C.reduction.cluster};

  out.poison();
  CHECK_CUDA(detail::launch<fixed>(p, size, nullptr));
  CHECK_CUDA(cudaDeviceSynchronize());
  const auto on_device = out.host();
  out.poison();
  // Half the grid: every team works on several rows.
  CHECK_CUDA(detail::launch<at_run_time>(p, {(size.blocks / size.cluster + 1) / 2 * size.cluster, size.threads, size.cluster}, nullptr));
  CHECK_CUDA(cudaDeviceSynchronize());
  CHECK(same_bits(out.host(), on_device));

  std::vector<float> on_host(rows * 3, NAN);
  p.x = x.data(), p.out = on_host.data();
  detail::run_on_host<fixed>(p, size.blocks);
  CHECK(same_bits(on_host, on_device));
}

template <int Lanes, int Elements, int Cluster, int TileRows, int Vector = 8>
constexpr row_config config_of() {
  return {.reduction = {Lanes, Elements, Cluster}, .schedule = {.tile_rows = TileRows, .load_bytes = 2 * Vector}};
}

}  // namespace

TEST_CASE("team: host and device agree bitwise on sums and maxima, parts of a warp") {
  compare<config_of<1, 8, 1, 32>(), 8>();
  compare<config_of<2, 8, 1, 5>(), 24>();
  compare<config_of<8, 8, 1, 16>(), 64>();
  compare<config_of<8, 16, 1, 7>(), 200>();
  compare<config_of<16, 8, 1, 8>(), 256>();
  compare<config_of<32, 8, 1, 4>(), 1000>();
  compare<config_of<4, 1, 1, 32, 1>(), 13, 1>();
}

TEST_CASE("team: host and device agree bitwise on sums and maxima, several warps") {
  compare<config_of<64, 8, 1, 4>(), 1024>();
  compare<config_of<96, 8, 1, 3>(), 1544>();
  compare<config_of<160, 8, 1, 2>(), 5120>();
  compare<config_of<256, 8, 1, 1>(), 4096>();
  compare<config_of<448, 16, 1, 1>(), 7168>();
  compare<config_of<1024, 8, 1, 1>(), 8200>();
  compare<config_of<128, 4, 1, 1, 1>(), 769, 1>();
}

TEST_CASE("team: host and device agree bitwise on sums and maxima, clusters") {
  int major = 0;
  CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
  if (major < 9) {
    MESSAGE("skipped: clusters need compute capability 9.0");
    return;
  }
  compare<config_of<256, 8, 2, 1>(), 16384>();
  compare<config_of<512, 8, 4, 1>(), 32776>();
  compare<config_of<32, 8, 8, 1>(), 4000>();
}

namespace {

/// The run-time path, short rows and long ones, on both teams with the default reduction.
template <int Vector>
void compare_at_run_time(int rows, int cols) {
  CAPTURE(cols);
  CAPTURE(Vector);
  using kernel = reduce_kernel<detail::runtime_config(2 * Vector), 0, Vector>;
  const auto x = normals<f16>(std::size_t(rows) * cols, unsigned(cols));
  const device_buffer<f16> dx(x);
  device_buffer<float> out(std::size_t(rows) * 3);
  reduce_params p{dx.get(), out.get(), rows, cols, {}, 0};
  const detail::launch_size size = detail::runtime_launch(p, detail::default_reduction(cols, 2));
  CHECK_CUDA(detail::launch<kernel>(p, size, nullptr));
  CHECK_CUDA(cudaDeviceSynchronize());
  std::vector<float> on_host(std::size_t(rows) * 3, NAN);
  p.x = x.data(), p.out = on_host.data();
  detail::run_on_host<kernel>(p, size.blocks);
  CHECK(same_bits(on_host, out.host()));
}

}  // namespace

TEST_CASE("team: host and device agree bitwise on sums and maxima, every row shape of the edge suite") {
  const auto& edge = tools::find_kernel("rms_norm", "bf16").first->suite("edge");
  for (const auto& p : edge) {
    const int rows = int(p.shape[0]), cols = int(p.shape[1]);
    if (rows == 0) continue;
    compare_at_run_time<1>(rows, cols);
    if (cols % 2 == 0) compare_at_run_time<2>(rows, cols);
    if (cols % 4 == 0) compare_at_run_time<4>(rows, cols);
    if (cols % 8 == 0) compare_at_run_time<8>(rows, cols);
  }
}

TEST_CASE("team: a maximum keeps a NaN wherever it stands") {
  constexpr int cols = 520;
  for (const int at : {0, 7, 263, 519}) {
    auto x = normals<f16>(cols, 3);
    x[std::size_t(at)] = detail::from_f32<f16>(NAN);
    const device_buffer<f16> dx(x);
    device_buffer<float> out(3);
    constexpr row_config c = config_of<64, 8, 1, 1>();
    CHECK_CUDA((detail::launch<reduce_kernel<config_of<64, 8, 1, 1>(), 2, 8>>(
        {dx.get(), out.get(), 1, cols, c.reduction, 1}, {1, 64, 1}, nullptr)));
    CHECK_CUDA(cudaDeviceSynchronize());
    CHECK(std::isnan(out.host()[1]));
  }
}
