// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "core/buffers.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace capstone::tools {
namespace {

using u64 = unsigned long long;

constexpr std::size_t guard = 256;
constexpr unsigned pattern = 0xA5A5A5A5;  // of guards and row padding
constexpr unsigned poison = 0xFFFFFFFF;   // of outputs: a NaN in every dtype

enum class generator { normal, large, tiny, constant, zero, uniform };
enum class payload { data, poison, skip };  // what is or should be in the elements themselves

// One buffer's region, guards included, cut into slots of one element each.
struct region {
  char* base;
  u64 slots, head;  // head: slots before element 0
  u64 rows, cols, stride;
  u64 key;
  dtype type;
  generator fill;
  payload inside;
};

struct place {
  bool in_payload;
  u64 row, col;
};

__host__ __device__ inline u64 mix(u64 z) {  // splitmix64's finaliser
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

__host__ __device__ inline place place_of(const region& r, u64 slot) {
  if (slot < r.head) return {false, 0, 0};
  const u64 k = slot - r.head;
  const u64 row = (k >> 32) == 0 && (r.stride >> 32) == 0 ? unsigned(k) / unsigned(r.stride)
                                                          : k / r.stride;
  const u64 col = k - row * r.stride;
  return {row < r.rows && col < r.cols, row, col};
}

// Integer sums until the last step, so host and device agree on every bit: twelve 16-bit uniforms
// add up to a normal of mean 0 and variance 1 (Irwin-Hall), cut off at 6 sigma.
__host__ __device__ inline float normal(u64 key, u64 counter) {
  int sum = 0;
  for (u64 word = 0; word < 3; ++word) {
    const u64 bits = mix(key + (3 * counter + word) * 0x9E3779B97F4A7C15ull);
    sum += int(bits & 0xFFFF) + int(bits >> 16 & 0xFFFF) + int(bits >> 32 & 0xFFFF) +
           int(bits >> 48);
  }
  return float(sum - 6 * 65535) * (1.0f / 65536);
}

__host__ __device__ inline float value_at(const region& r, u64 row, u64 col) {
  const u64 counter = row * r.cols + col;
  switch (r.fill) {
    case generator::normal: return normal(r.key, counter);
    case generator::large: return normal(r.key, counter) * 1e3f;
    case generator::tiny: return normal(r.key, counter) * 1e-4f;
    case generator::constant: return 1.0f + 1.0f / 256;
    case generator::zero: return 0.0f;
    case generator::uniform:
      return float(int(mix(r.key + counter * 0x9E3779B97F4A7C15ull) >> 40) - (1 << 23)) / (1 << 23);
  }
  return 0;
}

__host__ __device__ inline unsigned bits_of(float value, dtype type) {
  if (type == dtype::bf16) return __bfloat16_as_ushort(__float2bfloat16_rn(value));
  if (type == dtype::f16) return __half_as_ushort(__float2half_rn(value));
  unsigned bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

__host__ __device__ inline unsigned expected_bits(const region& r, const place& at) {
  const unsigned mask = r.type == dtype::f32 ? 0xFFFFFFFFu : 0xFFFFu;
  if (!at.in_payload) return pattern & mask;
  return r.inside == payload::poison ? poison & mask
                                     : bits_of(value_at(r, at.row, at.col), r.type);
}

__host__ __device__ inline unsigned read_slot(const region& r, u64 slot) {
  return r.type == dtype::f32 ? reinterpret_cast<const unsigned*>(r.base)[slot]
                              : reinterpret_cast<const unsigned short*>(r.base)[slot];
}

__host__ __device__ inline void fill_slot(const region& r, u64 slot, bool payload_only) {
  const place at = place_of(r, slot);
  if (payload_only && !at.in_payload) return;
  const unsigned bits = expected_bits(r, at);
  if (r.type == dtype::f32) {
    reinterpret_cast<unsigned*>(r.base)[slot] = bits;
  } else {
    reinterpret_cast<unsigned short*>(r.base)[slot] = static_cast<unsigned short>(bits);
  }
}

// Whether this slot is bad: not as it was left, or with `unwritten` still poisoned.
__host__ __device__ inline bool is_bad(const region& r, u64 slot, bool unwritten) {
  const place at = place_of(r, slot);
  if (unwritten) return at.in_payload && read_slot(r, slot) == expected_bits(r, at);
  if (at.in_payload && r.inside == payload::skip) return false;
  return read_slot(r, slot) != expected_bits(r, at);
}

__global__ void fill_region(const region r, bool payload_only) {
  const u64 step = u64(gridDim.x) * blockDim.x;
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.slots; i += step) {
    fill_slot(r, i, payload_only);
  }
}

__global__ void check_region(const region r, bool unwritten, u64* first_bad) {
  const u64 step = u64(gridDim.x) * blockDim.x;
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.slots; i += step) {
    if (is_bad(r, i, unwritten)) atomicMin(first_bad, i);
  }
}

// Sums commute, so the order in which threads come does not matter.
__host__ __device__ inline u64 hash_slot(const region& r, u64 slot) {
  const place at = place_of(r, slot);
  return at.in_payload ? mix(r.key + mix(slot - r.head) + read_slot(r, slot)) : 0;
}

__global__ void hash_region(const region r, u64* sum) {
  const u64 step = u64(gridDim.x) * blockDim.x;
  u64 mine = 0;
  for (u64 i = u64(blockIdx.x) * blockDim.x + threadIdx.x; i < r.slots; i += step) {
    mine += hash_slot(r, i);
  }
  atomicAdd(sum, mine);
}

unsigned blocks_for(u64 slots) {
  return static_cast<unsigned>(std::min<u64>((slots + 255) / 256, 4096));
}

std::size_t round_up(std::size_t bytes) { return (bytes + guard - 1) / guard * guard; }

std::size_t span_bytes(const buffer_desc& desc) {
  if (desc.rows == 0 || desc.cols == 0) return 0;
  return static_cast<std::size_t>((desc.rows - 1) * desc.stride + desc.cols) * size_of(desc.type);
}

std::size_t region_bytes(const buffer_desc& desc) {
  if (desc.alias_of >= 0) return 0;
  return guard + round_up(static_cast<std::size_t>(desc.offset) * size_of(desc.type) +
                          span_bytes(desc)) + guard;
}

generator generator_of(const buffer_desc& desc) {
  static const std::pair<const char*, generator> known[] = {
      {"normal", generator::normal},     {"large", generator::large},
      {"tiny", generator::tiny},         {"constant", generator::constant},
      {"zero", generator::zero},         {"uniform", generator::uniform}};
  for (const auto& [name, value] : known) {
    if (desc.fill == name) return value;
  }
  throw std::invalid_argument("buffer " + desc.name + " has fill '" + desc.fill +
                              "'; expected normal, large, tiny, constant, zero or uniform");
}

void check_descs(const std::vector<buffer_desc>& descs) {
  for (const auto& desc : descs) {
    generator_of(desc);
    if (desc.rows < 0 || desc.cols < 0 || desc.offset < 0 || desc.stride < desc.cols) {
      throw std::invalid_argument(
          "buffer " + desc.name + " has rows " + std::to_string(desc.rows) + ", cols " +
          std::to_string(desc.cols) + ", stride " + std::to_string(desc.stride) + ", offset " +
          std::to_string(desc.offset) + "; expected none negative and stride >= cols");
    }
    if (desc.alias_of < 0) continue;
    const auto index = static_cast<std::size_t>(desc.alias_of);
    const auto* other = index < descs.size() ? &descs[index] : nullptr;
    if (other == nullptr || other->use != role::in || other->type != desc.type ||
        other->rows != desc.rows || other->cols != desc.cols || other->stride != desc.stride ||
        other->alias_of >= 0) {
      throw std::invalid_argument("buffer " + desc.name + " aliases buffer " +
                                  std::to_string(desc.alias_of) +
                                  "; expected an input of the same dtype, shape and stride");
    }
  }
}

bool has_alias(const std::vector<buffer_desc>& descs, std::size_t index) {
  for (const auto& desc : descs) {
    if (desc.alias_of == static_cast<int>(index)) return true;
  }
  return false;
}

region region_of(const buffer_desc& desc, std::size_t index, char* base, std::uint64_t seed,
                 payload inside) {
  region r{};
  r.base = base;
  r.slots = region_bytes(desc) / size_of(desc.type);
  r.head = guard / size_of(desc.type) + static_cast<u64>(desc.offset);
  r.rows = static_cast<u64>(desc.rows);
  r.cols = static_cast<u64>(desc.cols);
  r.stride = std::max<u64>(1, static_cast<u64>(desc.stride));
  r.key = mix(mix(seed + 1) + (index + 1) * 0xD1B54A32D192ED03ull);
  r.type = desc.type;
  r.fill = generator_of(desc);
  r.inside = inside;
  return r;
}

void fill(const device& where, const region& r, bool payload_only) {
  if (where.is_host()) {
    for (u64 i = 0; i < r.slots; ++i) fill_slot(r, i, payload_only);
    return;
  }
  fill_region<<<blocks_for(r.slots), 256>>>(r, payload_only);
  check_cuda(cudaGetLastError(), "filling a buffer");
}

// The first bad slot of each region, or ~0.
std::vector<u64> find(const device& where, const std::vector<region>& regions, bool unwritten,
                      char* scratch) {
  std::vector<u64> first(regions.size(), ~0ull);
  if (where.is_host()) {
    for (std::size_t k = 0; k < regions.size(); ++k) {
      for (u64 i = 0; i < regions[k].slots && first[k] == ~0ull; ++i) {
        if (is_bad(regions[k], i, unwritten)) first[k] = i;
      }
    }
    return first;
  }
  auto* found = reinterpret_cast<u64*>(scratch);
  const auto bytes = first.size() * sizeof(u64);
  check_cuda(cudaMemsetAsync(found, 0xFF, bytes), "cudaMemsetAsync");
  for (std::size_t k = 0; k < regions.size(); ++k) {
    check_region<<<blocks_for(regions[k].slots), 256>>>(regions[k], unwritten, found + k);
  }
  check_cuda(cudaGetLastError(), "checking a buffer");
  check_cuda(cudaMemcpy(first.data(), found, bytes, cudaMemcpyDeviceToHost), "checking a buffer");
  return first;
}

std::string where_in(const buffer_desc& desc, const region& r, u64 slot) {
  const auto size = size_of(desc.type);
  std::string text = std::string(desc.use == role::in ? "input " : "output ") + desc.name + ": ";
  const place at = place_of(r, slot);
  if (slot < r.head) {
    return text + std::to_string((r.head - slot) * size) + " bytes before its first element";
  }
  if (at.in_payload) {
    return text + "row " + std::to_string(at.row) + ", col " + std::to_string(at.col);
  }
  // Behind the last row the padding and the guard are one.
  const u64 row = r.rows == 0 ? 0 : std::min(at.row, r.rows - 1);
  const u64 past = slot - r.head - row * r.stride - (r.rows == 0 ? 0 : r.cols);
  return text + "byte " + std::to_string(past * size) + " behind the end of row " +
         std::to_string(row) + (row + 1 >= r.rows ? " (the last)" : "");
}

}  // namespace

