// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What the tools know about rms_norm: its problems, reference, tolerance, models, axes and rivals.

#include <capstone/rms_norm.cuh>

#include <cub/version.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/iterator/transform_iterator.h>

#include "core/check.cuh"
#include "core/row_spec.hpp"
#include "core/spec.hpp"

namespace capstone::tools {
namespace {

using detail::int64;

template <class T> constexpr dtype dtype_v = dtype::f32;
template <> constexpr dtype dtype_v<f16> = dtype::f16;
template <> constexpr dtype dtype_v<bf16> = dtype::bf16;

// ---- the call -------------------------------------------------------------------------------

bool has_weight(const problem& p) { return p.option("weight", 1) != 0; }

template <class X, class W, class Out, bool Residual>
std::vector<buffer_desc> buffers(const problem& p) {
  const int64 rows = p.shape.at(0), cols = p.shape.at(1);
  // Bit i of the option `offsets` says whether buffer i is off alignment; by default all are.
  const int mask = int(p.option("offsets", 255));
  std::vector<buffer_desc> all;
  const auto put = [&](const char* name, role use, dtype type, int64 r, int64 stride, int alias) {
    const int i = int(all.size());
    all.push_back({name, use, type, r, cols, stride, (mask >> i & 1) != 0 ? p.offset : 0, alias, p.data});
  };
  put("x", role::in, dtype_v<X>, rows, cols + p.pad, -1);
  if (Residual) put("residual", role::in, dtype_v<X>, rows, cols + p.pad, -1);
  put("weight", role::in, dtype_v<W>, 1, cols, -1);
  put("y", role::out, dtype_v<Out>, rows, cols + p.pad, p.in_place && sizeof(X) == sizeof(Out) ? 0 : -1);
  if (Residual) put("residual_out", role::out, dtype_v<X>, rows, cols + p.pad, p.in_place ? 1 : -1);
  return all;
}

template <class X, class W, class Out, bool Residual>
rms_norm_problem<X, W, Out> bind(const problem& p, const pointers& at) {
  rms_norm_problem<X, W, Out> q;
  q.rows = p.shape.at(0), q.cols = p.shape.at(1);
  q.eps = float(p.option("eps", 1e-6)), q.weight_offset = float(p.option("weight_offset", 0));
  q.x_stride = q.residual_stride = q.y_stride = q.residual_out_stride = q.cols + p.pad;
  std::size_t i = 0;
  q.x = static_cast<const X*>(at.at(i++));
  if (Residual) q.residual = static_cast<const X*>(at.at(i++));
  q.weight = has_weight(p) ? static_cast<const W*>(at.at(i)) : nullptr;
  q.y = static_cast<Out*>(at.at(++i));
  if (Residual) q.residual_out = static_cast<X*>(at.at(++i));
  return q;
}

// ---- reference and tolerance ----------------------------------------------------------------

// Relative error of y before its own rounding, u = 2^-24, in the order of the computation:
//   h = x + residual          u, when there is a residual (the squares then carry 2 u)
//   sum of squares            g(d), d = steps * elements (fused multiply-adds of one lane)
//                             + depth of the combining tree; all terms are >= 0
//   times 1/cols, plus eps    3 u (1/cols is itself rounded)
//   1 / sqrt                  half of the argument's error, and 2 ulp = 4 u of its own
//   h * rstd * (offset + w)   u each for two products and the sum
// The roundings to X that a variant declares are done by the reference too. That of the sum is exact
// (it starts from the same float32 sum); that of the normalised value may fall to either side where
// the error above spans a border, and then the distance of the two is granted.
template <class X, class W, class Out, bool Residual, rounding Rounding>
struct reference {
  rms_norm_problem<X, W, Out> in;  // inputs as they were
  const Out* y;
  const X* residual_out;
  double depth;

  __host__ __device__ double h(int64 row, int64 c) const {
    const double x = double(detail::to_f32(in.x[row * in.x_stride + c]));
    if (!Residual) return x;
    const double sum = x + double(detail::to_f32(in.residual[row * in.residual_stride + c]));
    constexpr bool round_sum = Rounding == rounding::sum || Rounding == rounding::both;
    return round_sum ? double(detail::rounded_to<X>(float(sum))) : sum;
  }

