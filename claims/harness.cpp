// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/harness.hpp"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <new>
#include <optional>
#include <stdexcept>

#include "claims/profile_rows.hpp"
#include "core/buffers.hpp"
#include "core/marker.hpp"

namespace capstone::claims {
namespace {

/// A stream of its own, so that work on any other one shows.
class own_stream {
 public:
  own_stream() {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
               "cudaStreamCreateWithFlags");
  }
  ~own_stream() { cudaStreamDestroy(stream_); }
  own_stream(const own_stream&) = delete;
  own_stream& operator=(const own_stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// "" or how the outputs that the last call left differ from what they must be.
std::string why_wrong(const kernel_spec& kernel, const problem& what, const buffer_set& set,
                      const config& values) {
  if (const std::string damage = set.find_damage(); !damage.empty()) return damage;
  if (const std::string gap = set.find_unwritten(); !gap.empty()) return gap;
  for (const check_result& r : kernel.check(what, set.data(), set.data(), values, false))
    if (!r.passed())
      return "output " + r.output + ": " + std::to_string(r.failures) + " of " +
             std::to_string(r.count) + " elements are wrong, the worst by " +
             format_double(recorded(r.worst_ratio)) + " bounds; bias " +
             format_double(recorded(r.bias)) + " of " + format_double(recorded(r.bias_limit)) +
             " half ulps";
  return "";
}

/// Every problem's markers are launched, whatever goes wrong with its calls: the report is told
/// apart by counting them.
std::string run_problem(const device& where, const kernel_spec& kernel, const problem& what,
                        std::uint64_t seed, int launches) {
  const own_stream stream;
  std::string failure;
  std::optional<buffer_set> set;
  try {
    set.emplace(where, kernel.buffers(what), seed);
  } catch (const std::bad_alloc&) {
    failure = "its buffers do not fit the device's memory";
  }
  const auto call = [&] {
    if (!set) return;
    const std::string sentence = kernel.call(what, set->data(), stream.get());
    if (failure.empty()) failure = sentence;
  };
  launch_marker(stream.get());
  call();  // loads the modules
  check_cuda(cudaDeviceSynchronize(),
             (kernel.name() + " " + kernel.dtype + ", the warm-up call").c_str());
  if (set) set->reset();
  check_cuda(cudaProfilerStart(), "cudaProfilerStart");
  for (int i = 0; i < launches; ++i) {
    launch_marker(stream.get());
    call();
    check_cuda(cudaDeviceSynchronize(),
               (kernel.name() + " " + kernel.dtype + ", a profiled call").c_str());
  }
  check_cuda(cudaProfilerStop(), "cudaProfilerStop");
  if (!failure.empty()) return failure;
  return why_wrong(kernel, what, *set, kernel.choice(what, set->data(), where.limits).values);
}

}  // namespace

int harness(selection wanted, const device& where, int launches) {
  if (where.is_host())
    throw std::invalid_argument(
        "device is host; expected a GPU, for only its kernels are profiled");
  if (launches < 1)
    throw std::invalid_argument("launches is " + std::to_string(launches) + "; expected 1 or more");
  wanted.tuned_only = true;  // as `profile` chooses
  check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
  for (const chosen& c : choose(wanted, where))
    for (const suite_problem& item : c.problems) {
      const std::string fault = run_problem(where, *c.kernel, item.what, wanted.seed, launches);
      const prediction_key key{
          where.id, c.kernel->name(), c.kernel->dtype, id_of(*c.of, item.what), {}, "", ""};
      std::fputs(harness_line(name_of(key), fault).c_str(), stdout);
      std::fflush(stdout);
    }
  return 0;
}

}  // namespace capstone::claims