std::size_t buffer_set::bytes_needed(const std::vector<buffer_desc>& descs) {
  std::size_t bytes = round_up(descs.size() * sizeof(u64));  // scratch for the check
  for (const auto& desc : descs) bytes += region_bytes(desc);
  return bytes;
}

buffer_set::buffer_set(const device& where, std::vector<buffer_desc> descs, std::uint64_t seed)
    : device_(where), descs_(std::move(descs)), seed_(seed) {
  check_descs(descs_);
  memory_ = memory(where, bytes_needed(descs_));
  std::size_t at = round_up(descs_.size() * sizeof(u64));
  for (const auto& desc : descs_) {
    begin_.push_back(at);
    at += region_bytes(desc);
  }
  for (std::size_t i = 0; i < descs_.size(); ++i) {
    if (descs_[i].alias_of >= 0) begin_[i] = begin_[static_cast<std::size_t>(descs_[i].alias_of)];
    const auto& owner =
        descs_[i].alias_of < 0 ? descs_[i] : descs_[static_cast<std::size_t>(descs_[i].alias_of)];
    pointers_.push_back(memory_.data() + begin_[i] + guard +
                        static_cast<std::size_t>(owner.offset) * size_of(owner.type));
  }
  reset();
}

void buffer_set::reset() {
  for (std::size_t i = 0; i < descs_.size(); ++i) {
    if (descs_[i].alias_of >= 0) continue;
    fill(device_,
         region_of(descs_[i], i, memory_.data() + begin_[i], seed_,
                   descs_[i].use == role::in ? payload::data : payload::poison),
         false);
  }
  if (!device_.is_host()) check_cuda(cudaDeviceSynchronize(), "resetting the buffers");
}