  static __host__ __device__ double to_x(double v) { return double(detail::rounded_to<X>(float(v))); }

  __host__ __device__ void operator()(int64 row, tally* tallies) const {
    constexpr bool round_normalized = Rounding == rounding::normalized || Rounding == rounding::both;
    constexpr double u = f32_unit;
    double squares = 0;
    for (int64 c = 0; c < in.cols; ++c) {
      const double v = h(row, c);
      squares += v * v;
    }
    const double rstd = 1 / sqrt(squares / double(in.cols) + double(in.eps));
    const double relative =
        1.01 * ((gamma_bound(depth) + (Residual ? 2 * u : 0) + 3 * u) / 2 + 4 * u + (Residual ? u : 0) + 3 * u);
    for (int64 c = 0; c < in.cols; ++c) {
      const double value = h(row, c);
      double n = value * rstd, unsure = 0;
      if (round_normalized) {
        // What the float32 value may be before its rounding to X; both ends mostly round alike.
        const double low = to_x(n * (1 - relative)), high = to_x(n * (1 + relative));
        n = (low + high) / 2, unsure = fabs(high - low) / 2;
      }
      const double factor =
          in.weight != nullptr ? double(in.weight_offset) + double(detail::to_f32(in.weight[c])) : 1;
      const double computed = fabs(n * factor) * relative + fabs(factor) * unsure + 0x1p-149;
      // A product of two short significands lies on a grid of 2^(1 - digits) half ulps, and its
      // rounding errors do not average to 0 on it: -0.009 to -0.013 in bf16 (H200, 11 shapes).
      const double lattice = round_normalized ? ldexp(1.0, 2 - format_of<X>::digits) : 0;
      tallies[0].add(row, c, y[row * in.y_stride + c], n * factor, computed, lattice);
      if (Residual)
        tallies[1].add(row, c, residual_out[row * in.residual_out_stride + c], value, fabs(value) * u);
    }
  }
};

// ---- baselines ------------------------------------------------------------------------------

// The textbook fused kernel: a block of 256 threads a row, one element a thread and step, a tree in
// shared memory, the row read twice.
template <class X, class W, class Out, bool Residual>
__global__ void textbook_kernel(rms_norm_problem<X, W, Out> p) {
  __shared__ float parts[256];
  const int64 row = blockIdx.x;
  const X* x = p.x + row * p.x_stride;
  const X* r = Residual ? p.residual + row * p.residual_stride : nullptr;
  float sum = 0;
  for (int64 c = threadIdx.x; c < p.cols; c += 256) {
    float h = detail::to_f32(x[c]);
    if (Residual) {
      h += detail::to_f32(r[c]);
      p.residual_out[row * p.residual_out_stride + c] = detail::from_f32<X>(h);
    }
    sum += h * h;
  }
  parts[threadIdx.x] = sum;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  __syncthreads();
  const float rstd = rsqrtf(parts[0] / float(p.cols) + p.eps);
  for (int64 c = threadIdx.x; c < p.cols; c += 256) {
    float h = detail::to_f32(x[c]);
    if (Residual) h += detail::to_f32(r[c]);
    const float w = p.weight != nullptr ? p.weight_offset + detail::to_f32(p.weight[c]) : 1.0f;
    p.y[row * p.y_stride + c] = detail::from_f32<Out>(h * rstd * w);
  }
}

template <class X, class W, class Out, bool Residual>
void textbook_on_host(const rms_norm_problem<X, W, Out>& p) {
  for (int64 row = 0; row < p.rows; ++row) {
    const X* x = p.x + row * p.x_stride;
    const auto h = [&](int64 c) {
      float v = detail::to_f32(x[c]);
      if (Residual) v += detail::to_f32(p.residual[row * p.residual_stride + c]);
      return v;
    };
    float sum = 0;
    for (int64 c = 0; c < p.cols; ++c) sum += h(c) * h(c);
    const float rstd = detail::rsqrt(sum / float(p.cols) + p.eps);
    for (int64 c = 0; c < p.cols; ++c) {
      const float w = p.weight != nullptr ? p.weight_offset + detail::to_f32(p.weight[c]) : 1.0f;
      const float v = h(c);
      if (Residual) p.residual_out[row * p.residual_out_stride + c] = detail::from_f32<X>(v);
      p.y[row * p.y_stride + c] = detail::from_f32<Out>(v * rstd * w);
    }
  }
}

// The unfused chain, one kernel an operation, as a framework without a compiler runs it: residual
// add, CUB's segmented sum of squares, scale by rsqrt and weight.
template <class X>
__global__ void add_kernel(const X* a, const X* b, X* out, int64 n) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += int64(gridDim.x) * blockDim.x)
    out[i] = detail::from_f32<X>(detail::to_f32(a[i]) + detail::to_f32(b[i]));
}
template <class X, class W, class Out>
__global__ void scale_kernel(const X* h, const float* squares, rms_norm_problem<X, W, Out> p, int64 n) {
  for (int64 i = int64(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += int64(gridDim.x) * blockDim.x) {
    const float rstd = rsqrtf(squares[i / p.cols] / float(p.cols) + p.eps);
    const float w = p.weight != nullptr ? p.weight_offset + detail::to_f32(p.weight[i % p.cols]) : 1.0f;
    p.y[i] = detail::from_f32<Out>(detail::to_f32(h[i]) * rstd * w);
  }
}
template <class X>
struct square {
  __host__ __device__ float operator()(X v) const {
    const float f = detail::to_f32(v);
    return f * f;
  }
};

struct times {
  int64 cols;
  __host__ __device__ int64 operator()(int64 row) const { return row * cols; }
};

/// CUB's sum of squares per row; with a null workspace only `bytes` is set.
template <class X>
void sum_squares(void* workspace, std::size_t& bytes, const X* h, float* out, int64 rows, int64 cols,
                 cudaStream_t stream) {
  const auto begin = thrust::make_transform_iterator(thrust::counting_iterator<int64>(0), times{cols});
  check_cuda(cub::DeviceSegmentedReduce::Sum(workspace, bytes, thrust::make_transform_iterator(h, square<X>{}),
                                             out, rows, begin, begin + 1, stream), "CUB");
}

template <class X, class W, class Out, bool Residual>
void unfused(const rms_norm_problem<X, W, Out>& p, void* workspace, cudaStream_t stream) {
  const int64 n = p.rows * p.cols;
  const unsigned blocks = unsigned(detail::ceil_div<int64>(n, 1024) < (1 << 20) ? detail::ceil_div<int64>(n, 1024) : 1 << 20);
  const X* h = p.x;
  if (Residual) {
    add_kernel<<<blocks, 256, 0, stream>>>(p.x, p.residual, p.residual_out, n);
    h = p.residual_out;
  }
  float* const sums = static_cast<float*>(workspace);
  const std::size_t sums_bytes = (std::size_t(p.rows) * 4 + 255) / 256 * 256;
  std::size_t bytes = 0;
  sum_squares<X>(nullptr, bytes, h, sums, p.rows, p.cols, stream);
  sum_squares<X>(static_cast<char*>(workspace) + sums_bytes, bytes, h, sums, p.rows, p.cols, stream);
  scale_kernel<<<blocks, 256, 0, stream>>>(h, sums, p, n);
}

// The twin of the team kernel: the same config written out by hand, without a team, for the price
// of the abstraction. Same contract (run-time columns, strides, optional weight), bf16, no residual.
template <row_config C, int Steps>
struct twin_of {  // a type, because nvcc cannot name the value in the host stub
  static constexpr row_config config = C;
  static constexpr int steps = Steps;
};
template <class Twin>
__global__ void __launch_bounds__(detail::block_threads(Twin::config))
    hand_written_kernel(const __grid_constant__ rms_norm_problem<bf16> p, float inverse_cols) {
  constexpr row_config C = Twin::config;
  constexpr int Steps = Twin::steps;
  constexpr int lanes = C.reduction.lanes, warps = lanes / 32, elements = C.reduction.elements;
  constexpr bool streams = C.schedule.cache == detail::cache_use::streaming;
  using word = std::conditional_t<elements == 8, uint4, uint2>;
  union access {
    word w;
    unsigned u[elements / 2];
  };
  __shared__ float parts[2][32];
  const int team = int(threadIdx.x) / lanes, lane = int(threadIdx.x) % lanes;
  const int cols = int(p.cols);
  const auto inside = [&](int s) { return (s * lanes + lane) * elements < cols; };
  const auto low = [](unsigned u) { return __uint_as_float(u << 16); };
  const auto high = [](unsigned u) { return __uint_as_float(u & 0xffff0000u); };
  int parity = 0;
  for (int64 row = int64(blockIdx.x) * C.schedule.tile_rows + team; row < p.rows;
       row += int64(gridDim.x) * C.schedule.tile_rows) {
    const word* const x = reinterpret_cast<const word*>(p.x + row * p.x_stride) + lane;
    word* const y = reinterpret_cast<word*>(p.y + row * p.y_stride) + lane;
    const word* const w = reinterpret_cast<const word*>(p.weight) + lane;
    access v[Steps], f[Steps];
    const auto load_weights = [&] {
#pragma unroll
      for (int s = 0; s < Steps; ++s) {
        for (unsigned& u : f[s].u) u = 0x3f803f80u;  // two ones
        if (inside(s) && p.weight != nullptr) f[s].w = __ldg(w + s * lanes);
      }
    };
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
      for (unsigned& u : v[s].u) u = 0;
      if (inside(s)) v[s].w = streams ? __ldcs(x + s * lanes) : x[s * lanes];
    }
    if (C.schedule.weights == row_weights::early) load_weights();
    float sum = 0;
#pragma unroll
    for (int s = 0; s < Steps; ++s)
      if (inside(s))
        for (const unsigned u : v[s].u) sum = fmaf(high(u), high(u), fmaf(low(u), low(u), sum));
#pragma unroll
    for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
    if (warps > 1) {
      if (threadIdx.x % 32 == 0) parts[parity][threadIdx.x / 32] = sum;
      if (C.schedule.tile_rows == 1)
        __syncthreads();
      else
        asm volatile("bar.sync %0, %1;" ::"r"(team + 1), "n"(lanes) : "memory");
      const int l = int(threadIdx.x) % 32 % int(detail::bit_ceil(warps));
      sum = l < warps ? parts[parity][team * warps + l] : 0.0f;
#pragma unroll
      for (int o = 16; o > 0; o /= 2)
        if (o < warps) sum += __shfl_xor_sync(0xffffffffu, sum, o);
      parity ^= 1;
    }
    const float rstd = rsqrtf(fmaf(sum, inverse_cols, p.eps));
    if (C.schedule.weights != row_weights::early) load_weights();
#pragma unroll
    for (int s = 0; s < Steps; ++s) {
      if (!inside(s)) continue;
      access out;
#pragma unroll
      for (int i = 0; i < elements / 2; ++i) {
        const __nv_bfloat162 pair =
            __floats2bfloat162_rn(low(v[s].u[i]) * rstd * (p.weight_offset + low(f[s].u[i])),
                                  high(v[s].u[i]) * rstd * (p.weight_offset + high(f[s].u[i])));
        memcpy(&out.u[i], &pair, 4);
      }
      if (streams)
        __stcs(y + s * lanes, out.w);
      else
        y[s * lanes] = out.w;
    }
  }
}

