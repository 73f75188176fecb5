// nvcc -std=c++20 -O3 -arch=native -I include -I . -shared -Xcompiler -fPIC examples/wrong_model.cu -o build/wrong_model.so
// build/bin/claims verify --spec build/wrong_model.so --kernel tile_product --shape 262144x512 --out build/own
//
// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
//
// (After tools/quickstart, which makes build/. Without a GPU: -arch=sm_90, and --device host.)
//
// The seed of all mistakes, shown: a kernel is taken for one that waits for memory because its
// bytes were counted and its arithmetic was not. This one reads two 16 x 16 tiles a warp, 268 MB in
// all, and writes as much, like many a kernel that is as fast as memory; but it multiplies each pair
// 512 times on the tensor cores. The model without arithmetic says that memory binds, and how long
// that takes; the clock and two counters say otherwise, and the record says REFUTED:
//
//   claims predict --spec S --kernel tile_product --shape 262144x512 --memory-only
//   (commit the prediction)
//   claims profile --spec S --kernel tile_product --shape 262144x512
//   claims predict --spec S --kernel tile_product --shape 262144x512 --supersede --why "no arithmetic"
//   (commit; profile again)
//
// (S: the shared object.) The refuted prediction stays beside the one that replaced it;
// docs/notes/wrong_model.md tells the story with its numbers. Device-only: tensor cores have no host
// team, the host runs plain loops.

#include <capstone/detail/numeric.cuh>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/check.cuh"
#include "core/spec.hpp"

