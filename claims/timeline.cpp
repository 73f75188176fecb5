// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/timeline.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <stdexcept>

#include "claims/activity.hpp"
#include "claims/race.hpp"
#include "core/stats.hpp"

namespace capstone::claims {
namespace {

using clock = std::chrono::steady_clock;

constexpr int most_calls = 20, least_calls = 6;
constexpr double lane_us = 3000;  // calls of a lane are cut to about this, for the picture
constexpr int wall_repeats = 11;
constexpr int traced_windows = 5;  // an odd number: the median one is kept
constexpr const char* unfused_name = "unfused";

/// A stream of its own, and a graph of calls captured from it.
class lane_runner {
 public:
  using call = std::function<void(int, void*)>;

  lane_runner(call one, int sets) : one_(std::move(one)), sets_(sets) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~lane_runner() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
  }
  lane_runner(const lane_runner&) = delete;
  lane_runner& operator=(const lane_runner&) = delete;

  void enqueue(int calls) {
    for (int i = 0; i < calls; ++i) one_(next_++ % sets_, stream_);
  }
  void wait() { check_cuda(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  void capture(int calls) {
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    try {
      enqueue(calls);
    } catch (...) {
      cudaStreamEndCapture(stream_, &graph_);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream_, &graph_), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&exec_, graph_, 0), "cudaGraphInstantiate");
  }
  void replay() { check_cuda(cudaGraphLaunch(exec_, stream_), "cudaGraphLaunch"); }