/// Launches the twin of the frozen config that `p` gets on this device; false where there is none.
template <int I = 0>
bool hand_written(const problem& p, const pointers& at, const device_limits& d, cudaStream_t stream, bool launch) {
  using table = tuned::rms_norm;
  if constexpr (I < table::count) {
    constexpr auto r = table::rows[I];
    constexpr auto c = r.config;
    if constexpr (detail::same_text(r.variant, "") && detail::same_text(r.dtype, "bf16") && r.cols_min == 4096 &&
                  r.cols_max == 4096 && c.reduction.lanes >= 32 && c.reduction.cluster == 1 &&
                  c.reduction.elements * 2 == c.schedule.load_bytes && c.schedule.load_bytes >= 8 &&
                  c.schedule.hold != row_hold::reread) {
      if (detail::choose<table>({d.cc, d.sms, d.l2_bytes}, "", "bf16", p.shape[0], p.shape[1], 2).row == I) {
        if (launch) {
          const auto q = bind<bf16, bf16, bf16, false>(p, at);
          hand_written_kernel<twin_of<detail::compiled_part(c), int(detail::row_steps(c.reduction, 4096))>>
              <<<unsigned(detail::row_grid(c, q.rows, d.sms)), detail::block_threads(c), 0, stream>>>(q, float(1.0 / 4096));
        }
        return true;
      }
    }
    return hand_written<I + 1>(p, at, d, stream, launch);
  }
  return false;
}

