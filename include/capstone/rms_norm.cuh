// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// RMSNorm over the last dimension, with an optional residual add before it.
#pragma once

#include <capstone/detail/launch.cuh>

#if !defined(__CUDACC_RTC__)
#include <capstone/tuned/rms_norm.cuh>
#endif

namespace capstone {

/// Where a result is rounded to the type of x before the output is. Models differ, and differ in
/// their answers by this; the bits of a trained model want the points it was trained with.
enum class rounding : int {
  none,        ///< float32 throughout: variance and norm of the unrounded residual sum
  sum,         ///< the residual sum is rounded first; variance and norm are of the rounded sum
  normalized,  ///< the normalised value is rounded before it meets the weight
  both,        ///< both, as the common Llama code does (the sum is a tensor there, and so is x * rstd)
};

/// y = h / sqrt(mean(h^2) + eps) * (weight_offset + weight), h = x + residual, residual_out = h.
///
/// All matrices are row-major, `rows` x `cols`, their row stride in elements (0: cols).
template <class X, class W = X, class Out = X>
struct rms_norm_problem {
  const X* x = nullptr;         ///< in, (rows, cols)
  const X* residual = nullptr;  ///< in, (rows, cols), or null: h = x
  const W* weight = nullptr;    ///< in, (cols), or null: the factor is 1, whatever weight_offset is
  Out* y = nullptr;             ///< out, (rows, cols)
  X* residual_out = nullptr;    ///< out, (rows, cols): h rounded to X; null: not written
  long long rows = 0;           ///< >= 0; with 0 the call succeeds without a launch
  long long cols = 0;           ///< >= 1
  float eps = 1e-6f;
  float weight_offset = 0.0f;   ///< 1 for Gemma, whose weights are stored as their distance from 1
  long long x_stride = 0, residual_stride = 0, y_stride = 0, residual_out_stride = 0;
};

namespace detail {

template <class X, class W, class Out>
struct rms_norm_params {
  const X* x;
  const X* residual;
  const W* weight;
  Out* y;
  X* residual_out;
  int64 rows, cols, x_stride, residual_stride, y_stride, residual_out_stride;
  float eps, weight_offset, inverse_cols;
  int tile_rows;            // these two belong to the run-time path
  row_reduction reduction;
};

template <class X, class W, class Out, bool Residual, rounding Rounding, row_config C, int Steps>
struct rms_norm_kernel : row_kernel<C, Steps, sizeof(X)> {
  using base = row_kernel<C, Steps, sizeof(X)>;
  using params = rms_norm_params<X, W, Out>;
  static constexpr int vector = base::vector;
  static constexpr bool round_sum = Residual && (Rounding == rounding::sum || Rounding == rounding::both);
  static constexpr bool round_normalized =
      Rounding == rounding::normalized || Rounding == rounding::both;

