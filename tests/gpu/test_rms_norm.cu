// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Promises of rms_norm that compare runs with each other; `claims verify` compares with float64.

#include <capstone/fused.cuh>

#include "tests/gpu/device_buffer.hpp"

using namespace capstone;
using namespace capstone::tests;

namespace {

constexpr row_reduction one_reduction = {.lanes = 128, .elements = 8, .cluster = 1};
constexpr detail::table_row<row_config> row(long long rows, row_schedule s) {
  return {.device = {}, .variant = "+residual", .dtype = "bf16", .cols_min = 4096, .cols_max = 4096,
          .rows_min = rows, .rows_max = rows, .rows_tuned = rows, .config = {one_reduction, s}};
}

/// Schedules of one reduction for 4096 columns, one for each row count.
struct many_schedules {
  static constexpr int count = 7;
  static constexpr detail::table_row<row_config> rows[] = {
      row(1, {.hold = row_hold::registers, .weights = row_weights::early}),
      row(2, {.tile_rows = 2, .hold = row_hold::packed, .weights = row_weights::late}),
      row(3, {.hold = row_hold::packed, .weights = row_weights::as_used, .cache = detail::cache_use::streaming}),
      row(4, {.load_bytes = 8, .hold = row_hold::registers}),
      row(5, {.tile_rows = 4, .hold = row_hold::reread, .persistent = 1}),
      row(6, {.hold = row_hold::packed, .persistent = 2}),
      row(7, {.hold = row_hold::registers, .weights = row_weights::once, .persistent = 1}),
  };
};

using op = detail::rms_norm_op<bf16, bf16, bf16, true, rounding::none>;

/// The table's row for `rows` rows, launched as the shipped path does, on whatever GPU this is.
void call_row(const rms_norm_problem<bf16>& q, int row) {
  detail::rms_norm_params<bf16, bf16, bf16> p;
  int vector = 1;
  REQUIRE(detail::prepare(q, p, vector).ok());
  detail::row_selection s;
  s.choice = {match_kind::exact, row, one_reduction};
  s.vector = vector;
  const cudaError_t code = detail::visit_row_kernel<op, many_schedules>(
      s, p, 1 /* SM, so that looping grids loop */, [&]<class Kernel>(const detail::launch_size& size) { return detail::launch<Kernel>(p, size, nullptr); });
  CHECK_CUDA(code);
  CHECK_CUDA(cudaDeviceSynchronize());
}

}  // namespace

TEST_CASE("rms_norm: no schedule changes a bit of a result") {
  constexpr int rows = 7, cols = 4096;
  const auto x = normals<bf16>(rows * cols, 1), r = normals<bf16>(rows * cols, 2), w = normals<bf16>(cols, 3);
  const device_buffer<bf16> dx(x), dr(r), dw(w);
  device_buffer<bf16> y(rows * cols), sum(rows * cols);
  const rms_norm_problem<bf16> q{.x = dx.get(), .residual = dr.get(), .weight = dw.get(), .y = y.get(),
                                 .residual_out = sum.get(), .rows = rows, .cols = cols};
  call_row(q, -1);  // the run-time path
  const auto y0 = y.host(), sum0 = sum.host();
  for (int row = 0; row < many_schedules::count; ++row) {
    CAPTURE(row);
    y.poison(), sum.poison();
    call_row(q, row);
    CHECK(same_bits(y.host(), y0));
    CHECK(same_bits(sum.host(), sum0));
  }
}

TEST_CASE("rms_norm: a row is bitwise the same alone and in any batch, tuned row count or not") {
  // Columns with and without frozen entries; row counts on, beside and beyond the tuned ones.
  for (const long long cols : {64, 128, 256, 1024, 3584, 4096, 5120, 7168, 8192, 200, 769}) {
    CAPTURE(cols);
    constexpr long long most = 600;
    const auto x = normals<bf16>(std::size_t(most * cols), 5), w = normals<bf16>(std::size_t(cols), 6);
    const device_buffer<bf16> dx(x), dw(w);
    device_buffer<bf16> batch(std::size_t(most * cols)), some(std::size_t(most * cols));
    REQUIRE(rms_norm<bf16>({.x = dx.get(), .weight = dw.get(), .y = batch.get(), .rows = most, .cols = cols}, nullptr).ok());
    const auto want = batch.host();
    for (const long long rows : {1, 2, 63, 64, 65, 511, 512, 513}) {
      CAPTURE(rows);
      some.poison();
      REQUIRE(rms_norm<bf16>({.x = dx.get(), .weight = dw.get(), .y = some.get(), .rows = rows, .cols = cols}, nullptr).ok());
      auto got = some.host();
      got.resize(std::size_t(rows * cols));
      CHECK(same_bits(got, {want.begin(), want.begin() + rows * cols}));
    }
  }
}