device_limits current_limits() {
  int ordinal = 0;
  if (cudaGetDevice(&ordinal) != cudaSuccess) return {};
  const detail::device_key k = detail::device_list::get().keys[ordinal];
  return {k.cc, k.sms, k.l2_bytes};
}

template <class X, class W, class Out, bool Residual>
std::vector<baseline> rivals() {
  const auto packed = [](const problem& p) { return p.pad == 0; };
  baseline chain{"unfused", "CUB " + std::to_string(CUB_MAJOR_VERSION) + "." + std::to_string(CUB_MINOR_VERSION) + "." + std::to_string(CUB_SUBMINOR_VERSION),
                 [](const problem& p) {
                   std::size_t bytes = 0;
                   sum_squares<X>(nullptr, bytes, nullptr, nullptr, p.shape[0], p.shape[1], nullptr);
                   return (std::size_t(p.shape[0]) * 4 + 255) / 256 * 256 + bytes + 256;
                 },
                 [](const problem& p, const pointers& at, void* workspace, void* stream) {
                   unfused<X, W, Out, Residual>(bind<X, W, Out, Residual>(p, at), workspace,
                                                static_cast<cudaStream_t>(stream));
                 },
                 packed};
  chain.traffic = [](const problem& p) {  // each kernel of the chain: sum, squares per row, scale
    const int64 n = p.shape.at(0) * p.shape.at(1) * int64(sizeof(X)), sums = p.shape.at(0) * 4;
    traffic_model t;
    t.read_bytes = (Residual ? 2 * n : 0) + n + n + sums + (has_weight(p) ? p.shape[1] * int64(sizeof(W)) : 0);
    t.written_bytes = (Residual ? n : 0) + sums + p.shape.at(0) * p.shape.at(1) * int64(sizeof(Out));
    return t;
  };
  baseline book{"textbook", "this repository",
                [](const problem&) { return std::size_t(0); },
                [](const problem& p, const pointers& at, void*, void* stream) {
                  const auto q = bind<X, W, Out, Residual>(p, at);
                  cudaPointerAttributes where{};
                  const bool on_host = cudaPointerGetAttributes(&where, q.x) != cudaSuccess ||
                                       where.type != cudaMemoryTypeDevice;
                  if (on_host) {
                    cudaGetLastError();
                    textbook_on_host<X, W, Out, Residual>(q);
                  } else {
                    textbook_kernel<X, W, Out, Residual>
                        <<<unsigned(q.rows), 256, 0, static_cast<cudaStream_t>(stream)>>>(q);
                  }
                },
                packed, true};
  std::vector<baseline> all = {chain, book};
  if constexpr (std::is_same_v<X, bf16> && !Residual)
    all.push_back({"hand_written", "this repository", [](const problem&) { return std::size_t(0); },
                   [](const problem& p, const pointers& at, void*, void* stream) {
                     hand_written(p, at, current_limits(), static_cast<cudaStream_t>(stream), true);
                   },
                   [](const problem& p) {
                     return p.shape[1] == 4096 && p.pad == 0 && p.offset == 0 &&
                            hand_written(p, {}, current_limits(), nullptr, false);
                   }});
  return all;
}

