// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// A tiny op, y = 2 x in float32, whose "kernels" are functions of the test: each candidate may
// carry a planted fault, and none is compiled.
#pragma once

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "autotune/launch.hpp"
#include "core/spec.hpp"

namespace capstone::tests {

using namespace capstone::tools;

struct fake_params {
  const float* x;
  float* y;
  std::int64_t rows, cols, stride;
};

// The values of the axis `fault`.
enum fault { none, writes_nothing, drops_last_column, writes_past_row, overwrites_input, other_bits,
             racy, refused, crashes, thrice, fault_count };

inline const std::vector<std::string> fault_names = {
    "none", "writes_nothing", "drops_last_column", "writes_past_row", "overwrites_input",
    "other_bits", "racy", "refused", "crashes", "thrice"};

inline kernel_spec fake_kernel() {
  kernel_spec k;
  k.op = "fake";
  k.variant = "+twice";
  k.dtype = "f32";
  k.tuned = true;
  k.buffers = [](const problem& p) {
    const auto rows = p.shape[0], cols = p.shape[1];
    return std::vector<buffer_desc>{
        {"x", role::in, dtype::f32, rows, cols, cols + p.pad, p.offset, -1, p.data},
        {"y", role::out, dtype::f32, rows, cols, cols + p.pad, p.offset, -1, p.data}};
  };
  k.check = [](const problem& p, const pointers& inputs, const pointers& actual, const config&,
               bool) {
    check_result r;
    r.output = "y";
    r.bias_limit = 1;
    for (std::int64_t row = 0; row < p.shape[0]; ++row) {
      for (std::int64_t col = 0; col < p.shape[1]; ++col) {
        const auto at = row * (p.shape[1] + p.pad) + col;
        const double expected = 2.0 * static_cast<const float*>(inputs[0])[at];
        const double is = static_cast<const float*>(actual[1])[at];
        ++r.count;
        if (std::fabs(is - expected) <= 1e-5 * std::fabs(expected)) continue;
        ++r.failures;
        r.worst_ratio = INFINITY;
        r.row = row, r.col = col, r.actual = is, r.expected = expected;
      }
    }
    return std::vector{r};
  };
  k.traffic = [](const problem& p) {
    return traffic_model{4 * p.shape[0] * p.shape[1], 4 * p.shape[0] * p.shape[1], 1, 1};
  };
  k.default_config = [](const problem&) { return config{32, 1, none}; };
  k.plan = [](const problem& p, const pointers& at, const config& values, const device_limits&) {
    const fake_params params{static_cast<const float*>(at[0]), static_cast<float*>(at[1]),
                             p.shape[0], p.shape[1], p.shape[1] + p.pad};
    launch_plan plan;
    plan.kernel_type = fault_names[static_cast<std::size_t>(values[2])];
    plan.block = static_cast<unsigned>(values[0] * values[1]);
    plan.params.resize(sizeof params);
    std::memcpy(plan.params.data(), &params, sizeof params);
    return plan;
  };
  k.default_plan = [plan = k.plan](const problem& p, const pointers& at, const config& values,
                                   const device_limits& limits) {
    return plan(p, at, {values[0], 1, none}, limits);
  };
  return k;
}

inline op fake_op() {
  op o;
  o.name = "fake";
  o.header = "fake.cuh";
  o.config_type = "capstone::row_config";
  o.dims = {"rows", "cols"};
  o.axes = {{"lanes", part::reduction, {32, 64, 128}, {}, {}, {}, ""},
            {"tile_rows", part::schedule, {1, 2, 4}, {}, {}, {}, ""},
            {"fault", part::schedule, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, fault_names, {}, {}, "fault"}};
  o.rules = {{"a block has at most 256 threads",
              [](const config& c, const problem&, const kernel_spec&, const device_limits&) {
                return c[0] * c[1] <= 256;
              }},
             {"no more rows a block than the problem has",
              [](const config& c, const problem& p, const kernel_spec&, const device_limits&) {
                return c[1] <= p.shape[0];
              }}};
  o.suites = {{"llm", {{{4, 100}}}}};
  o.kernels = {fake_kernel()};
  return o;
}

// Runs a plan of the fake op on the host, faults and all.
inline executor fake_executor() {
  executor run;
  run.launch = [calls = 0](const launch_plan& plan, void*) mutable {
    fake_params p;
    std::memcpy(&p, plan.params.data(), sizeof p);
    const auto& kind = plan.kernel_type;
    ++calls;
    if (kind == "refused") throw launch_refused("too many resources requested");
    if (kind == "crashes") throw device_crashed("an illegal memory access was encountered");
    if (kind == "writes_nothing") return;
    const auto cols = kind == "drops_last_column" ? p.cols - 1 : p.cols;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      for (std::int64_t col = 0; col < cols; ++col) {
        const float factor = kind == "thrice" ? 3 : 2;
        p.y[row * p.stride + col] = factor * p.x[row * p.stride + col];
      }
      if (kind == "other_bits") p.y[row * p.stride] *= 1.000001f;
      if (kind == "racy") p.y[row * p.stride] *= 1 + 1e-6f * static_cast<float>(calls % 7);
    }
    if (kind == "writes_past_row") p.y[(p.rows - 1) * p.stride + p.cols] = 0;
    if (kind == "overwrites_input") const_cast<float*>(p.x)[p.cols - 1] = 0;
  };
  return run;
}

// The fake op is in the registry while this lives.
struct registered_fake {
  explicit registered_fake(op value = fake_op()) { registry().push_back(std::move(value)); }
  ~registered_fake() { registry().pop_back(); }
  registered_fake(const registered_fake&) = delete;
};

}  // namespace capstone::tests