void buffer_set::poison_outputs() {
  for (std::size_t i = 0; i < descs_.size(); ++i) {
    if (descs_[i].alias_of >= 0) continue;
    if (descs_[i].use == role::in && !has_alias(descs_, i)) continue;
    fill(device_,
         region_of(descs_[i], i, memory_.data() + begin_[i], seed_,
                   descs_[i].use == role::in ? payload::data : payload::poison),
         true);
  }
  if (!device_.is_host()) check_cuda(cudaDeviceSynchronize(), "poisoning the outputs");
}

std::string buffer_set::find_damage() const {
  std::vector<region> regions;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < descs_.size(); ++i) {
    if (descs_[i].alias_of >= 0) continue;
    const bool pure_input = descs_[i].use == role::in && !has_alias(descs_, i);
    regions.push_back(region_of(descs_[i], i, memory_.data() + begin_[i], seed_,
                                pure_input ? payload::data : payload::skip));
    index.push_back(i);
  }
  const auto first = find(device_, regions, false, memory_.data());
  for (std::size_t k = 0; k < regions.size(); ++k) {
    if (first[k] == ~0ull) continue;
    return where_in(descs_[index[k]], regions[k], first[k]) + " was overwritten";
  }
  return "";
}

std::string buffer_set::find_unwritten() const {
  std::vector<region> regions;
  std::vector<std::size_t> index;
  for (std::size_t i = 0; i < descs_.size(); ++i) {
    // An output in an input's memory holds that input, not the poison.
    if (descs_[i].use == role::in || descs_[i].alias_of >= 0) continue;
    regions.push_back(
        region_of(descs_[i], i, memory_.data() + begin_[i], seed_, payload::poison));
    index.push_back(i);
  }
  if (regions.empty()) return "";
  const auto first = find(device_, regions, true, memory_.data());
  for (std::size_t k = 0; k < regions.size(); ++k) {
    if (first[k] == ~0ull) continue;
    return where_in(descs_[index[k]], regions[k], first[k]) + " was not written";
  }
  return "";
}

