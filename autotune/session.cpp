// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/session.hpp"

#include <cstdio>

#include "autotune/worker.hpp"

namespace capstone::tools {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A context on a GPU whose persistence mode is off, and filling 3 x L2 of buffers or 80 % of its memory.
constexpr milliseconds start_timeout = seconds(60), buffers_timeout = seconds(120);

verdict verdict_from(const json& answer) {
  return {status_of(answer.at("state").get<std::string>()), answer.value("why", "")};
}

bool lost(const json& answer) {
  const auto state = answer.value("state", "ok");
  return state == token(status::crash) || state == token(status::timeout);
}

}  // namespace

worker_session::worker_session(const std::string& device, session_settings how)
    : request_(device), how_(std::move(how)) {
  try {
    start();
  } catch (const child_died& death) {
    throw std::runtime_error(std::string("the worker on device ") + (device.empty() ? "0" : device) + " " + death.what() +
                             "; its words are above");
  }
  if (!device_.is_host()) lock_.emplace(device_.uuid);
}

// Up to the proof that the device works.
void worker_session::start() {
  std::vector<std::string> words = {how_.program, "worker", request_, std::to_string(how_.seed),
                                    how_.simulated ? "simulated" : "measured"};
  words.insert(words.end(), how_.plugins.begin(), how_.plugins.end());
  worker_ = std::make_unique<subprocess>(words);
  const auto hello = ask_once({{"do", "hello"}}, start_timeout);
  device_ = device_from(hello.at("device"));
  peak_gbps_ = hello.at("peak_gbps");
  others_ = hello.at("others");
  const auto canary = verdict_from(ask_once({{"do", "canary"}}, start_timeout));
  if (canary.state != status::ok) throw child_died("failed on a plain copy: " + canary.why);
  warm_ = false;
}

json worker_session::ask_once(const json& request, milliseconds timeout) {
  return json::parse(worker_->ask(request.dump(), std::chrono::steady_clock::now() + timeout));
}

void worker_session::restart(const std::string& why) {
  ++restarts_;
  std::string last = why;
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      worker_.reset();
      start();
      for (const auto* again : {&open_, &open_shape_}) {
        if (again->is_null()) continue;
        const auto answer = ask_once(*again, buffers_timeout);
        if (lost(answer)) throw child_died(answer.value("why", ""));
      }
      return;
    } catch (const child_died& death) {
      last = death.what();
    } catch (const child_late&) {
      last = "gave no answer";
    }
  }
  throw device_failed("device " + device_.id + " " + device_.uuid + ": a worker was lost (" + why +
                      "), and two fresh ones failed before any candidate ran (" + last +
                      "); the journal is kept, go on with --resume when the device works");
}

json worker_session::ask(json request, milliseconds timeout) {
  for (bool again = false;; again = true) {
    json answer;
    bool killed = false;
    try {
      answer = ask_once(request, timeout);
    } catch (const child_died& death) {
      answer = {{"state", token(status::crash)}, {"why", std::string("the worker ") + death.what()}};
      killed = death.was_killed();
    } catch (const child_late&) {
      answer = {{"state", token(status::timeout)},
                {"why", "no end within " + std::to_string(timeout.count() / 1000) + " s, the worker was killed"}};
    }
    if (lost(answer)) restart(answer.value("why", ""));
    // A killed worker is not the candidate's fault, unless it is again: it may eat all memory.
    if (!killed || again) return answer;
  }
}

void worker_session::open(const kernel_spec& kernel, const problem& gate_shape, const std::vector<image>& images) {
  json list = json::array();
  for (const auto& each : images) {
    list.push_back({{"type", each.kernel_type}, {"file", each.file}, {"entry", each.entry}, {"error", each.error}});
  }
  open_shape_ = nullptr;
  open_ = {{"do", "open"}, {"kernel", kernel.name()}, {"dtype", kernel.dtype}, {"shape", gate_shape.shape}, {"images", list}};
  const auto answer = verdict_from(ask(open_, buffers_timeout));
  if (answer.state != status::ok) throw std::runtime_error("the worker cannot open " + kernel.name() + ": " + answer.why);
}

verdict worker_session::gate(const config& values) {
  return verdict_from(ask({{"do", "gate"}, {"config", values}}, how_.candidate_timeout));
}

verdict worker_session::open_shape(const problem& at) {
  open_shape_ = nullptr;  // not to be asked again if it is what kills the worker
  json request = {{"do", "open_shape"}, {"shape", at.shape}};
  const auto answer = verdict_from(ask(request, buffers_timeout));
  if (answer.state == status::ok) open_shape_ = std::move(request);
  return answer;
}

arm_times worker_session::time(const std::vector<std::optional<config>>& arms, int rounds, double sample_us) {
  json list = json::array();
  for (const auto& each : arms) list.push_back(each ? json(*each) : json());
  const double warm_up_ms = warm_ || device_.is_host() ? 0 : 100;
  // First calls, captures and replays of every arm take a few milliseconds; ten times what is asked for is
  // generous.
  const milliseconds timeout = how_.candidate_timeout +
                               milliseconds(static_cast<std::int64_t>(double(arms.size()) * (100 + rounds * sample_us / 100)));
  const auto answer = ask({{"do", "time"}, {"shape", open_shape_.at("shape")}, {"arms", list}, {"rounds", rounds},
                           {"sample_us", sample_us}, {"warm_up_ms", warm_up_ms}},
                          timeout);
  arm_times found{verdict_from(answer), {}, answer.value("timer", "")};
  if (found.result.state != status::ok) return found;
  warm_ = true;
  found.us = answer.at("us").get<std::vector<std::vector<double>>>();
  return found;
}

verdict worker_session::check(const config& values) {
  return verdict_from(ask({{"do", "check"}, {"config", values}}, how_.candidate_timeout + buffers_timeout));
}

}  // namespace capstone::tools
