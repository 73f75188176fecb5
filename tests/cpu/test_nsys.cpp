// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// What nsys 2022.4.2 wrote, with a stand-in for it, and what becomes of a timeline without it.

#include "claims/nsys.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;
using capstone::tools::read_text;

namespace {

const std::string fixtures = std::string(CAPSTONE_SOURCE_DIR) + "/tests/cpu/fixtures/nsys/";

lane_events recorded_events() { return read_nsys(read_text(fixtures + "gputrace.json"), read_text(fixtures + "cudaapitrace.json")); }

struct with_fake {
  with_fake(const char* behaviour) {
    setenv("NSYS", (fixtures + "nsys").c_str(), 1);
    setenv("FAKE_NSYS", behaviour, 1);
  }
  ~with_fake() { unsetenv("NSYS"), unsetenv("FAKE_NSYS"); }
};

/// What a run of the stand-in throws, or "".
std::string failure(const char* behaviour, double timeout_s = 60) {
  const with_fake fake(behaviour);
  const scratch_tree tree("nsys");
  try {
    run_nsys(find_nsys(), {tree.str(), "t", {"program"}, timeout_s});
  } catch (const trace_error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("nsys: its reports are read: kernels by their short names, copies, and launches alone of all calls") {
  const lane_events e = recorded_events();
  REQUIRE(e.kernels.size() == 10);
  CHECK(e.kernels[0].name == "rms_norm_kernel");
  CHECK(e.kernels[0].begin_ns == 1000003000);
  CHECK(e.kernels[0].end_ns == 1000004500);
  CHECK(e.kernels[0].stream == 7);
  CHECK(e.kernels[3].name == "memset");
  CHECK(e.kernels[8].name == "odd \"quoted\", name");
  REQUIRE(e.launches.size() == 8);  // of 16 calls
  CHECK(e.launches[6].name == "cudaGraphLaunch");
  CHECK(e.launches[6].correlation == e.kernels[8].correlation);
}

TEST_CASE("nsys: windows lie between two markers, on the GPU and on the host by their own clocks") {
  const std::vector<lane_events> windows = split_windows(recorded_events(), 2);
  REQUIRE(windows.size() == 2);
  CHECK(windows[0].kernels.size() == 3);
  REQUIRE(windows[0].launches.size() == 2);  // the first begins before the marker ends by the GPU's clock
  CHECK(windows[0].launches[0].begin_ns == 1000009800);
  CHECK(windows[1].kernels.size() == 2);
  CHECK(windows[1].launches.size() == 1);
  timeline_lane lane;
  lane.name = "x", lane.calls = 1;
  derive(windows[1], lane);
  CHECK(lane.window_us == 2.6);
  CHECK(lane.busy_us == 2.5);
  CHECK_THROWS_WITH_AS(split_windows(recorded_events(), 3), "the trace has 4 markers and 4 launches of them; expected 6", trace_error);
}

TEST_CASE("nsys: a report that is empty, cut short or of another form is refused") {
  const std::string gpu = read_text(fixtures + "gputrace.json"), api = read_text(fixtures + "cudaapitrace.json");
  CHECK_THROWS_WITH_AS(read_nsys("", api), "its trace of the GPU is empty", trace_error);
  CHECK_THROWS_WITH_AS(read_nsys(gpu, ""), "its trace of calls is empty", trace_error);
  CHECK_THROWS_WITH_AS(read_nsys(gpu.substr(0, 700), api), doctest::Contains("not as expected"), trace_error);
  std::string other = gpu;
  other.replace(other.find("Start (ns)"), 10, "Start (us)");
  CHECK_THROWS_WITH_AS(read_nsys(other, api), doctest::Contains("Start (ns)"), trace_error);
}

TEST_CASE("nsys: it is asked for nodes of graphs and no samples, and its reports come back by the version's names") {
  for (const char* names : {"", "new"}) {
    const with_fake fake(names);
    const scratch_tree tree("nsys");
    const nsys_tool tool = find_nsys();
    CHECK(tool.version == "2022.4.2.1-df9881f");
    CHECK(tool.gpu_report == (*names == '\0' ? "gputrace" : "cuda_gpu_trace"));
    CHECK(run_nsys(tool, {tree.str(), "t", {"program", "a b"}, 60}).kernels.size() == 10);
    CHECK(read_text(tree.str() + "/t.asked") == "LC_ALL=C\nprofile\n--trace=cuda\n--cuda-graph-trace=node\n--sample=none\n--cpuctxsw=none\n--force-overwrite=true\n--output=" +
                                                    std::filesystem::absolute(tree.str()).string() + "/t\nprogram\na b\n");
  }
}

TEST_CASE("nsys: why it gives no report is said in a few words") {
  CHECK(failure("") == "");
  CHECK(failure("no_importer") == "no importer beside it");
  CHECK(failure("denied") == "it wrote no report: The target application may not be traced");
  CHECK(failure("fails") == "program ended with 3 under it: the cause: out of memory");
  CHECK(failure("bare") == "it gave no gputrace: ERROR: Report 'gputrace' could not be found.");
  CHECK(failure("hang", 1) == "did not end within 1 s and was stopped");
  setenv("NSYS", "/nowhere/nsys", 1);
  CHECK_THROWS_WITH_AS(find_nsys(), "no program at /nowhere/nsys, which NSYS names", trace_error);
  unsetenv("NSYS");
}

TEST_CASE("timeline: auto takes nsys where it gives a report, else CUPTI, and says why; what was asked for is not replaced") {
  const auto by_cupti = [] { return tracer_id{cupti_name, "13.0", ""}; };
  const auto by_nsys = [] { return tracer_id{nsys_name, "2025.3.1", ""}; };
  const auto by_none = []() -> tracer_id { throw trace_error("no importer beside it"); };
  const auto unwanted = []() -> tracer_id { throw std::logic_error("was called"); };
  CHECK(trace_by("auto", by_nsys, unwanted).label() == "nsys 2025.3.1");
  CHECK(trace_by("auto", by_none, by_cupti).label() == "CUPTI activity 13.0; nsys: no importer beside it");
  CHECK(trace_by("cupti", unwanted, by_cupti).label() == "CUPTI activity 13.0");
  CHECK(trace_by("nsys", by_nsys, unwanted).fallback == "");
  CHECK_THROWS_WITH_AS(trace_by("nsys", by_none, unwanted), "nsys: no importer beside it", trace_error);
  CHECK_THROWS_WITH_AS(trace_by("auto", by_none, by_none), "no importer beside it", trace_error);
  CHECK_THROWS_WITH_AS(trace_by("perf", unwanted, unwanted), "tracer is 'perf'; expected auto, nsys or cupti", std::invalid_argument);
}
