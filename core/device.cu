// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "core/device.hpp"

#include <cuda_runtime.h>
#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <utility>

namespace capstone::tools {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// The driver's own version ("580.159.04") is known to NVML alone, which comes with the driver.
std::string driver_version() {
  std::string text;
  if (void* nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    const auto init = reinterpret_cast<int (*)()>(dlsym(nvml, "nvmlInit_v2"));
    const auto version = reinterpret_cast<int (*)(char*, unsigned)>(
        dlsym(nvml, "nvmlSystemGetDriverVersion"));
    char buffer[96] = {};
    if (init && version && init() == 0 && version(buffer, sizeof buffer) == 0) text = buffer;
    // Left loaded and initialised: the timer asks it for clocks.
  }
  int cuda = 0;
  if (text.empty() && cudaDriverGetVersion(&cuda) == cudaSuccess) {
    text = "CUDA " + version_text(cuda);
  }
  return text;
}

std::string uuid_text(const cudaUUID_t& uuid) {
  static const char* digits = "0123456789abcdef";
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    const auto byte = static_cast<unsigned char>(uuid.bytes[i]);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string runtime_version() {
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return version_text(version);
}

}  // namespace

void check_cuda(int code, const char* what) {
  if (code == cudaSuccess) return;
  const auto error = static_cast<cudaError_t>(code);
  throw std::runtime_error(std::string(what) + ": " + cudaGetErrorName(error) + ", " +
                           cudaGetErrorString(error));
}

std::string device_id(const std::string& name, const device_limits& limits) {
  // The whole GPU only: a MIG slice of one is another device to a tuner.
  if (name.find("H200") != std::string::npos && limits.cc == 90 && limits.sms == 132) return "h200";
  return "sm" + std::to_string(limits.cc) + "-" + std::to_string(limits.sms) + "-" +
         std::to_string(limits.l2_bytes >> 20) + "mb";
}

std::string why_no_gpu() {
  int count = 0;
  const auto error = cudaGetDeviceCount(&count);
  cudaGetLastError();
  if (error != cudaSuccess) {
    return std::string("no GPU can be used here (") + cudaGetErrorName(error) + ": " +
           cudaGetErrorString(error) + ")";
  }
  return count == 0 ? "no GPU is visible here" : "";
}

device open_device(const std::string& request) {
  device found;
  found.cuda = runtime_version();
  if (request == "host") {
    found.id = found.name = found.driver = "host";
    return found;
  }
  int ordinal = 0;
  const char* end = request.data() + request.size();
  if (!request.empty()) {
    const auto [stop, error] = std::from_chars(request.data(), end, ordinal);
    if (error != std::errc{} || stop != end || ordinal < 0) {
      throw std::invalid_argument("device is '" + request +
                                  "'; expected a GPU's number, 0 say, or host");
    }
  }
  if (const auto why = why_no_gpu(); !why.empty()) {
    throw std::runtime_error(why + "; the same pipeline runs on the host as a self-test with "
                                   "`--device host`");
  }
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (ordinal >= count) {
    throw std::invalid_argument("device is " + std::to_string(ordinal) + "; expected one of the " +
                                std::to_string(count) + " GPUs here, counted from 0, or host");
  }
  cudaDeviceProp properties{};
  check_cuda(cudaSetDevice(ordinal), "cudaSetDevice");
  check_cuda(cudaGetDeviceProperties(&properties, ordinal), "cudaGetDeviceProperties");
  found.name = properties.name;
  found.uuid = uuid_text(properties.uuid);
  found.driver = driver_version();
  found.limits = {10 * properties.major + properties.minor, properties.multiProcessorCount,
                  properties.l2CacheSize};
  found.id = device_id(found.name, found.limits);
  found.ordinal = ordinal;
  return found;
}

memory::memory(const device& where, std::size_t bytes) : size_(bytes), on_host_(where.is_host()) {
  if (bytes == 0) return;
  if (on_host_) {
    // aligned_alloc wants a multiple of the alignment.
    data_ = static_cast<char*>(std::aligned_alloc(256, (bytes + 255) / 256 * 256));
    if (data_ == nullptr) throw std::bad_alloc();
    return;
  }
  void* data = nullptr;
  if (cudaMalloc(&data, bytes) != cudaSuccess) {
    cudaGetLastError();
    throw std::bad_alloc();
  }
  data_ = static_cast<char*>(data);
}

memory::memory(memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      on_host_(other.on_host_) {}

memory& memory::operator=(memory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(on_host_, other.on_host_);
  return *this;
}

memory::~memory() {
  if (data_ == nullptr) return;
  if (on_host_) {
    std::free(data_);
  } else {
    cudaFree(data_);  // an error here is a crashed context, which its finder has reported
  }
}

}  // namespace capstone::tools
