// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// One GPU and the worker on it, as the coordinator sees them. The coordinator has no CUDA context.
#pragma once

#include <nlohmann/json.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "autotune/compile.hpp"
#include "autotune/device_lock.hpp"
#include "autotune/status.hpp"
#include "core/device.hpp"
#include "core/spec.hpp"

namespace capstone::tools {

/// Fresh workers fail on a known-good kernel, so it is not a candidate's fault.
struct device_failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct session_settings {
  std::string program = "/proc/self/exe";  ///< that serves `worker` and `compiler`
  std::vector<std::string> plugins;
  std::uint64_t seed = 1;
  bool simulated = false;  ///< times follow from the configs: a self-test
  std::chrono::milliseconds candidate_timeout = std::chrono::seconds(20);
};

struct arm_times {
  verdict result;
  std::vector<std::vector<double>> us;  ///< per arm and round; empty unless ok
  std::string timer;
};

/// Requests to a worker, each with a deadline. Where one ends with a crash or a killed worker, a fresh
/// worker has copied a buffer correctly and is where the old one was before the request returns. Where
/// somebody else killed the worker, the request is made once more.
/// Throws device_failed where fresh workers fail, and stopped.
class worker_session {
 public:
  /// Throws device_busy where somebody else tunes on the GPU, std::runtime_error where there is none.
  worker_session(const std::string& device, session_settings how);

  const device& where() const { return device_; }
  double peak_gbps() const { return peak_gbps_; }
  int other_processes() const { return others_; }  ///< computing on the GPU; -1: not known
  std::size_t restarts() const { return restarts_; }

  /// What the next requests are about.
  void open(const kernel_spec& kernel, const problem& gate_shape, const std::vector<image>& images);

  verdict gate(const config& values);
  verdict open_shape(const problem& at);
  /// At the open shape. An arm without a config is the default schedule.
  arm_times time(const std::vector<std::optional<config>>& arms, int rounds, double sample_us);
  verdict check(const config& values);

 private:
  nlohmann::json ask(nlohmann::json request, std::chrono::milliseconds timeout);
  nlohmann::json ask_once(const nlohmann::json& request, std::chrono::milliseconds timeout);
  void start();
  void restart(const std::string& why);

  std::string request_;
  session_settings how_;
  device device_;
  double peak_gbps_ = 0;
  int others_ = -1;
  std::size_t restarts_ = 0;
  bool warm_ = false;
  std::optional<device_lock> lock_;
  std::unique_ptr<subprocess> worker_;
  nlohmann::json open_, open_shape_;  // asked again of a fresh worker
};

}  // namespace capstone::tools
