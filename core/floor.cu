// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/floor.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace capstone::tools {
namespace {

constexpr int max_reads = 3, max_writes = 2;

struct flows {
  const char* in[max_reads];
  char* out[max_writes];
  std::int64_t read_size, written_size;  // bytes of each stream
};

template <bool streaming>
__device__ uint4 load(const uint4* at) {
  return streaming ? __ldcs(at) : __ldg(at);
}

template <bool streaming>
__device__ void store(uint4* at, uint4 value) {
  if (streaming)
    __stcs(at, value);
  else
    *at = value;
}

__device__ void mix(uint4& a, const uint4& b) {
  a.x ^= b.x;
  a.y ^= b.y;
  a.z ^= b.z;
  a.w ^= b.w;
}

template <int reads, int writes, int unroll, bool streaming>
__global__ void __launch_bounds__(512) stream_kernel(const flows f) {
  const std::int64_t in_count = f.read_size / 16, out_count = f.written_size / 16;
  const std::int64_t both = min(in_count, out_count), all = max(in_count, out_count);
  const std::int64_t block = std::int64_t{blockDim.x} * unroll;
  for (std::int64_t base = blockIdx.x * block + threadIdx.x; base < all;
       base += gridDim.x * block) {
    if (base + (unroll - 1) * std::int64_t{blockDim.x} < both) {
      uint4 v[reads][unroll];
#pragma unroll
      for (int r = 0; r < reads; ++r)
#pragma unroll
        for (int u = 0; u < unroll; ++u)
          v[r][u] = load<streaming>(reinterpret_cast<const uint4*>(f.in[r]) + base +
                                    u * std::int64_t{blockDim.x});
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
#pragma unroll
        for (int r = 1; r < reads; ++r) mix(v[0][u], v[r][u]);
#pragma unroll
        for (int w = 0; w < writes; ++w)
          store<streaming>(reinterpret_cast<uint4*>(f.out[w]) + base + u * std::int64_t{blockDim.x},
                           v[0][u]);
      }
      continue;
    }
    // The ends, and what one side has more of than the other.
    for (int u = 0; u < unroll; ++u) {
      const std::int64_t i = base + u * std::int64_t{blockDim.x};
      uint4 v = {};
      for (int r = 0; r < reads && i < in_count; ++r)
        mix(v, load<streaming>(reinterpret_cast<const uint4*>(f.in[r]) + i));
      if (i < out_count) {
        for (int w = 0; w < writes; ++w)
          store<streaming>(reinterpret_cast<uint4*>(f.out[w]) + i, v);
      } else if (v.x == 0x9e3779b9u && v.y == 0x7f4a7c15u && v.z == 0xf39cc060u) {
        f.out[0][0] = 0;  // once in 2^96: keeps loads that nothing is written for
      }
    }
  }
  const std::int64_t i = out_count * 16 + threadIdx.x;  // the bytes behind the last whole vector
  if (blockIdx.x == 0 && i < f.written_size) {
    char v = 0;
    for (int r = 0; r < reads && i < f.read_size; ++r) v ^= f.in[r][i];
    for (int w = 0; w < writes; ++w) f.out[w][i] = v;
  }
}

using stream_function = void (*)(flows);

template <int reads, int writes, int unroll>
stream_function pick(bool streaming) {
  return streaming ? stream_kernel<reads, writes, unroll, true>
                   : stream_kernel<reads, writes, unroll, false>;
}

template <int reads, int writes>
stream_function pick(int unroll, bool streaming) {
  switch (unroll) {
    case 1:
      return pick<reads, writes, 1>(streaming);
    case 2:
      return pick<reads, writes, 2>(streaming);
    case 4:
      return pick<reads, writes, 4>(streaming);
    default:
      return pick<reads, writes, 8>(streaming);
  }
}

stream_function pick(int reads, int writes, int unroll, bool streaming) {
  switch (10 * reads + writes) {
    case 11:
      return pick<1, 1>(unroll, streaming);
    case 12:
      return pick<1, 2>(unroll, streaming);
    case 21:
      return pick<2, 1>(unroll, streaming);
    case 22:
      return pick<2, 2>(unroll, streaming);
    case 31:
      return pick<3, 1>(unroll, streaming);
    default:
      return pick<3, 2>(unroll, streaming);
  }
}

struct variant {
  int unroll, threads;
  bool persistent, streaming;
};

constexpr variant variants[] = {
    {1, 128, false, false}, {1, 256, false, true}, {1, 512, false, false}, {2, 256, false, false},
    {2, 256, false, true},  {2, 512, false, true}, {4, 128, false, false}, {4, 128, false, true},
    {4, 256, false, false}, {4, 256, false, true}, {4, 512, false, true},  {8, 128, false, true},
    {8, 256, false, false}, {4, 256, true, false}, {4, 512, true, true},   {8, 256, true, true},
};