 private:
  call one_;
  int sets_, next_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t exec_ = nullptr;
};

double us_since(clock::time_point begin) { return std::chrono::duration<double, std::micro>(clock::now() - begin).count(); }

double wall_us(lane_runner& runner, int calls, bool in_graph) {
  std::vector<double> times;
  for (int i = 0; i < wall_repeats; ++i) {
    const auto begin = clock::now();
    if (in_graph) runner.replay();
    else runner.enqueue(calls);
    runner.wait();
    times.push_back(us_since(begin) / calls);
  }
  return recorded(median(times));
}

/// The arms: the shipped call, and the unfused baseline where the spec has one that can run this.
void arms_of(const device& where, const kernel_spec& kernel, const problem& what, race& r) {
  add_own_arm("capstone", where, kernel, what, r);
  for (const baseline& b : kernel.baselines) {
    if (b.name != unfused_name || (b.supports && !b.supports(what))) continue;
    r.scratch.emplace_back(where, b.workspace_bytes ? b.workspace_bytes(what) : 0);
    void* workspace = r.scratch.back().data();
    r.arms.push_back({b.name, [&b, &what, &r, workspace](int set, void* stream) {
                        b.run(what, r.sets[static_cast<std::size_t>(set)].data(), workspace, stream);
                      }});
  }
}

/// A way to make the calls, and what it takes untraced.
struct lane_plan {
  std::string name;
  std::size_t arm = 0;
  bool in_graph = false;
  int calls = 0;
  double wall = 0;
};

struct problem_plan {
  const op* of;
  const kernel_spec* kernel;
  const problem* what;
  std::string l2;
  std::vector<lane_plan> lanes;
};

void prepare(const device& where, const problem_plan& plan, std::uint64_t seed, timing_options& timing, race& r) {
  timing.seed = seed;
  add_sets(where, *plan.kernel, *plan.what, seed, timing, r);
  arms_of(where, *plan.kernel, *plan.what, r);
}

/// Fills in the lanes and their times without a tracer, which slows launches once it is attached.
void time_untraced(const device& where, problem_plan& plan, std::uint64_t seed) {
  timing_options timing;
  race r;
  prepare(where, plan, seed, timing, r);
  plan.l2 = timing.sets * timing.bytes_per_call >= 3 * where.limits.l2_bytes ? "cold" : "warm";
  for (const bool in_graph : {false, true})
    for (std::size_t i = 0; i < r.arms.size(); ++i) {
      lane_plan lane{r.arms[i].name + (in_graph ? ", graph" : ", stream"), i, in_graph};
      lane_runner runner(r.arms[i].run, timing.sets);
      runner.enqueue(2);
      runner.wait();
      const auto begin = clock::now();
      runner.enqueue(2);
      runner.wait();
      lane.calls = std::clamp(int(lane_us / (us_since(begin) / 2)), least_calls, most_calls);
      if (in_graph) runner.capture(lane.calls), runner.replay(), runner.wait();
      lane.wall = wall_us(runner, lane.calls, in_graph);
      plan.lanes.push_back(lane);
    }
}

lane_events trace_window(lane_runner& runner, const lane_plan& lane, activity_tracer& tracer) {
  tracer.take();
  // What a first call loads, and what the tracer's first launches after a flush cost (some 0.4 ms on an
  // H200), is before the window.
  if (lane.in_graph) runner.replay();
  else runner.enqueue(2);
  runner.wait();
  const std::uint64_t begin = tracer.now_ns();
  if (lane.in_graph) runner.replay();
  else runner.enqueue(lane.calls);
  runner.wait();
  lane_events events = tracer.take();
  for (auto* list : {&events.kernels, &events.launches, &events.overheads})
    std::erase_if(*list, [&](const traced_interval& e) { return e.begin_ns < begin; });
  return events;
}

void print(const timeline_lane& l) {
  std::printf("  %-20s %2lld calls of %.3g kernels: %9.3f us a call untraced; window %9.2f us, busy %9.2f, gaps %5.1f %% [%.1f, %.1f]; kernel %8.3f us, launches %7.3f us a call\n",
              l.name.c_str(), static_cast<long long>(l.calls), l.kernels_per_call, l.wall_us_per_call, l.window_us, l.busy_us, 100 * l.launch_share,
              100 * *std::min_element(l.shares.begin(), l.shares.end()), 100 * *std::max_element(l.shares.begin(), l.shares.end()), l.kernel_us,
              l.api_us_per_call);
}

void trace(const device& where, const problem_plan& plan, std::uint64_t seed, const std::string& out, activity_tracer& tracer) {
  timing_options timing;
  race r;
  prepare(where, plan, seed, timing, r);
  timeline_record record{this_run(), describe(where), tracer.source(), plan.kernel->name(), plan.kernel->dtype, id_of(*plan.of, *plan.what), plan.l2, {}};
  std::vector<std::vector<std::pair<timeline_lane, lane_events>>> windows(plan.lanes.size());
  for (int repeat = 0; repeat < traced_windows; ++repeat)
    for (std::size_t i = 0; i < plan.lanes.size(); ++i) {
      const lane_plan& lane = plan.lanes[i];
      lane_runner runner(r.arms[lane.arm].run, timing.sets);
      runner.enqueue(1);
      runner.wait();
      if (lane.in_graph) runner.capture(lane.calls);
      timeline_lane traced;
      traced.name = lane.name;
      traced.calls = lane.calls;
      traced.wall_us_per_call = lane.wall;
      lane_events events = trace_window(runner, lane, tracer);
      derive(events, traced);
      windows[i].emplace_back(std::move(traced), std::move(events));
    }
  std::vector<std::pair<std::string, lane_events>> events;
  for (auto& lane : windows) {
    std::vector<double> shares;
    for (const auto& window : lane) shares.push_back(window.first.launch_share);
    std::nth_element(lane.begin(), lane.begin() + traced_windows / 2, lane.end(),
                     [](const auto& a, const auto& b) { return a.first.launch_share < b.first.launch_share; });
    auto& [kept, kept_events] = lane[traced_windows / 2];
    kept.shares = shares;
    print(kept);
    events.emplace_back(kept.name, std::move(kept_events));
    record.lanes.push_back(std::move(kept));
  }
  std::string stem = out + "/evidence/" + where.id + "/timelines/" + record.kernel + "." + record.dtype + "." + record.what.shape;
  if (!record.what.layout.empty()) {
    std::string layout = record.what.layout;
    std::replace(layout.begin(), layout.end(), ' ', ',');
    stem += "." + layout;
  }
  std::filesystem::create_directories(std::filesystem::path(stem).parent_path());
  atomic_write(stem + ".json", chrome_trace(events));
  atomic_write(stem + ".yaml", write_timeline(record));
  std::printf("  %s.yaml, and .json for Perfetto\n", stem.c_str());
}

}  // namespace

int timeline(const selection& wanted, const device& where) {
  if (where.is_host()) {
    std::fprintf(stderr, "claims timeline refuses: device is host, which launches nothing; expected a GPU\n");
    return 2;
  }
  const std::string out = out_root(wanted, where);
  check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
  std::vector<problem_plan> plans;
  const std::vector<chosen> all = choose(wanted, where);
  for (const chosen& c : all)
    for (const suite_problem& item : c.problems) plans.push_back({c.of, c.kernel, &item.what, "", {}});
  for (problem_plan& plan : plans) time_untraced(where, plan, wanted.seed);
  try {
    activity_tracer tracer;
    for (const problem_plan& plan : plans) {
      std::printf("timeline of %s %s %s\n", plan.kernel->name().c_str(), plan.kernel->dtype.c_str(), id_of(*plan.of, *plan.what).shape.c_str());
      trace(where, plan, wanted.seed, out, tracer);
    }
  } catch (const trace_error& error) {
    std::fprintf(stderr, "claims timeline: INCONCLUSIVE: %s\n", error.what());
    return 4;
  }
  return 0;
}

}  // namespace capstone::claims
