// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/trace.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <stdexcept>
#include <utility>

#include "claims/table.hpp"
#include "core/disassembler.hpp"
#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;

namespace {

/// Two calls of a kernel of 2 us, launched 10 us apart, on one stream.
lane_events two_calls() {
  lane_events e;
  e.launches = {{"cudaLaunchKernel", 1000, 4000, 1, 0}, {"cudaLaunchKernel", 11000, 14000, 2, 0}};
  e.kernels = {{"k<1, \"x\">", 5000, 7000, 1, 7}, {"k<1, \"x\">", 15000, 17000, 2, 7}};
  return e;
}

}  // namespace

TEST_CASE("timeline: what is covered is the union, in any order, overlapping or empty") {
  CHECK(covered_ns({}) == 0);
  CHECK(covered_ns({{10, 20}, {0, 5}}) == 15);
  CHECK(covered_ns({{0, 10}, {5, 15}, {14, 20}}) == 20);
  CHECK(covered_ns({{0, 100}, {10, 20}, {50, 50}}) == 100);
  CHECK(covered_ns({{7, 7}}) == 0);
}

TEST_CASE("timeline: gaps are those of the window in which kernels run") {
  timeline_lane lane;
  lane.name = "capstone, stream";
  lane.calls = 2;
  derive(two_calls(), lane);
  CHECK(lane.window_us == 12);
  CHECK(lane.busy_us == 4);
  CHECK(lane.gap_us == 8);
  CHECK(lane.launch_share == doctest::Approx(8.0 / 12).epsilon(0.001));
  CHECK(lane.kernels_per_call == 1);
  CHECK(lane.kernel_us == 2);
  CHECK(lane.api_us_per_call == 3);
  REQUIRE(lane.kernels.size() == 2);
  CHECK(lane.kernels[0].begin_us == 4);  // from the first launch
  CHECK(lane.names.size() == 1);
  CHECK_THROWS_WITH_AS(derive({}, lane), doctest::Contains("without a kernel"), std::runtime_error);
}

TEST_CASE("timeline: kernels on two streams that overlap are busy once") {
  lane_events e = two_calls();
  e.kernels[1].begin_ns = 6000, e.kernels[1].end_ns = 8000, e.kernels[1].stream = 8;
  timeline_lane lane;
  lane.name = "x", lane.calls = 2;
  derive(e, lane);
  CHECK(lane.busy_us == 3);
  CHECK(lane.gap_us == 0);
}

TEST_CASE("timeline: the record reads back, and nothing unknown with it") {
  timeline_record record;
  record.device.id = "h200";
  record.tracer = {"CUPTI activity", "13.0 (API version 130001)", "nsys: no importer beside it"};
  record.kernel = "rms_norm", record.dtype = "bf16", record.what = {"rows=1,cols=4096", ""}, record.l2 = "cold";
  record.lanes.resize(1);
  record.lanes[0].name = "capstone, graph", record.lanes[0].calls = 2;
  derive(two_calls(), record.lanes[0]);
  record.lanes[0].shares = {0.5, record.lanes[0].launch_share, 0.7};
  const scratch_tree tree("timeline");
  const std::string path = tree.str() + "/t.yaml", text = write_timeline(record);
  std::ofstream(path) << text;
  CHECK(write_timeline(read_timeline(path)) == text);
  CHECK(read_timeline(path).tracer.label() == "CUPTI activity 13.0 (API version 130001); nsys: no importer beside it");
  record.tracer = {"nsys", "2025.3.1", ""};
  record.lanes[0].overhead_us.reset();  // which it does not tell
  const std::string by_nsys = write_timeline(record);
  std::ofstream(path) << by_nsys;
  CHECK(write_timeline(read_timeline(path)) == by_nsys);
  CHECK_FALSE(read_timeline(path).lanes[0].overhead_us.has_value());
  record.tracer.name = "perf";
  std::ofstream(path) << write_timeline(record);
  CHECK_THROWS_WITH_AS(read_timeline(path), doctest::Contains("expected \"CUPTI activity\" or \"nsys\""), capstone::tools::record_error);
  std::ofstream(path) << text << "more: 1\n";
  CHECK_THROWS_AS(read_timeline(path), capstone::tools::record_error);
}

