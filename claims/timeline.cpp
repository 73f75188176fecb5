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
#include "claims/external.hpp"
#include "claims/nsys.hpp"
#include "claims/race.hpp"
#include "core/marker.hpp"
#include "core/process.hpp"
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
  cudaStream_t stream() const { return stream_; }
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

/// Every arm from a stream, then every one in a graph.
std::vector<lane_plan> lanes_of(const race& r) {
  std::vector<lane_plan> lanes;
  for (const bool in_graph : {false, true})
    for (std::size_t i = 0; i < r.arms.size(); ++i) lanes.push_back({r.arms[i].name + (in_graph ? ", graph" : ", stream"), i, in_graph});
  return lanes;
}

/// Fills in the lanes and their times without a tracer, which slows launches once it is attached.
void time_untraced(const device& where, problem_plan& plan, std::uint64_t seed) {
  timing_options timing;
  race r;
  prepare(where, plan, seed, timing, r);
  plan.l2 = timing.sets * timing.bytes_per_call >= 3 * where.limits.l2_bytes ? "cold" : "warm";
  plan.lanes = lanes_of(r);
  for (lane_plan& lane : plan.lanes) {
    lane_runner runner(r.arms[lane.arm].run, timing.sets);
    runner.enqueue(2);
    runner.wait();
    const auto begin = clock::now();
    runner.enqueue(2);
    runner.wait();
    lane.calls = std::clamp(int(lane_us / (us_since(begin) / 2)), least_calls, most_calls);
    if (lane.in_graph) runner.capture(lane.calls), runner.replay(), runner.wait();
    lane.wall = wall_us(runner, lane.calls, lane.in_graph);
  }
}

/// Makes the calls of every window, all lanes in turn, as often as windows are traced. `begin` and `end`
/// stand around each one, with the stream idle.
void run_windows(const race& r, int sets, const std::vector<lane_plan>& lanes, const std::function<void(lane_runner&)>& begin,
                 const std::function<void(std::size_t, lane_runner&)>& end) {
  for (int repeat = 0; repeat < traced_windows; ++repeat)
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      const lane_plan& lane = lanes[i];
      lane_runner runner(r.arms[lane.arm].run, sets);
      runner.enqueue(1);
      runner.wait();
      if (lane.in_graph) runner.capture(lane.calls);
      // What a first call loads, and what the tracer's first launches after a flush cost (some 0.4 ms on an
      // H200), is before the window.
      const auto call = [&](int calls) {
        if (lane.in_graph) runner.replay();
        else runner.enqueue(calls);
        runner.wait();
      };
      call(2);
      begin(runner);
      call(lane.calls);
      end(i, runner);
    }
}

/// Of each lane, every window.
using lane_windows = std::vector<std::vector<lane_events>>;

lane_windows trace_by_cupti(const device& where, const problem_plan& plan, std::uint64_t seed, activity_tracer& tracer) {
  timing_options timing;
  race r;
  prepare(where, plan, seed, timing, r);
  lane_windows windows(plan.lanes.size());
  std::uint64_t began = 0;
  tracer.take();
  const auto begin = [&](lane_runner&) { began = tracer.now_ns(); };
  const auto end = [&](std::size_t lane, lane_runner&) {
    lane_events events = tracer.take();
    for (auto* list : {&events.kernels, &events.launches, &events.overheads})
      std::erase_if(*list, [&](const traced_interval& e) { return e.begin_ns < began; });
    windows[lane].push_back(std::move(events));
  };
  run_windows(r, timing.sets, plan.lanes, begin, end);
  return windows;
}

/// All problems in one run of this program under nsys.
std::vector<lane_windows> trace_by_nsys(const device& where, const selection& wanted, const timeline_options& options, const std::vector<problem_plan>& plans,
                                        const nsys_tool& tool) {
  std::string calls;
  std::size_t lanes = 0;
  for (const problem_plan& plan : plans)
    for (const lane_plan& lane : plan.lanes) calls += (lanes++ == 0 ? "" : ",") + std::to_string(lane.calls);
  const scratch_folder scratch;
  nsys_run run{scratch.path().string(), "timeline", this_program_again({"launch-for-tracer", "--calls", calls}, wanted, options.plugins, where)};
  run.timeout_s = 120 + 30 * double(plans.size());
  const std::vector<lane_events> windows = split_windows(run_nsys(tool, run), lanes * traced_windows);
  std::vector<lane_windows> all;
  auto next = windows.begin();
  for (const problem_plan& plan : plans) {
    lane_windows& of = all.emplace_back(plan.lanes.size());
    for (int repeat = 0; repeat < traced_windows; ++repeat)
      for (auto& lane : of) lane.push_back(*next++);
  }
  return all;
}