// ---- one kernel of the spec -----------------------------------------------------------------

template <class T> constexpr const char* cpp_name = "float";
template <> constexpr const char* cpp_name<f16> = "capstone::f16";
template <> constexpr const char* cpp_name<bf16> = "capstone::bf16";

const char* const rounding_names[] = {"none", "sum", "normalized", "both"};
const char* const rounding_suffix[] = {"", ".round_sum", ".round_normalized", ".round_both"};
const char* const rounding_words[] = {
    "float32 throughout",
    "residual sum rounded before the norm",
    "normalised value rounded before the weight",
    "residual sum and normalised value rounded (Llama)",
};

template <class X, class W, class Out, bool Residual, rounding Rounding>
kernel_spec make_kernel() {
  using call_op = detail::rms_norm_op<X, W, Out, Residual, Rounding>;
  using options = rms_norm_options<Rounding>;
  const auto bound = bind<X, W, Out, Residual>;

  kernel_spec k;
  k.op = "rms_norm";
  add_row_plans<call_op, typename options::table>(
      k,
      std::string("capstone::detail::rms_norm_kernel<") + cpp_name<X> + ", " + cpp_name<W> + ", " + cpp_name<Out> +
          ", " + (Residual ? "true" : "false") + ", capstone::rounding::" + rounding_names[int(Rounding)],
      [bound](const problem& p, const pointers& at) {
        prepared_call<call_op> call;
        const status s = detail::prepare(bound(p, at), call.params, call.vector);
        if (!s.ok()) throw std::invalid_argument(s.sentence().c_str());
        return call;
      });
  if (Rounding != rounding::none) k.configs_of = k.name();  // rounding moves no byte
  k.variant += rounding_suffix[int(Rounding)];
  k.rounding = rounding_words[int(Rounding)];
  k.tuned = Rounding == rounding::none && k.dtype == "bf16";
  k.buffers = buffers<X, W, Out, Residual>;
  k.check = [bound](const problem& p, const pointers& inputs, const pointers& actual,
                    const config& values, bool on_host) {
    const auto is = bound(p, actual);
    const reference<X, W, Out, Residual, Rounding> r{bound(p, inputs), is.y, is.residual_out,
                                                     row_tree_depth(to_row_config(values).reduction, p.shape.at(1))};
    return check_rows<Residual ? 2 : 1>(r, p.shape.at(0), {"y", "residual_out"}, p.data == "constant" || p.data == "zero", on_host);
  };
  k.traffic = [](const problem& p) {
    const int64 n = p.shape.at(0) * p.shape.at(1);
    traffic_model t;
    t.read_streams = t.written_streams = Residual ? 2 : 1;
    t.read_bytes = n * int64(sizeof(X)) * t.read_streams + (has_weight(p) ? p.shape[1] * int64(sizeof(W)) : 0);
    t.reused_bytes = has_weight(p) ? p.shape[1] * int64(sizeof(W)) : 0;
    t.written_bytes = n * int64(sizeof(Out) + (Residual ? sizeof(X) : 0));
    return t;
  };
  k.work = [](const problem& p, const config& values) {
    work_model w;  // square and add, two products; the sum of the residual; every lane takes the root
    w.flops = double(p.shape.at(0)) * double(p.shape.at(1)) * (Residual ? 5 : 4);
    const row_reduction r = to_row_config(values).reduction;
    w.special = double(p.shape.at(0)) * r.lanes * r.cluster;
    return w;
  };
  k.call = [bound](const problem& p, const pointers& at, void* stream) -> std::string {
    const status s = rms_norm<X, W, Out, options>(bound(p, at), static_cast<cudaStream_t>(stream));
    return s.ok() ? "" : s.sentence().c_str();
  };
  k.call_host = [bound](const problem& p, const pointers& at) -> std::string {
    const status s = rms_norm_on_host<X, W, Out, options>(bound(p, at));
    return s.ok() ? "" : s.sentence().c_str();
  };
  // Rivals where speed is claimed or a user tunes first; CUB is most of this file's compile time.
  if constexpr (Rounding == rounding::none && std::is_same_v<X, W> && std::is_same_v<X, Out>)
    k.baselines = rivals<X, W, Out, Residual>();
  return k;
}

