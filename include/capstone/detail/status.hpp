// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What a call returns: success, an error of CUDA's, or a sentence about one argument.
#pragma once

#include <cuda_runtime_api.h>

namespace capstone {

/// The result of a call. A call that fails has launched nothing, unless CUDA says otherwise.
class [[nodiscard]] status {
 public:
  /// A sentence in a fixed buffer: no allocation, nothing thrown.
  struct text {
    char chars[256];
    const char* c_str() const { return chars; }
  };

  status() = default;
  status(cudaError_t code) : cuda_(code) {}
  /// Argument `name` has `value`, `expected` says what it should have been.
  status(const char* name, long long value, const char* expected)
      : cuda_(cudaErrorInvalidValue), argument_(name), expected_(expected), value_(value) {}
  /// The same for a pointer.
  status(const char* name, const void* value, const char* expected)
      : cuda_(cudaErrorInvalidValue),
        argument_(name),
        expected_(expected),
        value_(reinterpret_cast<long long>(value)),
        is_pointer_(true) {}

  bool ok() const { return cuda_ == cudaSuccess; }
  explicit operator bool() const { return ok(); }
  /// CUDA's code; cudaErrorInvalidValue for a bad argument.
  cudaError_t code() const { return cuda_; }
  /// The argument at fault, or nullptr when it is CUDA's error or none.
  const char* argument() const { return argument_; }

  /// "x_stride is 100, expected ...", or CUDA's own words, or "success".
  text sentence() const {
    text t{};
    int n = 0;
    if (argument_ == nullptr) {
      append(t, n, ok() ? "success" : cudaGetErrorString(cuda_));
      return t;
    }
    append(t, n, argument_);
    append(t, n, " is ");
    if (is_pointer_ && value_ == 0)
      append(t, n, "null");
    else
      append_number(t, n);
    append(t, n, ", expected ");
    append(t, n, expected_);
    return t;
  }

 private:
  static void append(text& t, int& n, const char* s) {
    while (*s != 0 && n < int(sizeof t.chars) - 1) t.chars[n++] = *s++;
  }
  void append_number(text& t, int& n) const {
    const unsigned base = is_pointer_ ? 16 : 10;
    unsigned long long v = static_cast<unsigned long long>(value_);
    if (is_pointer_) append(t, n, "0x");
    if (!is_pointer_ && value_ < 0) {
      append(t, n, "-");
      v = 0 - v;
    }
    char digits[24];
    int d = 0;
    do {
      digits[d++] = "0123456789abcdef"[v % base];
      v /= base;
    } while (v != 0);
    char one[2] = {0, 0};
    while (d > 0) {
      one[0] = digits[--d];
      append(t, n, one);
    }
  }

  cudaError_t cuda_ = cudaSuccess;
  const char* argument_ = nullptr;
  const char* expected_ = nullptr;
  long long value_ = 0;
  bool is_pointer_ = false;
};

}  // namespace capstone