std::string name_of(const variant& v) {
  return "u" + std::to_string(v.unroll) + " t" + std::to_string(v.threads) +
         (v.persistent ? " persistent" : "") + (v.streaming ? " cs" : "");
}

/// Full-entropy bytes: a copy of zeros draws less power and can run faster than real data does.
__global__ void fill_kernel(unsigned long long* data, std::int64_t words, unsigned long long seed) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < words; i += step) {
    unsigned long long z = (seed << 40) + (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    data[i] = z ^ (z >> 31);
  }
}

int streams(int wanted, int most) { return std::clamp(wanted, 1, most); }

std::size_t stream_size(std::int64_t bytes, int count) {
  return static_cast<std::size_t>((bytes + count - 1) / count);
}

std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

std::size_t streaming_floor::bytes_needed(const traffic_model& traffic) {
  const int reads = streams(traffic.read_streams, max_reads);
  const int writes = streams(traffic.written_streams, max_writes);
  return reads * padded(stream_size(traffic.read_bytes, reads)) +
         writes * padded(stream_size(traffic.written_bytes, writes));
}

streaming_floor::streaming_floor(const device& where, const traffic_model& traffic, int sets)
    : where_(where),
      reads_(streams(traffic.read_streams, max_reads)),
      writes_(streams(traffic.written_streams, max_writes)),
      read_size_(stream_size(traffic.read_bytes, reads_)),
      written_size_(stream_size(traffic.written_bytes, writes_)) {
  for (int set = 0; set < sets; ++set) {
    sets_.emplace_back(where, bytes_needed(traffic));
    const memory& m = sets_.back();
    const auto words = static_cast<std::int64_t>(m.size() / 8);
    if (where.is_host())
      std::memset(m.data(), 0x5a, m.size());
    else if (words > 0)
      fill_kernel<<<1024, 256>>>(reinterpret_cast<unsigned long long*>(m.data()), words, set);
  }
  if (where.is_host()) return;
  check_cuda(cudaGetLastError(), "filling the floor's streams");
  check_cuda(cudaDeviceSynchronize(), "filling the floor's streams");
}

char* streaming_floor::read_stream(int set, int index) const {
  return sets_[static_cast<std::size_t>(set)].data() + index * padded(read_size_);
}

char* streaming_floor::written_stream(int set, int index) const {
  return read_stream(set, reads_) + index * padded(written_size_);
}

std::vector<arm> streaming_floor::arms() const {
  if (where_.is_host()) {
    return {{"memcpy", [this](int set, void*) {
               const std::size_t bytes = std::min(read_size_, written_size_);
               for (int i = 0; i < std::max(reads_, writes_); ++i)
                 std::memcpy(written_stream(set, i % writes_), read_stream(set, i % reads_), bytes);
             }}};
  }
  std::vector<arm> all;
  for (const variant& v : variants) {
    const stream_function kernel = pick(reads_, writes_, v.unroll, v.streaming);
    const std::int64_t vectors =
        static_cast<std::int64_t>(std::max(read_size_, written_size_)) / 16;
    const std::int64_t per_block = std::int64_t{v.unroll} * v.threads;
    std::int64_t grid = std::max<std::int64_t>(1, (vectors + per_block - 1) / per_block);
    if (v.persistent) {
      int resident = 0;
      check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, v.threads, 0),
                 "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
      grid = std::min(grid, std::int64_t{std::max(1, resident)} * where_.limits.sms);
    }
    all.push_back(
        {name_of(v), [this, kernel, grid, v](int set, void* stream) {
           flows f = {};
           for (int r = 0; r < reads_; ++r) f.in[r] = read_stream(set, r);
           for (int w = 0; w < writes_; ++w) f.out[w] = written_stream(set, w);
           f.read_size = static_cast<std::int64_t>(read_size_);
           f.written_size = static_cast<std::int64_t>(written_size_);
           kernel<<<static_cast<unsigned>(grid), v.threads, 0, static_cast<cudaStream_t>(stream)>>>(
               f);
         }});
  }
  return all;
}

std::vector<arm> fastest_arms(const device& where, const std::vector<arm>& arms,
                              timing_options options, int rounds, int keep) {
  if (arms.size() <= static_cast<std::size_t>(keep)) return arms;
  options.rounds = rounds;
  const timing raced = time_arms(where, arms, options);
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < arms.size(); ++i) order.emplace_back(median(raced.arms[i].us), i);
  std::sort(order.begin(), order.end());
  std::vector<arm> best;
  for (int i = 0; i < keep; ++i) best.push_back(arms[order[static_cast<std::size_t>(i)].second]);
  return best;
}

}  // namespace capstone::tools