template <class X, class W, class Out, rounding... Roundings>
void add_kernels(std::vector<kernel_spec>& all) {
  (all.push_back(make_kernel<X, W, Out, false, Roundings>()), ...);
  (all.push_back(make_kernel<X, W, Out, true, Roundings>()), ...);
}

std::vector<kernel_spec> kernels() {
  std::vector<kernel_spec> all;
  add_kernels<bf16, bf16, bf16, rounding::none, rounding::sum, rounding::normalized, rounding::both>(all);
  add_kernels<f16, f16, f16, rounding::none, rounding::both>(all);
  add_kernels<f32, f32, f32, rounding::none>(all);
  add_kernels<bf16, f32, bf16, rounding::none>(all);  // float32 weights over a bf16 model
  add_kernels<f16, f32, f16, rounding::none>(all);
  add_kernels<bf16, bf16, f32, rounding::none, rounding::sum>(all);  // float32 logits or router input
  return all;
}

// ---- problems -------------------------------------------------------------------------------

std::vector<problem> edge_suite() {
  std::vector<problem> all;
  // Every column count that is a border of something: of a vector, a warp, a step, a block.
  for (const int64 cols : {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 257, 511,
                           513, 769, 1000, 1023, 1025, 2047, 2049, 3420, 3584, 4095, 4096, 4097, 12289})
    all.push_back({{cols < 2048 ? 37 : 5, cols}});
  for (const int64 rows : {0, 1, 2, 3, 31, 33, 67}) all.push_back({{rows, 264}});
  for (const int64 offset : {1, 2, 4}) {  // elements off a 16-byte border, all buffers
    all.push_back({.shape = {5, 264}, .offset = offset});
    all.push_back({.shape = {5, 4096}, .offset = offset});
  }
  for (int buffer = 0; buffer < 5; ++buffer)  // one buffer alone
    all.push_back({.shape = {5, 1024}, .offset = 1, .options = {{"offsets", 1 << buffer}}});
  for (const int64 pad : {1, 3, 8, 61}) {  // row strides
    all.push_back({.shape = {7, 640}, .pad = pad});
    all.push_back({.shape = {7, 641}, .pad = pad});
  }
  for (const int64 cols : {96, 769, 4096}) {
    all.push_back({.shape = {6, cols}, .in_place = true});
    all.push_back({.shape = {6, cols}, .pad = 5, .in_place = true});
    all.push_back({.shape = {6, cols}, .options = {{"weight", 0}}});
    all.push_back({.shape = {6, cols}, .options = {{"weight_offset", 1}}});
    all.push_back({.shape = {6, cols}, .options = {{"weight", 0}, {"weight_offset", 1}}});
    for (const char* data : {"large", "tiny", "constant", "zero"}) all.push_back({.shape = {6, cols}, .data = data});
    all.push_back({.shape = {6, cols}, .data = "tiny", .options = {{"eps", 1e-2}}});
    all.push_back({.shape = {6, cols}, .options = {{"eps", 0.5}}});
  }
  return all;
}

std::vector<problem> shapes(std::vector<std::vector<int64>> list) {
  std::vector<problem> all;
  for (auto& s : list) all.push_back({std::vector<std::int64_t>(s.begin(), s.end())});
  return all;
}

// ---- registration ---------------------------------------------------------------------------

const register_op registered([] {
  op o = make_row_op("rms_norm", "capstone/rms_norm.cuh");
  o.suites = {
      {"llm", shapes({{1, 4096}, {64, 4096}, {512, 4096}, {4096, 4096}, {16384, 4096}, {16384, 8192}, {4096, 5120}, {8192, 7168}, {2048, 3584}})},
      {"narrow", shapes({{32768, 1024}, {65536, 256}, {262144, 128}, {262144, 64}})},
      {"wide", shapes({{8192, 16384}, {4096, 32768}, {2048, 65536}, {1024, 131072}})},
      {"odd", shapes({{4096, 4095}, {4096, 769}, {1000, 12289}})},
      {"edge", edge_suite()},
  };
  o.kernels = kernels();
  return o;
}());

}  // namespace
}  // namespace capstone::tools
