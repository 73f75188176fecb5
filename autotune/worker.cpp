// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/worker.hpp"

#include <cuda_runtime_api.h>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <random>

#include "autotune/bench.hpp"
#include "autotune/gate.hpp"
#include "autotune/launch.hpp"
#include "autotune/subprocess.hpp"
#include "core/floor.hpp"
#include "core/nvml.hpp"

namespace capstone::tools {
namespace {

using nlohmann::json;

json to_json(const verdict& from) { return {{"state", token(from.state)}, {"why", from.why}}; }

// A copy of known bytes through a kernel that no tuning touches.
verdict run_canary(const device& where) {
  if (where.is_host()) return {};
  constexpr std::int64_t bytes = 1 << 20;
  const streaming_floor copy(where, {bytes, bytes, 1, 1}, 1);
  std::vector<char> expected(copy.written_size()), found(copy.written_size());
  check_cuda(cudaMemcpy(expected.data(), copy.read_stream(0, 0), expected.size(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  check_cuda(cudaMemset(copy.written_stream(0, 0), 0, found.size()), "cudaMemset");
  copy.arms().front().run(0, nullptr);
  check_cuda(cudaDeviceSynchronize(), "the canary");
  check_cuda(cudaMemcpy(found.data(), copy.written_stream(0, 0), found.size(), cudaMemcpyDeviceToHost),
             "cudaMemcpy");
  if (found == expected) return {};
  return {status::crash, "a plain copy gave other bytes"};
}

double peak_gbps(const device& where) {
  int khz = 0, bits = 0;
  const auto reads = [&](int& value, cudaDeviceAttr attribute) {
    return cudaDeviceGetAttribute(&value, attribute, where.ordinal) == cudaSuccess;
  };
  if (where.is_host() || !reads(khz, cudaDevAttrMemoryClockRate) || !reads(bits, cudaDevAttrGlobalMemoryBusWidth)) {
    cudaGetLastError();
    return 0;
  }
  return 2.0 * khz * (bits / 8) / 1e6;  // two transfers a clock
}

/// Times that follow from the config alone, for tests of what comes after: a few configs share a time,
/// and rounds scatter by 0.2 %.
std::vector<double> simulated_us(const std::string& what, int rounds, std::uint64_t seed) {
  std::seed_seq of_what(what.begin(), what.end());
  std::mt19937_64 base(of_what);
  const double us = 10 + double(base() % 50) / 10;
  std::mt19937_64 random(base() ^ seed ^ static_cast<std::uint64_t>(rounds));
  std::vector<double> found;
  for (int i = 0; i < rounds; ++i) found.push_back(us * (1 + 0.002 * (double(random() % 2001) / 1000 - 1)));
  return found;
}

class worker {
 public:
  worker(const std::string& device, std::uint64_t seed, bool simulated)
      : where_(open_device(device)), seed_(seed), simulated_(simulated) {}

  json answer(const json& request) {
    const auto what = request.at("do").get<std::string>();
    try {
      if (what == "hello") return hello();
      if (what == "canary") return to_json(run_canary(where_));
      if (what == "open") return open(request);
      if (what == "gate") return to_json(gate_->test(config_of(request)));
      if (what == "open_shape") return open_shape(request);
      if (what == "time") return time(request);
      if (what == "check") return to_json(check(config_of(request)));
      throw std::invalid_argument("do is '" + what + "'; expected a request of the worker");
    } catch (const device_crashed& error) {
      return to_json(verdict{status::crash, error.what()});
    } catch (const launch_refused& error) {
      return to_json(verdict{status::launch_error, error.what()});
    } catch (const std::bad_alloc&) {
      return to_json(verdict{status::out_of_memory, "not enough memory for the buffers"});
    } catch (const std::exception& error) {
      const auto crashed = where_.is_host() ? "" : why_crashed();
      return to_json(verdict{status::crash, crashed.empty() ? error.what() : crashed});
    }
  }

 private:
  static config config_of(const json& request) { return request.at("config").get<config>(); }

  json hello() const {
    return {{"device", capstone::tools::to_json(where_)},
            {"peak_gbps", peak_gbps(where_)},
            {"others", where_.is_host() ? -1 : nvml(where_).other_processes()}};
  }

  json open(const json& request) {
    bench_.reset(), gate_.reset(), kernels_.reset();
    std::tie(op_, kernel_) = find_kernel(request.at("kernel"), request.at("dtype"));
    images_.clear();
    for (const auto& each : request.at("images")) {
      image made;
      each.at("type").get_to(made.kernel_type), each.at("file").get_to(made.file);
      each.at("entry").get_to(made.entry), each.at("error").get_to(made.error);
      images_[made.kernel_type] = std::move(made);
    }
    problem at;
    at.shape = request.at("shape").get<std::vector<std::int64_t>>();
    kernels_ = std::make_unique<loaded_kernels>(where_, images_);
    gate_ = std::make_unique<gate>(where_, *op_, *kernel_, at, kernels_->run(), seed_);
    return to_json(verdict{});
  }

  json open_shape(const json& request) {
    bench_.reset();  // its memory first
    problem at;
    at.shape = request.at("shape").get<std::vector<std::int64_t>>();
    bench_ = std::make_unique<shape_bench>(where_, *op_, *kernel_, at, *kernels_, seed_);
    return to_json(verdict{});
  }

  json time(const json& request) {
    std::vector<std::optional<config>> arms;
    for (const auto& each : request.at("arms")) {
      arms.push_back(each.is_null() ? std::nullopt : std::optional(each.get<config>()));
    }
    const int rounds = request.at("rounds");
    if (simulated_) {
      json us = json::array();
      const auto shape = request.at("shape").dump();
      for (std::size_t i = 0; i < arms.size(); ++i) {
        const auto name = arms[i] ? config_text(*op_, *arms[i]) : "default";
        us.push_back(simulated_us(kernel_->name() + shape + name, rounds, seed_ + i));
      }
      return {{"state", "ok"}, {"us", us}, {"timer", "simulated"}};
    }
    const auto found = bench_->time(arms, rounds, request.at("sample_us"), request.at("warm_up_ms"));
    json us = json::array();
    for (const auto& each : found.arms) us.push_back(each.us);
    return {{"state", "ok"}, {"us", us}, {"timer", token(found.timer)}};
  }

  verdict check(const config& values) { return gate_->test_at(bench_->shape(), bench_->first_set(), values, true); }

  device where_;
  std::uint64_t seed_;
  bool simulated_;
  const op* op_ = nullptr;
  const kernel_spec* kernel_ = nullptr;
  std::map<std::string, image> images_;
  std::unique_ptr<loaded_kernels> kernels_;
  std::unique_ptr<gate> gate_;
  std::unique_ptr<shape_bench> bench_;
};

worker* served = nullptr;

std::string answer_line(const std::string& line) {
  return served->answer(json::parse(line)).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace

nlohmann::json to_json(const device& of) {
  return {{"id", of.id},         {"name", of.name},         {"uuid", of.uuid},           {"driver", of.driver},
          {"cc", of.limits.cc},  {"sms", of.limits.sms},    {"l2_bytes", of.limits.l2_bytes},
          {"ordinal", of.ordinal}, {"cuda", of.cuda}};
}

device device_from(const nlohmann::json& text) {
  device found;
  text.at("id").get_to(found.id), text.at("name").get_to(found.name), text.at("uuid").get_to(found.uuid);
  text.at("driver").get_to(found.driver), text.at("cuda").get_to(found.cuda);
  text.at("cc").get_to(found.limits.cc), text.at("sms").get_to(found.limits.sms);
  text.at("l2_bytes").get_to(found.limits.l2_bytes), text.at("ordinal").get_to(found.ordinal);
  return found;
}

int serve_worker(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) return 1;
  for (std::size_t i = 3; i < arguments.size(); ++i) load_plugin(arguments[i]);
  worker mine(arguments[0], std::stoull(arguments[1]), arguments[2] == "simulated");
  served = &mine;
  return serve_lines(answer_line);
}

}  // namespace capstone::tools