  template <row_schedule S, class Team>
  static CAPSTONE_FN void run(Team& team, const params& p) {
    constexpr cache_use cache = S.cache;
    constexpr bool packed = S.hold == row_hold::packed;
    const float offset = p.weight_offset;
    const auto load_weight = [weight = p.weight](auto at) {
      raw<W, vector> w = filled<W, vector>(1.0f);
      if (at.inside && weight != nullptr) w = load_constant<vector>(weight + at.offset);
      return w;
    };
    const auto kept_weight = team.template hold<S.weights == row_weights::once>(load_weight);
    for (int64 row = team.first_row(); row < p.rows; row += team.row_step()) {
      const X* const x = p.x + row * p.x_stride;
      const X* const residual = Residual ? p.residual + row * p.residual_stride : nullptr;
      Out* const y = p.y + row * p.y_stride;
      X* const residual_out =
          Residual && p.residual_out ? p.residual_out + row * p.residual_out_stride : nullptr;

      const auto load_row = [](const X* from) {
        return [=](auto at) {
          raw<X, vector> v{};
          if (at.inside) v = load<vector, cache>(from + at.offset);
          return v;
        };
      };
      const auto x_part = team.template hold<packed>(load_row(x));
      const auto residual_part = team.template hold<packed && Residual>(load_row(residual));
      const auto sum = [&](auto at) {
        floats<vector> h = widen(x_part(at));
        if constexpr (Residual) {
          const floats<vector> r = widen(residual_part(at));
          for (int i = 0; i < vector; ++i) {
            h.v[i] = add_rn(h.v[i], r.v[i]);
            if constexpr (round_sum) h.v[i] = rounded_to<X>(h.v[i]);
          }
        }
        return h;
      };
      const auto h = team.template hold<S.hold == row_hold::registers>(sum);
      const auto early_weight = team.template hold<S.weights == row_weights::early>(kept_weight);

      const float square_sum =
          team.template reduce<add>(h, [](float part, float v) { return fma_rn(v, v, part); });
      const float rstd = rsqrt(fma_rn(square_sum, p.inverse_cols, p.eps));
      const auto w = team.template hold<S.weights == row_weights::late>(early_weight);

      // The sum is written here and not before the reduction: when the row is read again, an
      // output that aliases an input must not have changed yet.
      team.each([&](auto at) {
        const floats<vector> value = h(at);
        const floats<vector> factor = widen(w(at));
        floats<vector> out;
        for (int i = 0; i < vector; ++i) {
          float n = mul_rn(value.v[i], rstd);
          if constexpr (round_normalized) n = rounded_to<X>(n);
          out.v[i] = mul_rn(n, add_rn(offset, factor.v[i]));
        }
        if (!at.inside) return;
        if (Residual && residual_out != nullptr)
          store<vector, cache>(residual_out + at.offset, narrow<X>(value));
        store<vector, cache>(y + at.offset, narrow<Out>(out));
      });
    }
  }
};

#if !defined(__CUDACC_RTC__)

template <class T> inline constexpr const char* dtype_token = nullptr;
template <> inline constexpr const char* dtype_token<f32> = "f32";
template <> inline constexpr const char* dtype_token<f16> = "f16";
template <> inline constexpr const char* dtype_token<bf16> = "bf16";

/// "bf16", or "bf16-f32-bf16" where x, weight and out differ.
template <class X, class W, class Out>
struct dtype_name {
  static_assert(dtype_token<X> != nullptr && dtype_token<W> != nullptr && dtype_token<Out> != nullptr,
                "the element types of x, weight and y must be f32, f16 or bf16");
  char text[16] = {};
  constexpr dtype_name() {
    int n = 0;
    const auto put = [&](const char* s) {
      while (*s) text[n++] = *s++;
    };
    put(dtype_token<X>);
    if (!same_text(dtype_token<X>, dtype_token<W>) || !same_text(dtype_token<X>, dtype_token<Out>)) {
      put("-");
      put(dtype_token<W>);
      put("-");
      put(dtype_token<Out>);
    }
  }
};
template <class X, class W, class Out>
inline constexpr dtype_name<X, W, Out> dtype_name_of{};

/// What the launcher needs to know of one instantiation. The rounding points do not enter the
/// look-up: they move no byte, so all of them share the frozen configs.
template <class X, class W, class Out, bool Residual, rounding Rounding>
struct rms_norm_op {
  using params = rms_norm_params<X, W, Out>;
  static constexpr const char* variant = Residual ? "+residual" : "";
  static constexpr const char* dtype = dtype_name_of<X, W, Out>.text;
  static constexpr int element_bytes = int(sizeof(X));
  template <row_config C, int Steps>
  using kernel = rms_norm_kernel<X, W, Out, Residual, Rounding, C, Steps>;
};

/// Checks the arguments and turns them into params; `vector` is the widest access they allow.
template <class X, class W, class Out>
status prepare(const rms_norm_problem<X, W, Out>& q, rms_norm_params<X, W, Out>& p, int& vector) {
  const auto stride = [&](long long s) { return s == 0 ? q.cols : s; };
  p = {q.x, q.residual, q.weight, q.y, q.residual_out, q.rows, q.cols, stride(q.x_stride),
       stride(q.residual_stride), stride(q.y_stride), stride(q.residual_out_stride), q.eps,
       q.weight != nullptr ? q.weight_offset : 0.0f, float(1.0 / double(q.cols)), 0, {}};
  if (q.rows < 0) return {"rows", q.rows, "0 or more"};
  if (q.cols < 1) return {"cols", q.cols, "1 or more"};
  constexpr const char* wide = "0 (for cols) or at least cols";
  if (p.x_stride < q.cols) return {"x_stride", q.x_stride, wide};
  if (p.residual_stride < q.cols) return {"residual_stride", q.residual_stride, wide};
  if (p.y_stride < q.cols) return {"y_stride", q.y_stride, wide};
  if (p.residual_out_stride < q.cols) return {"residual_out_stride", q.residual_out_stride, wide};
  if (q.rows == 0) return {};
  if (q.rows == 1)  // there is no second row: a stride means nothing, nor may it cost alignment
    p.x_stride = p.residual_stride = p.y_stride = p.residual_out_stride = q.cols;
  constexpr long long most = 1LL << 60;  // elements; every address below stays within 64 bits
  if (q.cols > most) return {"cols", q.cols, "at most 2^60"};
  const struct {
    const char* name;
    long long value;
  } strides[] = {{"x_stride", p.x_stride}, {"residual_stride", p.residual_stride},
                 {"y_stride", p.y_stride}, {"residual_out_stride", p.residual_out_stride}};
  for (const auto& s : strides)
    if (s.value > most / q.rows) return {s.name, s.value, "such that rows * stride is at most 2^60"};
  if (q.x == nullptr) return {"x", q.x, "a matrix of rows x cols"};
  if (q.y == nullptr) return {"y", q.y, "a matrix of rows x cols"};
  if (q.residual == nullptr && q.residual_out != nullptr)
    return {"residual_out", q.residual_out, "null without a residual"};

  const matrix_view all[] = {
      {"x", q.x, sizeof(X), q.rows, q.cols, p.x_stride},
      {"y", q.y, sizeof(Out), q.rows, q.cols, p.y_stride},
      {"residual", q.residual, sizeof(X), q.rows, q.cols, p.residual_stride},
      {"residual_out", q.residual_out, sizeof(X), q.rows, q.cols, p.residual_out_stride},
      {"weight", q.weight, sizeof(W), 1, q.cols, q.cols},
  };
  for (const auto& m : all)
    if (m.begin() % m.element_bytes != 0) return {m.name, m.data, "aligned to its element type"};
  const matrix_view &y = all[1], &sum = all[3];
  for (const auto* out : {&y, &sum}) {
    if (out->data == nullptr) continue;
    for (const auto* in : {&all[0], &all[2]})
      if (in->data != nullptr && out->overlaps(*in) && !out->same_place(*in))
        return {out->name, out->data,
                "an output that is exactly x or residual (pointer, stride, element size) or apart from both"};
    if (q.weight != nullptr && out->overlaps(all[4])) return {out->name, out->data, "apart from weight"};
  }
  if (sum.data != nullptr && sum.overlaps(y)) return {"residual_out", sum.data, "apart from y"};
  vector = widest_vector(all);
  return {};
}

#endif  // !__CUDACC_RTC__

}  // namespace detail

#if !defined(__CUDACC_RTC__)

/// The choices of a call that are types: where it rounds, and whose frozen configs it uses.
template <rounding Rounding = rounding::none, class Table = tuned::rms_norm>
struct rms_norm_options {
  static constexpr rounding points = Rounding;
  using table = Table;
};

#if defined(__CUDACC__)

/// RMSNorm (Zhang and Sennrich 2019, eq. 4) of x, or of x + residual, over the last dimension.
///
/// Numerics: inputs are widened to float32; squares are accumulated in float32 in an order given by
/// the frozen reduction of (device, dtypes, cols) alone, so a row's result is bitwise the same
/// alone, in any batch, at any alignment and stride. Outputs are rounded to nearest even.
/// NaN and infinity propagate as in the formula; a sum of squares beyond 3.4e38 makes y 0.
/// \tparam X, W, Out element types of x (and residual), weight and y: f32, f16 or bf16
/// \tparam Options `rms_norm_options<rounding, table>`
/// \param p see `rms_norm_problem`. y and residual_out may each be exactly x or residual (same
///   pointer, stride and element size), else must be apart from them, from each other and from
///   weight. Any alignment of at least one element works; 16 bytes is fastest.
/// \param stream work is enqueued here, on the device the stream belongs to (in a graph capture:
///   the current device). Nothing else is done: no allocation, no synchronisation.
/// \return ok, or a status whose sentence() names the argument, its value and what was expected.
///   rows == 0 is success without a launch.
/// Cost: rows * cols * (sizeof(X) * (residual ? 3 : 1) + sizeof(Out)) bytes moved, 4 flops an element.
template <class X, class W = X, class Out = X, class Options = rms_norm_options<>>
status rms_norm(const rms_norm_problem<X, W, Out>& p, cudaStream_t stream) {
  detail::rms_norm_params<X, W, Out> params;
  int vector = 1;
  if (const status s = detail::prepare(p, params, vector); !s.ok()) return s;
  if (p.rows == 0) return {};
  if (p.residual != nullptr)
    return detail::launch_rows<detail::rms_norm_op<X, W, Out, true, Options::points>,
                               typename Options::table>(params, vector, stream);
  return detail::launch_rows<detail::rms_norm_op<X, W, Out, false, Options::points>,
                             typename Options::table>(params, vector, stream);
}

#endif  // __CUDACC__

/// The same on the host team, in this thread: for tests and debuggers, not for speed. It runs the
/// kernel's own mapping, loads, masks and rounding, by default in the default reduction.
template <class X, class W = X, class Out = X, class Options = rms_norm_options<>>
status rms_norm_on_host(const rms_norm_problem<X, W, Out>& p) {
  detail::rms_norm_params<X, W, Out> params;
  int vector = 1;
  if (const status s = detail::prepare(p, params, vector); !s.ok()) return s;
  if (p.rows == 0) return {};
  using table = typename Options::table;
  if (p.residual != nullptr)
    detail::run_rows_on_host<detail::rms_norm_op<X, W, Out, true, Options::points>, table>(params, vector);
  else
    detail::run_rows_on_host<detail::rms_norm_op<X, W, Out, false, Options::points>, table>(params, vector);
  return {};
}

/// Which frozen entry the same call to `rms_norm` uses on a device with these attributes.
template <class X, class W = X, class Out = X, class Options = rms_norm_options<>>
config_choice rms_norm_query(const rms_norm_problem<X, W, Out>& p, const detail::device_key& device) {
  detail::rms_norm_params<X, W, Out> params;
  int vector = 1;
  if (!detail::prepare(p, params, vector).ok()) return {};
  // The rounding points do not enter the look-up.
  return p.residual != nullptr
             ? detail::query_row_kernel<detail::rms_norm_op<X, W, Out, true, Options::points>,
                                        typename Options::table>(device, p.rows, p.cols, vector)
             : detail::query_row_kernel<detail::rms_norm_op<X, W, Out, false, Options::points>,
                                        typename Options::table>(device, p.rows, p.cols, vector);
}

#endif  // !__CUDACC_RTC__

}  // namespace capstone