std::uint64_t buffer_set::output_hash() const {
  u64 sum = 0;
  auto* device_sum = reinterpret_cast<u64*>(memory_.data());
  if (!device_.is_host()) check_cuda(cudaMemsetAsync(device_sum, 0, sizeof sum), "cudaMemsetAsync");
  for (std::size_t i = 0; i < descs_.size(); ++i) {
    if (descs_[i].use == role::in) continue;
    const auto& owner =
        descs_[i].alias_of < 0 ? descs_[i] : descs_[static_cast<std::size_t>(descs_[i].alias_of)];
    // The output's own index keys it, so that two outputs cannot trade places unseen.
    const auto r = region_of(owner, i, memory_.data() + begin_[i], seed_, payload::skip);
    if (device_.is_host()) {
      for (u64 slot = 0; slot < r.slots; ++slot) sum += hash_slot(r, slot);
    } else {
      hash_region<<<blocks_for(r.slots), 256>>>(r, device_sum);
    }
  }
  if (!device_.is_host()) {
    check_cuda(cudaGetLastError(), "hashing the outputs");
    check_cuda(cudaMemcpy(&sum, device_sum, sizeof sum, cudaMemcpyDeviceToHost),
               "hashing the outputs");
  }
  return sum;
}

std::vector<std::byte> buffer_set::download(int index) const {
  const auto& desc = descs_.at(static_cast<std::size_t>(index));
  const auto row_bytes = static_cast<std::size_t>(desc.cols) * size_of(desc.type);
  const auto stride_bytes = static_cast<std::size_t>(desc.stride) * size_of(desc.type);
  std::vector<std::byte> bytes(static_cast<std::size_t>(desc.rows) * row_bytes);
  if (bytes.empty()) return bytes;
  const auto* from = static_cast<const char*>(data()[static_cast<std::size_t>(index)]);
  if (!device_.is_host()) {
    check_cuda(cudaMemcpy2D(bytes.data(), row_bytes, from, stride_bytes, row_bytes,
                            static_cast<std::size_t>(desc.rows), cudaMemcpyDeviceToHost),
               "downloading a buffer");
    return bytes;
  }
  for (std::size_t row = 0; row < static_cast<std::size_t>(desc.rows); ++row) {
    std::memcpy(bytes.data() + row * row_bytes, from + row * stride_bytes, row_bytes);
  }
  return bytes;
}

}  // namespace capstone::tools