TEST_CASE("rms_norm: a row is bitwise the same at any alignment and stride") {
  constexpr long long cols = 4096, rows = 3;
  const auto x = normals<bf16>(rows * cols, 8), w = normals<bf16>(cols, 9);
  const device_buffer<bf16> dx(x), dw(w);
  device_buffer<bf16> y(rows * cols);
  REQUIRE(rms_norm<bf16>({.x = dx.get(), .weight = dw.get(), .y = y.get(), .rows = rows, .cols = cols}, nullptr).ok());
  const auto want = y.host();
  for (const int offset : {1, 2, 3, 4, 8})
    for (const int pad : {0, 1, 2, 8, 100}) {
      CAPTURE(offset);
      CAPTURE(pad);
      const long long stride = cols + pad;
      std::vector<bf16> moved(std::size_t(rows * stride + offset));
      for (long long row = 0; row < rows; ++row)
        std::memcpy(&moved[std::size_t(offset + row * stride)], &x[std::size_t(row * cols)], cols * sizeof(bf16));
      const device_buffer<bf16> dm(moved);
      device_buffer<bf16> out(moved.size());
      REQUIRE(rms_norm<bf16>({.x = dm.get() + offset, .weight = dw.get(), .y = out.get() + offset, .rows = rows, .cols = cols, .x_stride = stride, .y_stride = stride}, nullptr).ok());
      const auto got = out.host();
      for (long long row = 0; row < rows; ++row)
        CHECK(std::memcmp(&got[std::size_t(offset + row * stride)], &want[std::size_t(row * cols)], cols * sizeof(bf16)) == 0);
    }
}

TEST_CASE("rms_norm: in place gives the bits of out of place, on every schedule and the run-time path") {
  constexpr int rows = 7, cols = 4096;
  const auto x = normals<bf16>(rows * cols, 11), r = normals<bf16>(rows * cols, 12), w = normals<bf16>(cols, 13);
  device_buffer<bf16> dx(x), dr(r);
  const device_buffer<bf16> dw(w);
  device_buffer<bf16> y(rows * cols), sum(rows * cols);
  call_row({.x = dx.get(), .residual = dr.get(), .weight = dw.get(), .y = y.get(), .residual_out = sum.get(), .rows = rows, .cols = cols}, 0);
  const auto want_y = y.host(), want_sum = sum.host();
  for (int row = -1; row < many_schedules::count; ++row)
    for (const bool swapped : {false, true}) {
      CAPTURE(row);
      dx.put(x), dr.put(r);
      bf16* const to_y = swapped ? dr.get() : dx.get();
      bf16* const to_sum = swapped ? dx.get() : dr.get();
      call_row({.x = dx.get(), .residual = dr.get(), .weight = dw.get(), .y = to_y, .residual_out = to_sum, .rows = rows, .cols = cols}, row);
      CHECK(same_bits((swapped ? dr : dx).host(), want_y));
      CHECK(same_bits((swapped ? dx : dr).host(), want_sum));
    }
}

TEST_CASE("rms_norm: captured in a graph it gives the same bits as a plain call") {
  constexpr int rows = 65, cols = 1000;
  const auto x = normals<f16>(rows * cols, 14);
  const device_buffer<f16> dx(x);
  device_buffer<f16> y(rows * cols);
  cudaStream_t stream;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  REQUIRE(rms_norm<f16>({.x = dx.get(), .y = y.get(), .rows = rows, .cols = cols}, stream).ok());
  CHECK_CUDA(cudaStreamSynchronize(stream));
  const auto want = y.host();
  y.poison();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  const status captured = rms_norm<f16>({.x = dx.get(), .y = y.get(), .rows = rows, .cols = cols}, stream);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);  // a failure must not poison later tests
  REQUIRE_MESSAGE(captured.ok(), captured.sentence().c_str());
  CHECK_CUDA(ended);
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  CHECK(same_bits(y.host(), want));
  cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
}