// ---- the kernel -----------------------------------------------------------------------------------
namespace {

using capstone::bf16;

constexpr int side = 16, tile_elements = side * side;
constexpr int warps_per_block = 8, chains = 2;  // chains: independent partial sums of each output

struct fragment {  // of a 16 x 8 output: rows lane/4 and lane/4 + 8, two neighbouring columns
  float v[4] = {};
};

// d += a * b. `volatile`: all products are equal, and none of them may be left out.
__device__ void multiply_add(fragment& d, const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d.v[0]), "+f"(d.v[1]), "+f"(d.v[2]), "+f"(d.v[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

}  // namespace

/// product = reuse * A * B^T for each tile, a warp a tile. factors: (tiles, 2, 16, 16), A before B;
/// product: (tiles, 16, 16). `extern "C"`: the name in the machine code is then this one.
extern "C" __global__ void __launch_bounds__(32 * warps_per_block) tile_product(
    const bf16* __restrict__ factors, float* __restrict__ product, std::int64_t tiles, int reuse) {
  const std::int64_t tile = std::int64_t(blockIdx.x) * warps_per_block + threadIdx.x / 32;
  if (tile >= tiles) return;
  const int row = threadIdx.x % 32 / 4, part = threadIdx.x % 4;
  // A lane takes four neighbours of a row, where the instruction's lanes hold columns 2 part and
  // 2 part + 8. A and B are permuted alike, and a sum over columns does not know their order.
  const auto* from = reinterpret_cast<const uint2*>(factors + tile * 2 * tile_elements) + row * 4 + part;
  const uint2 a_top = from[0], a_bottom = from[32], b_left = from[64], b_right = from[96];
  const unsigned a[4] = {a_top.x, a_bottom.x, a_top.y, a_bottom.y};
  const unsigned b[2][2] = {{b_left.x, b_left.y}, {b_right.x, b_right.y}};
  fragment sums[chains][2];
  for (int i = 0; i < reuse / chains; ++i)
    for (auto& sum : sums)
      for (int half = 0; half < 2; ++half) multiply_add(sum[half], a, b[half]);
  if (reuse % chains != 0)
    for (int half = 0; half < 2; ++half) multiply_add(sums[0][half], a, b[half]);
  auto* const to = reinterpret_cast<float2*>(product + tile * tile_elements) + row * 8 + part;
  for (int half = 0; half < 2; ++half) {
    const float *s = sums[0][half].v, *t = sums[1][half].v;
    to[half * 4] = {s[0] + t[0], s[1] + t[1]};
    to[half * 4 + 64] = {s[2] + t[2], s[3] + t[3]};
  }
}

// ---- the spec -------------------------------------------------------------------------------------
namespace capstone::tools {
namespace {

unsigned blocks_for(const problem& p) {
  return unsigned((p.shape[0] + warps_per_block - 1) / warps_per_block);
}

// In float64, so that only the kernel's own roundings remain. A product of two bf16 is exact in
// float32. What a tensor core loses when it adds 16 of them to a sum is not documented; it is taken
// to cut each of the 17 terms and the result at the last bit of the largest: 18 * 2 u. Of a chain's
// m products the i-th meets a sum of at most i * s, s = sum |a b| of one product, so the chain loses
//   sum over i of 36 u i s = 18 u (m + 1) * (m s):  g(18 (m + 1)) of what it adds up,
// and the sum of the chains one u more. Adding the 16 m terms one by one to nearest, as the host
// does, loses g(8 (m + 1)), less than that.
struct tile_reference {
  const bf16* factors;
  const float* product;
  std::int64_t reuse;
  __host__ __device__ void operator()(std::int64_t tile, tally* tallies) const {
    const bf16 *a = factors + tile * 2 * tile_elements, *b = a + tile_elements;
    const std::int64_t longest = (reuse + chains - 1) / chains;
    const double relative = gamma_bound(18 * double(longest + 1) + 1);
    for (int i = 0; i < tile_elements; ++i) {
      double sum = 0, magnitude = 0;
      for (int k = 0; k < side; ++k) {
        const double term = double(detail::to_f32(a[i / side * side + k])) *
                            double(detail::to_f32(b[i % side * side + k]));
        sum += term, magnitude += fabs(term);
      }
      tallies[0].add(tile, i, product[tile * tile_elements + i], double(reuse) * sum,
                     double(reuse) * magnitude * relative + 0x1p-149);
    }
  }
};

std::string run_on_gpu(const problem& p, const pointers& at, void* stream) {
  if (p.shape[0] == 0) return "";
  for (const int i : {0, 1})
    if (reinterpret_cast<std::uintptr_t>(at[std::size_t(i)]) % 8 != 0)
      return std::string(i == 0 ? "factors" : "product") + " is not aligned to 8 bytes, as its accesses are";
  tile_product<<<blocks_for(p), 32 * warps_per_block, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<const bf16*>(at[0]), static_cast<float*>(at[1]), p.shape[0], int(p.shape[1]));
  const cudaError_t error = cudaGetLastError();
  return error == cudaSuccess ? "" : std::string("tile_product: ") + cudaGetErrorString(error);
}

std::string run_on_host(const problem& p, const pointers& at) {
  for (std::int64_t tile = 0; tile < p.shape[0]; ++tile) {
    const bf16* const from = static_cast<const bf16*>(at[0]) + tile * 2 * tile_elements;
    float a[tile_elements], b[tile_elements], sums[chains][tile_elements] = {};
    for (int i = 0; i < tile_elements; ++i)
      a[i] = detail::to_f32(from[i]), b[i % side * side + i / side] = detail::to_f32(from[tile_elements + i]);
    for (std::int64_t n = 0; n < p.shape[1]; ++n)
      for (int i = 0; i < tile_elements; ++i)
        for (int k = 0; k < side; ++k)
          sums[n % chains][i] += a[i / side * side + k] * b[k * side + i % side];
    for (int i = 0; i < tile_elements; ++i)
      static_cast<float*>(at[1])[tile * tile_elements + i] = sums[0][i] + sums[1][i];
  }
  return "";
}

kernel_spec tile_kernel() {
  kernel_spec k;
  k.op = "tile_product";
  k.dtype = "bf16";
  k.rounding = "float32 sums, written as float32";
  k.buffers = [](const problem& p) {
    const std::int64_t tiles = p.shape[0];
    return std::vector<buffer_desc>{
        {"factors", role::in, dtype::bf16, tiles, 2 * tile_elements, 2 * tile_elements, p.offset, -1, p.data},
        {"product", role::out, dtype::f32, tiles, tile_elements, tile_elements, p.offset, -1, p.data}};
  };
  k.check = [](const problem& p, const pointers& in, const pointers& out, const config&, bool on_host) {
    const tile_reference r{static_cast<const bf16*>(in[0]), static_cast<const float*>(out[1]), p.shape[1]};
    return check_rows<1>(r, p.shape[0], {"product"}, p.data != "normal", on_host);
  };
  k.traffic = [](const problem& p) {  // honest, and all that the wrong model looks at
    return traffic_model{p.shape[0] * 2 * tile_elements * 2, p.shape[0] * tile_elements * 4, 1, 1};
  };
  k.work = [](const problem& p, const config&) {  // honest too; --memory-only leaves it out
    work_model w;
    w.flops = double(p.shape[0]) * tile_elements * (chains - 1);
    w.tensor_flops = double(p.shape[0]) * double(p.shape[1]) * tile_elements * side * 2;
    return w;
  };
  k.call = run_on_gpu;
  k.call_host = run_on_host;
  // There is no config and nothing to tune: the tuner is told so.
  k.choice = [](const problem&, const pointers&, const device_limits&) {
    return choice_info{"default", {}, false};
  };
  k.default_config = [](const problem&) { return config{}; };
  k.plan = k.default_plan = [](const problem&, const pointers&, const config&,
                               const device_limits&) -> launch_plan {
    throw std::invalid_argument("tile_product has no config; expected a kernel with something to tune");
  };
  // single_pass: false also because of the loop over `reuse`, whose length no machine code shows.
  k.launched = [](const problem& p, const pointers&, const device_limits&) {
    return launch_identity{"tile_product", blocks_for(p), 32 * warps_per_block, 1, 0, false};
  };
  return k;
}

const register_op registered([] {
  op o;
  o.name = "tile_product";
  o.header = "examples/wrong_model.cu";
  o.dims = {"tiles", "reuse"};
  o.suites = {{"llm", {{{262144, 512}}}},
              {"edge", {{{1, 1}}, {{9, 2}}, {{3, 7}}, {{37, 64}}, {{0, 4}}, {.shape = {8, 5}, .offset = 4},
                        {.shape = {9, 33}, .data = "large"}, {.shape = {9, 33}, .data = "tiny"},
                        {.shape = {9, 33}, .data = "zero"}, {.shape = {9, 33}, .data = "constant"}}}};
  o.kernels = {tile_kernel()};
  return o;
}());

}  // namespace
}  // namespace capstone::tools
