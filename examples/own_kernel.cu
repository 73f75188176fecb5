// nvcc -std=c++20 -arch=native -I include -I . -shared -Xcompiler -fPIC examples/own_kernel.cu -o build/own_kernel.so
// build/bin/autotune --spec build/own_kernel.so --kernel l2_normalize --dtype f16 --shape 4096x1024 --out build/own
// build/bin/claims verify --spec build/own_kernel.so --kernel l2_normalize --out build/own
//
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
//
// (After tools/quickstart, which makes build/. Without a GPU: -arch=sm_90, and --device host.)
//
// A kernel of one's own with its spec: L2 normalisation of rows, y = x / sqrt(sum(x^2) + eps). In
// this repository the two parts below would be include/capstone/l2_normalize.cuh and
// specs/l2_normalize.cu, and nothing else would change.

// ---- include/capstone/l2_normalize.cuh ------------------------------------------------------------
#include <capstone/detail/launch.cuh>

namespace capstone {
namespace detail {

template <class T>
struct l2_normalize_params {
  const T* x;
  T* y;
  int64 rows, cols;
  float eps;
  int tile_rows;            // these two belong to the run-time path
  row_reduction reduction;
};

template <class T, row_config C, int Steps>
struct l2_normalize_kernel : row_kernel<C, Steps, sizeof(T)> {
  using base = row_kernel<C, Steps, sizeof(T)>;
  using params = l2_normalize_params<T>;

  template <row_schedule S, class Team>
  static CAPSTONE_FN void run(Team& team, const params& p) {
    for (int64 row = team.first_row(); row < p.rows; row += team.row_step()) {
      const T* const x = p.x + row * p.cols;
      T* const y = p.y + row * p.cols;
      const auto load_x = [=](auto at) {
        raw<T, base::vector> v{};
        if (at.inside) v = load<base::vector>(x + at.offset);
        return v;
      };
      const auto kept = team.template hold<S.hold != row_hold::reread>(load_x);
      const auto value = [&](auto at) { return widen(kept(at)); };
      const float squares = team.template reduce<add>(value, [](float part, float v) { return fma_rn(v, v, part); });
      const float scale = rsqrt(add_rn(squares, p.eps));
      team.each([&](auto at) {
        floats<base::vector> v = value(at);
        for (float& e : v.v) e = mul_rn(e, scale);
        if (at.inside) store<base::vector>(y + at.offset, narrow<T>(v));
      });
    }
  }
};

#if !defined(__CUDACC_RTC__)
template <class T>
struct l2_normalize_op {
  using params = l2_normalize_params<T>;
  static constexpr const char* variant = "";
  static constexpr const char* dtype = "f16";
  static constexpr int element_bytes = sizeof(T);
  template <row_config C, int Steps>
  using kernel = l2_normalize_kernel<T, C, Steps>;
};
struct no_table {  // `autotune` writes the one that would stand here
  static constexpr int count = 0;
  static constexpr table_row<row_config> rows[] = {{}};
};
#endif

}  // namespace detail
}  // namespace capstone

// ---- specs/l2_normalize.cu ------------------------------------------------------------------------
#if defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#include "core/check.cuh"
#include "core/row_spec.hpp"

namespace capstone::tools {
namespace {

using l2_op = detail::l2_normalize_op<f16>;

prepared_call<l2_op> prepare(const problem& p, const pointers& at) {
  const detail::int64 rows = p.shape[0], cols = p.shape[1];
  const auto *x = static_cast<const f16*>(at[0]), *y = static_cast<const f16*>(at[1]);
  return {{x, static_cast<f16*>(at[1]), rows, cols, 1e-6f, 0, {}},
          detail::widest_vector<2>({{"x", x, 2, rows, cols, cols}, {"y", y, 2, rows, cols, cols}})};
}

struct l2_reference {  // in float64; the tolerance follows the order of accumulation, then rsqrt (4 u), one product
  const f16 *x, *y;
  std::int64_t cols;
  double depth;
  __host__ __device__ void operator()(std::int64_t row, tally* tallies) const {
    double squares = 0;
    for (std::int64_t c = 0; c < cols; ++c) squares += pow(double(__half2float(x[row * cols + c])), 2);
    const double scale = 1 / sqrt(squares + double(1e-6f)), relative = 1.01 * (gamma_bound(depth + 1) / 2 + 5 * f32_unit);
    for (std::int64_t c = 0; c < cols; ++c) {
      const double want = double(__half2float(x[row * cols + c])) * scale;
      tallies[0].add(row, c, y[row * cols + c], want, fabs(want) * relative + 0x1p-149);
    }
  }
};

kernel_spec l2_kernel() {
  kernel_spec k;
  k.op = "l2_normalize";
  k.rounding = "float32 throughout";
  add_row_plans<l2_op, detail::no_table>(k, "capstone::detail::l2_normalize_kernel<capstone::f16", prepare);
  k.buffers = [](const problem& p) {
    const std::int64_t rows = p.shape[0], cols = p.shape[1];
    return std::vector<buffer_desc>{{"x", role::in, dtype::f16, rows, cols, cols, p.offset, -1, p.data},
                                    {"y", role::out, dtype::f16, rows, cols, cols, p.offset, p.in_place ? 0 : -1}};
  };
  k.check = [](const problem& p, const pointers& in, const pointers& out, const config& c, bool on_host) {
    return check_rows<1>(l2_reference{static_cast<const f16*>(in[0]), static_cast<const f16*>(out[1]), p.shape[1],
                                      row_tree_depth(to_row_config(c).reduction, p.shape[1])},
                         p.shape[0], {"y"}, p.data != "normal", on_host);
  };
  k.traffic = [](const problem& p) {
    const std::int64_t bytes = p.shape[0] * p.shape[1] * 2;
    return traffic_model{bytes, bytes, 1, 1};
  };
  k.work = [](const problem& p, const config& c) {
    return work_model{3.0 * double(p.shape[0]) * double(p.shape[1]), double(p.shape[0]) * to_row_config(c).reduction.lanes, 0};
  };
  add_row_calls<l2_op, detail::no_table>(k, prepare);
  return k;
}

const register_op registered([] {
  op o = make_row_op("l2_normalize", "examples/own_kernel.cu");
  o.suites = {{"llm", {{{4096, 1024}}}}, {"edge", {{{3, 1}}, {{7, 129}}, {{5, 4096}}, {.shape = {6, 264}, .offset = 1}, {.shape = {6, 264}, .in_place = true}}}};
  o.kernels = {l2_kernel()};
  return o;
}());

}  // namespace
}  // namespace capstone::tools
#endif
