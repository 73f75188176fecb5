// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/timeline.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
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
std::vector<arm> arms_of(const device& where, const kernel_spec& kernel, const problem& what, race& r) {
  add_own_arm("capstone", where, kernel, what, r);
  for (const baseline& b : kernel.baselines) {
    if (b.name != unfused_name || (b.supports && !b.supports(what))) continue;
    r.scratch.emplace_back(where, b.workspace_bytes ? b.workspace_bytes(what) : 0);
    void* workspace = r.scratch.back().data();
    r.arms.push_back({b.name, [&b, &what, &r, workspace](int set, void* stream) {
                        b.run(what, r.sets[static_cast<std::size_t>(set)].data(), workspace, stream);
                      }});
  }
  return r.arms;
}

struct traced {
  timeline_lane lane;
  lane_events events;
};

traced trace(const std::string& name, lane_runner& runner, int calls, bool in_graph, double wall, activity_tracer& tracer) {
  tracer.take();
  // What a first call loads, and what the tracer's first launches after a flush cost (some 0.4 ms on an
  // H200), is before the window.
  if (in_graph) runner.replay();
  else runner.enqueue(2);
  runner.wait();
  const std::uint64_t begin = tracer.now_ns();
  if (in_graph) runner.replay();
  else runner.enqueue(calls);
  runner.wait();
  traced t;
  t.events = tracer.take();
  for (auto* list : {&t.events.kernels, &t.events.launches})
    std::erase_if(*list, [&](const traced_interval& e) { return e.begin_ns < begin; });
  t.lane.name = name;
  t.lane.calls = calls;
  t.lane.wall_us_per_call = wall;
  derive(t.events, t.lane);
  return t;
}

void print(const timeline_lane& l) {
  std::printf("  %-20s %2lld calls of %.3g kernels: %9.3f us a call untraced; window %9.2f us, busy %9.2f, gaps %5.1f %%; kernel %8.3f us, launches %7.3f us a call\n",
              l.name.c_str(), static_cast<long long>(l.calls), l.kernels_per_call, l.wall_us_per_call, l.window_us, l.busy_us, 100 * l.launch_share,
              l.kernel_us, l.api_us_per_call);
}

void run_problem(const device& where, const op& of, const kernel_spec& kernel, const problem& what, const selection& wanted, const std::string& out) {
  timing_options timing;
  timing.seed = wanted.seed;
  race r;
  add_sets(where, kernel, what, wanted.seed, timing, r);
  const std::vector<arm> arms = arms_of(where, kernel, what, r);
  // Untraced first: tracing slows launches.
  struct prepared {
    std::string name;
    std::unique_ptr<lane_runner> runner;
    bool in_graph;
    int calls;
    double wall;
  };
  std::vector<prepared> lanes;
  for (const bool in_graph : {false, true})
    for (const arm& a : arms) {
      prepared p{a.name + (in_graph ? ", graph" : ", stream"), std::make_unique<lane_runner>(a.run, timing.sets), in_graph, most_calls, 0};
      p.runner->enqueue(2);
      p.runner->wait();
      const auto begin = clock::now();
      p.runner->enqueue(2);
      p.runner->wait();
      p.calls = std::clamp(int(lane_us / (us_since(begin) / 2)), least_calls, most_calls);
      if (in_graph) p.runner->capture(p.calls), p.runner->replay(), p.runner->wait();
      p.wall = wall_us(*p.runner, p.calls, in_graph);
      lanes.push_back(std::move(p));
    }
  timeline_record record{this_run(), describe(where), "", kernel.name(), kernel.dtype, id_of(of, what), timing.sets > 1 ? "cold" : "warm", {}};
  std::vector<std::pair<std::string, lane_events>> events;
  {
    activity_tracer tracer;
    record.source = tracer.source();
    for (prepared& p : lanes) {
      if (p.in_graph) {  // captured again, for a graph that was made before tracing shows as one kernel
        auto fresh = std::make_unique<lane_runner>(arms[events.size() % arms.size()].run, timing.sets);
        fresh->enqueue(1);
        fresh->wait();
        fresh->capture(p.calls);
        p.runner = std::move(fresh);
      }
      traced t = trace(p.name, *p.runner, p.calls, p.in_graph, p.wall, tracer);
      print(t.lane);
      record.lanes.push_back(t.lane);
      events.emplace_back(p.name, std::move(t.events));
    }
  }
  const std::string stem = out + "/evidence/" + where.id + "/timelines/" + kernel.name() + "." + kernel.dtype + "." + record.what.shape;
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
  for (const chosen& c : choose(wanted, where))
    for (const suite_problem& item : c.problems) {
      std::printf("timeline of %s %s %s\n", c.kernel->name().c_str(), c.kernel->dtype.c_str(), id_of(*c.of, item.what).shape.c_str());
      run_problem(where, *c.of, *c.kernel, item.what, wanted, out);
    }
  return 0;
}

}  // namespace capstone::claims