TEST_CASE("rms_norm: the first call of an instantiation may be inside a capture") {
  constexpr int rows = 3, cols = 513;
  const auto x = normals<f16>(rows * cols, 16);
  const device_buffer<f16> dx(x);
  device_buffer<float> y(rows * cols);
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CHECK_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  // Dtypes that no other test uses.
  const status captured = rms_norm<f16, f16, float>({.x = dx.get(), .y = y.get(), .rows = rows, .cols = cols}, stream);
  const cudaError_t ended = cudaStreamEndCapture(stream, &graph);
  REQUIRE_MESSAGE(captured.ok(), captured.sentence().c_str());
  CHECK_CUDA(ended);
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  CHECK_CUDA(cudaGraphLaunch(exec, stream));
  CHECK_CUDA(cudaStreamSynchronize(stream));
  std::vector<float> on_host(rows * cols);
  REQUIRE(rms_norm_on_host<f16, f16, float>({.x = x.data(), .y = on_host.data(), .rows = rows, .cols = cols}).ok());
  const auto got = y.host();
  for (int i = 0; i < rows * cols; ++i) CHECK(std::abs(got[std::size_t(i)] - on_host[std::size_t(i)]) <= 1e-6f * std::abs(on_host[std::size_t(i)]));
  cudaGraphExecDestroy(exec), cudaGraphDestroy(graph), cudaStreamDestroy(stream);
}

TEST_CASE("rms_norm: NaN stays in its row, infinity gives NaN at its place and zeros beside it") {
  constexpr int cols = 4096;
  auto x = normals<bf16>(3 * cols, 17);
  x[5] = detail::from_f32<bf16>(NAN), x[std::size_t(cols + 9)] = detail::from_f32<bf16>(INFINITY);
  const device_buffer<bf16> dx(x);
  device_buffer<bf16> y(3 * cols);
  REQUIRE(rms_norm<bf16>({.x = dx.get(), .y = y.get(), .rows = 3, .cols = cols}, nullptr).ok());
  const auto got = y.host();
  for (int c = 0; c < cols; ++c) {
    CHECK(std::isnan(detail::to_f32(got[std::size_t(c)])));
    const float second = detail::to_f32(got[std::size_t(cols + c)]);
    CHECK((c == 9 ? std::isnan(second) : second == 0.0f));
    CHECK(std::isfinite(detail::to_f32(got[std::size_t(2 * cols + c)])));
  }
}

TEST_CASE("rms_norm: zero rows launch nothing and leave no error behind") {
  device_buffer<bf16> y(64);
  REQUIRE(rms_norm<bf16>({.rows = 0, .cols = 64}, nullptr).ok());
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("rms_norm: a bad argument launches nothing and leaves no error behind") {
  CHECK(!rms_norm<bf16>({.rows = 1, .cols = 64}, nullptr).ok());
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("rms_norm: more rows than a 16-bit grid and than 2^21 row tiles") {
  constexpr long long rows = 3'000'017, cols = 8;
  const auto x = normals<bf16>(rows * cols, 15);
  const device_buffer<bf16> dx(x);
  device_buffer<bf16> y(rows * cols);
  y.poison();
  REQUIRE(rms_norm<bf16>({.x = dx.get(), .y = y.get(), .rows = rows, .cols = cols}, nullptr).ok());
  const auto got = y.host();
  std::vector<bf16> want(cols);
  for (const long long row : {0LL, 65535LL, 65536LL, 2'097'152LL, rows - 1}) {
    REQUIRE(rms_norm<bf16>({.x = dx.get() + row * cols, .y = y.get(), .rows = 1, .cols = cols}, nullptr).ok());
    const auto alone = y.host();
    CHECK(std::memcmp(&got[std::size_t(row * cols)], alone.data(), cols * sizeof(bf16)) == 0);
  }
}