void print(const timeline_lane& l) {
  std::printf("  %-20s %2lld calls of %.3g kernels: %9.3f us a call untraced; window %9.2f us, busy %9.2f, gaps %5.1f %% [%.1f, %.1f]; kernel %8.3f us, launches %7.3f us a call\n",
              l.name.c_str(), static_cast<long long>(l.calls), l.kernels_per_call, l.wall_us_per_call, l.window_us, l.busy_us, 100 * l.launch_share,
              100 * *std::min_element(l.shares.begin(), l.shares.end()), 100 * *std::max_element(l.shares.begin(), l.shares.end()), l.kernel_us,
              l.api_us_per_call);
}

void keep(const device& where, const problem_plan& plan, const lane_windows& traced, const tracer_id& tracer, const std::string& out) {
  timeline_record record{this_run(), describe(where), tracer, plan.kernel->name(), plan.kernel->dtype, id_of(*plan.of, *plan.what), plan.l2, {}};
  std::vector<std::vector<std::pair<timeline_lane, lane_events>>> windows(plan.lanes.size());
  for (std::size_t i = 0; i < plan.lanes.size(); ++i)
    for (const lane_events& events : traced[i]) {
      timeline_lane lane;
      lane.name = plan.lanes[i].name;
      lane.calls = plan.lanes[i].calls;
      lane.wall_us_per_call = plan.lanes[i].wall;
      derive(events, lane);
      if (tracer.name == nsys_name) lane.overhead_us.reset();  // its reports do not tell
      windows[i].emplace_back(std::move(lane), events);
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
  atomic_write(stem + ".json", chrome_trace(events, tracer));
  atomic_write(stem + ".yaml", write_timeline(record));
  std::printf("  %s.yaml, and .json for Perfetto\n", stem.c_str());
}

std::vector<problem_plan> plans_of(const std::vector<chosen>& all) {
  std::vector<problem_plan> plans;
  for (const chosen& c : all)
    for (const suite_problem& item : c.problems) plans.push_back({c.of, c.kernel, &item.what, "", {}});
  return plans;
}

}  // namespace

int timeline(const selection& wanted, const timeline_options& options, const device& where) {
  if (where.is_host()) {
    std::fprintf(stderr, "claims timeline refuses: device is host, which launches nothing; expected a GPU\n");
    return 2;
  }
  const std::string out = out_root(wanted, where);
  check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
  const std::vector<chosen> all = choose(wanted, where);
  std::vector<problem_plan> plans = plans_of(all);
  for (problem_plan& plan : plans) time_untraced(where, plan, wanted.seed);
  std::vector<lane_windows> windows;
  try {
    const auto by_nsys = [&] {
      const nsys_tool tool = find_nsys();
      windows = trace_by_nsys(where, wanted, options, plans, tool);
      return tracer_id{nsys_name, tool.version, ""};
    };
    const auto by_cupti = [&] {
      activity_tracer tracer;
      for (const problem_plan& plan : plans) windows.push_back(trace_by_cupti(where, plan, wanted.seed, tracer));
      return tracer_id{cupti_name, tracer.version(), ""};
    };
    const tracer_id tracer = trace_by(options.tracer, by_nsys, by_cupti);
    std::printf("traced by %s\n", tracer.label().c_str());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      std::printf("timeline of %s %s %s\n", plans[i].kernel->name().c_str(), plans[i].kernel->dtype.c_str(), id_of(*plans[i].of, *plans[i].what).shape.c_str());
      keep(where, plans[i], windows[i], tracer, out);
    }
  } catch (const trace_error& error) {
    std::fprintf(stderr, "claims timeline: INCONCLUSIVE: %s\n", error.what());
    return 4;
  }
  return 0;
}

int launch_for_tracer(selection wanted, const device& where, const std::vector<int>& calls) {
  tools::end_with_parent();  // nsys starts programs in a session of their own
  if (where.is_host()) throw std::invalid_argument("device is host; expected a GPU, for only its launches are traced");
  wanted.tuned_only = true;  // as `timeline` chooses
  check_cuda(cudaSetDevice(where.ordinal), "cudaSetDevice");
  const std::vector<chosen> all = choose(wanted, where);
  auto next = calls.begin();
  for (const problem_plan& plan : plans_of(all)) {
    timing_options timing;
    race r;
    prepare(where, plan, wanted.seed, timing, r);
    std::vector<lane_plan> lanes = lanes_of(r);
    for (lane_plan& lane : lanes) {
      if (next == calls.end()) throw std::invalid_argument("calls has " + std::to_string(calls.size()) + " numbers; expected one for each lane of each problem");
      lane.calls = *next++;
    }
    const auto mark = [](lane_runner& runner) {
      launch_marker(runner.stream());
      runner.wait();
    };
    run_windows(r, timing.sets, lanes, mark, [&](std::size_t, lane_runner& runner) { mark(runner); });
  }
  return 0;
}

}  // namespace capstone::claims
