// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// Device memory and random data for the GPU tests.
#pragma once

#include <capstone/detail/numeric.cuh>

#include <cuda_runtime.h>
#include <doctest/doctest.h>

#include <cstring>
#include <random>
#include <vector>

namespace capstone::tests {

#define CHECK_CUDA(call) REQUIRE_MESSAGE((call) == cudaSuccess, cudaGetErrorString(cudaGetLastError()))

template <class T>
class device_buffer {
 public:
  explicit device_buffer(std::size_t n) : n_(n) {
    CHECK_CUDA(cudaMalloc(&data_, (n + 64) * sizeof(T)));
    poison();
  }
  explicit device_buffer(const std::vector<T>& from) : device_buffer(from.size()) { put(from); }
  device_buffer(const device_buffer&) = delete;
  ~device_buffer() { cudaFree(data_); }
  T* get() const { return data_; }
  void put(const std::vector<T>& from) {
    CHECK_CUDA(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  void poison() { CHECK_CUDA(cudaMemset(data_, 0xff, (n_ + 64) * sizeof(T))); }
  std::vector<T> host(std::size_t offset = 0) const {
    std::vector<T> out(n_ - offset);
    CHECK_CUDA(cudaMemcpy(out.data(), data_ + offset, out.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  T* data_ = nullptr;
  std::size_t n_;
};

template <class T>
std::vector<T> normals(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> v(n);
  for (auto& e : v) e = detail::from_f32<T>(normal(random));
  return v;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

}  // namespace capstone::tests
