// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/probe.hpp"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <sstream>
#include <stdexcept>

#include "core/floor.hpp"
#include "core/rates.hpp"

namespace capstone::claims {
namespace {

using namespace tools;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(part);
  return parts;
}

std::int64_t positive(const std::string& text, const std::string& plan) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1)
    throw std::invalid_argument("plan is '" + plan + "', with '" + text +
                                "' in it; expected a number above 0");
  return value;
}

/// One launch with the profiler off (the module is loaded then), then those that count.
void launch(const arm& what) {
  const auto wait = [&] {
    check_cuda(cudaGetLastError(), what.name.c_str());
    check_cuda(cudaDeviceSynchronize(), what.name.c_str());
  };
  what.run(0, nullptr);
  wait();
  check_cuda(cudaProfilerStart(), "cudaProfilerStart");
  for (int i = 0; i < probe_launches; ++i) {
    what.run(0, nullptr);
    wait();
  }
  check_cuda(cudaProfilerStop(), "cudaProfilerStop");
}

}  // namespace

traffic_model streams_of(std::int64_t reads, std::int64_t writes, std::int64_t bytes) {
  if (reads < 1 || writes < 1 || bytes < 16 * (reads + writes))
    throw std::invalid_argument("reads, writes, bytes are " + std::to_string(reads) + ", " +
                                std::to_string(writes) + ", " + std::to_string(bytes) +
                                "; expected a stream of each or more, with 16 bytes or more");
  const std::int64_t stream = bytes / (reads + writes) / 16 * 16;
  traffic_model traffic;
  traffic.read_bytes = reads * stream;
  traffic.written_bytes = writes * stream;
  traffic.read_streams = static_cast<int>(reads);
  traffic.written_streams = static_cast<int>(writes);
  return traffic;
}

std::string write_plan(const std::vector<probed_copy>& copies) {
  std::string plan;
  for (const probed_copy& c : copies) {
    if (!plan.empty()) plan += '/';
    std::string variant = c.variant;
    std::replace(variant.begin(), variant.end(), ' ', '+');
    plan += std::to_string(c.reads) + "," + std::to_string(c.writes) + "," +
            std::to_string(c.bytes) + "," + variant;
  }
  return plan;
}

std::vector<probed_copy> read_plan(const std::string& plan) {
  std::vector<probed_copy> copies;
  for (const std::string& item : split(plan, '/')) {
    std::vector<std::string> parts = split(item, ',');
    if (parts.size() != 4)
      throw std::invalid_argument("plan is '" + plan + "', with '" + item +
                                  "' in it; expected reads,writes,bytes,variant");
    std::replace(parts[3].begin(), parts[3].end(), '+', ' ');
    copies.push_back(
        {positive(parts[0], plan), positive(parts[1], plan), positive(parts[2], plan), parts[3]});
  }
  if (copies.empty()) throw std::invalid_argument("plan is empty; expected one copy or more");
  return copies;
}

int probe(const device& where, const std::string& plan) {
  if (where.is_host()) {
    std::fprintf(stderr, "claims probe refuses: the host has no profiler; name a GPU\n");
    return 2;
  }
  const std::vector<probed_copy> copies = read_plan(plan);
  // The profiler meets cudaProfilerStart only in a thread that has a context.
  check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
  check_cuda(cudaFree(nullptr), "a context on the device");
  launch(empty_arm());
  launch(pipe_load(where, pipe::tensor, tensor_iterations).as_arm());
  for (const probed_copy& c : copies) {
    const streaming_floor floor(where, streams_of(c.reads, c.writes, c.bytes), 1);
    const std::vector<arm> arms = floor.arms();
    const auto found =
        std::find_if(arms.begin(), arms.end(), [&](const arm& a) { return a.name == c.variant; });
    if (found == arms.end())
      throw std::invalid_argument("variant is '" + c.variant +
                                  "'; expected one of the streaming floor's");
    launch(*found);
  }
  return 0;
}

}  // namespace capstone::claims