TEST_CASE("timeline: a number that does not follow from the record's intervals is refused by name") {
  timeline_record record;
  record.device.id = "h200";
  record.tracer = {"CUPTI activity", "13.0 (API version 130001)", "nsys: no importer beside it"};
  record.kernel = "rms_norm", record.dtype = "bf16", record.what = {"rows=1,cols=4096", ""}, record.l2 = "warm";
  record.lanes.resize(1);
  timeline_lane& lane = record.lanes[0];
  lane.name = "capstone, stream", lane.calls = 2;
  derive(two_calls(), lane);
  lane.shares = {lane.launch_share};
  const scratch_tree tree("timeline_edited");
  const std::string path = tree.str() + "/t.yaml";
  const auto refusal = [&](double timeline_lane::* number, double value) {
    const double before = std::exchange(lane.*number, value);
    std::ofstream(path) << write_timeline(record);
    lane.*number = before;
    try {
      read_timeline(path);
    } catch (const capstone::tools::record_error& error) {
      return std::string(error.what());
    }
    return std::string("read");
  };
  const std::pair<const char*, double timeline_lane::*> numbers[] = {
      {"kernels_per_call", &timeline_lane::kernels_per_call}, {"window_us", &timeline_lane::window_us},
      {"busy_us", &timeline_lane::busy_us},                   {"gap_us", &timeline_lane::gap_us},
      {"launch_share", &timeline_lane::launch_share},         {"api_us_per_call", &timeline_lane::api_us_per_call},
      {"kernel_us", &timeline_lane::kernel_us}};
  for (const auto& [name, number] : numbers) {
    CHECK(refusal(number, lane.*number) == "read");
    CHECK(refusal(number, lane.*number * 1.01 + 0.002).find(name) != std::string::npos);
  }
  lane.shares = {0.1, lane.launch_share, 0.9};
  CHECK(refusal(&timeline_lane::wall_us_per_call, 1) == "read");
  lane.shares = {0.1, 0.2, lane.launch_share};
  CHECK(refusal(&timeline_lane::wall_us_per_call, 1).find("shares") != std::string::npos);
  lane.shares = {lane.launch_share, lane.launch_share};
  CHECK(refusal(&timeline_lane::wall_us_per_call, 1).find("odd number") != std::string::npos);
}

TEST_CASE("timeline: the tracer's own work counts where it lies in the window, once") {
  lane_events e = two_calls();
  e.overheads = {{"overhead", 0, 6000, 0, 0}, {"overhead", 8000, 9000, 0, 0}, {"overhead", 8500, 9500, 0, 0}, {"overhead", 20000, 30000, 0, 0}};
  timeline_lane lane;
  lane.name = "x", lane.calls = 2;
  derive(e, lane);
  CHECK(lane.overhead_us == 2.5);  // from 5 to 6, and from 8 to 9.5
}

TEST_CASE("timeline: a kernel is shown by its function's name, one of the library's by what it computes") {
  CHECK(short_kernel_name("void capstone::detail::entry<capstone::rms_norm_kernel<__nv_bfloat16, true, (capstone::rounding)1> >(capstone::rms_norm_kernel<__nv_bfloat16, true, (capstone::rounding)1>::params)") == "rms_norm_kernel");
  CHECK(short_kernel_name("void (anonymous namespace)::add_kernel<__nv_bfloat16>(__nv_bfloat16 const*, long)") == "add_kernel");
  CHECK(short_kernel_name("void cub::CUB_300_SM_90::detail::DeviceSegmentedReduceKernel<cub::policy_hub<float, cuda::std::plus<void>>::Policy1000, float const*>(float const*)") == "DeviceSegmentedReduceKernel");
  CHECK(short_kernel_name("void a<b::c>::d<e>(f)") == "d");
  CHECK(short_kernel_name("plain") == "plain");
  CHECK(short_kernel_name("_Z3odd<") == "_Z3odd");
  CHECK(short_kernel_name("") == "");
}

TEST_CASE("timeline: the trace is JSON in which every kernel's flow begins at its launch") {
  const std::string text = chrome_trace({{"capstone, \"stream\"", two_calls()}, {"unfused, stream", two_calls()}}, {"CUPTI activity", "13.0", "nsys: no importer beside it"});
  const scratch_tree tree("trace");
  const std::string path = tree.str() + "/t.json";
  std::ofstream(path) << text;
  const std::string script =
      "import json; t = json.load(open(\"" + path + "\")); d = t[\"traceEvents\"]; s = {e[\"id\"]: e for e in d if e[\"ph\"] == \"s\"}; "
      "f = {e[\"id\"]: e for e in d if e[\"ph\"] == \"f\"}; x = [e for e in d if e[\"ph\"] == \"X\"]; "
      "print(len(x), len(s), s.keys() == f.keys(), all(s[i][\"ts\"] <= f[i][\"ts\"] and s[i][\"pid\"] == f[i][\"pid\"] for i in s), "
      "sorted({e[\"pid\"] for e in d}), t[\"otherData\"][\"fallback\"])";
  CHECK(capstone::tools::output_of("python3 -c '" + script + "'") == "8 4 True True [0, 1] nsys: no importer beside it\n");
}

TEST_CASE("timeline: the committed ones show launch where it was predicted to dominate") {
  for (const char* kernel : {"rms_norm", "rms_norm+residual"}) {
    const std::string stem = std::string(CAPSTONE_SOURCE_DIR) + "/evidence/h200/timelines/" + kernel + ".bf16.rows=";
    const timeline_record small = read_timeline(stem + "1,cols=4096.yaml"), large = read_timeline(stem + "16384,cols=8192.yaml");
    CHECK(small.lanes.at(0).name == "capstone, stream");
    CHECK(small.tracer.label() == "CUPTI activity 13.0 (API version 130001)");  // of schema 1
    CHECK(small.lanes.at(0).launch_share > 0.5);
    CHECK(large.lanes.at(0).launch_share < 0.05);
    CHECK(small.lanes.at(2).launch_share < small.lanes.at(0).launch_share);  // a graph launches once
  }
}
