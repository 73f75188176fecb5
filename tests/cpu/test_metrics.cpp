// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The counters' names and passes on every chip that claims can be made for: CUPTI's host side knows
// them without a GPU or a driver.

#include "claims/metrics.hpp"

#include <doctest/doctest.h>

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/skip.hpp"

#if __has_include(<cupti_profiler_host.h>)
#include <cupti_profiler_host.h>

using namespace capstone::claims;

namespace {

void* cupti() {
  static void* const library = [] {
    std::istringstream includes(CAPSTONE_CUDA_INCLUDE_DIR);
    for (std::string folder; std::getline(includes, folder, ':');)
      for (const char* beside : {"../extras/CUPTI/lib64", "../lib64", "../lib", "../targets/x86_64-linux/lib"})
        if (void* found = dlopen((std::filesystem::path(folder) / beside / "libcupti.so").c_str(), RTLD_NOW)) return found;
    return dlopen("libcupti.so", RTLD_NOW);
  }();
  return library;
}

template <class Function>
CUptiResult call(const char* name, Function*, auto* params) {
  auto* function = reinterpret_cast<Function*>(dlsym(cupti(), name));
  return function == nullptr ? CUPTI_ERROR_NOT_INITIALIZED : function(params);
}
#define CUPTI_CALL(function, params) call(#function, &function, params)

/// Passes of these metrics on this chip; 0 where one is unknown, -1 where CUPTI cannot say.
int passes(const char* chip, const std::vector<std::string>& metrics) {
  CUpti_Profiler_Host_Initialize_Params begin = {CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE};
  begin.profilerType = CUPTI_PROFILER_TYPE_RANGE_PROFILER;
  begin.pChipName = chip;
  if (CUPTI_CALL(cuptiProfilerHostInitialize, &begin) != CUPTI_SUCCESS) return -1;
  std::vector<const char*> names;
  for (const std::string& m : metrics) names.push_back(m.c_str());
  CUpti_Profiler_Host_ConfigAddMetrics_Params add = {CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE};
  add.pHostObject = begin.pHostObject;
  add.ppMetricNames = names.data();
  add.numMetrics = names.size();
  int count = 0;
  if (CUPTI_CALL(cuptiProfilerHostConfigAddMetrics, &add) == CUPTI_SUCCESS) {
    count = -1;
    CUpti_Profiler_Host_GetConfigImageSize_Params size = {CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE};
    size.pHostObject = begin.pHostObject;
    if (CUPTI_CALL(cuptiProfilerHostGetConfigImageSize, &size) == CUPTI_SUCCESS) {
      std::vector<std::uint8_t> image(size.configImageSize);
      CUpti_Profiler_Host_GetConfigImage_Params get = {CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE};
      get.pHostObject = begin.pHostObject;
      get.configImageSize = image.size();
      get.pConfigImage = image.data();
      CUpti_Profiler_Host_GetNumOfPasses_Params number = {CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE};
      number.configImageSize = image.size();
      number.pConfigImage = image.data();
      if (CUPTI_CALL(cuptiProfilerHostGetConfigImage, &get) == CUPTI_SUCCESS &&
          CUPTI_CALL(cuptiProfilerHostGetNumOfPasses, &number) == CUPTI_SUCCESS)
        count = int(number.numOfPasses);
    }
  }
  CUpti_Profiler_Host_Deinitialize_Params end = {CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE};
  end.pHostObject = begin.pHostObject;
  CUPTI_CALL(cuptiProfilerHostDeinitialize, &end);
  return count;
}

/// Those that CUPTI knows: launch__* is Nsight Compute's own.
std::vector<std::string> counters(std::vector<std::string> metrics) {
  std::erase_if(metrics, [](const std::string& m) { return m.starts_with("launch__"); });
  return metrics;
}

}  // namespace

TEST_CASE("metrics: every counter exists on sm_80, sm_90, sm_100 and sm_120, and the core ones fit one pass of sm_90") {
  if (cupti() == nullptr) CAPSTONE_SKIP("no libcupti beside the toolkit");
  if (passes("GH100", {"gpu__time_duration.sum"}) < 0) CAPSTONE_SKIP("this CUPTI has no host profiler (libnvperf_host)");
  for (const auto& [chip, cc] : {std::pair{"GA100", 80}, {"GH100", 90}, {"GB100", 100}, {"GB202", 120}}) {
    CAPTURE(std::string(chip));
    for (const std::vector<std::string>& list : {counters(core_metrics(cc)), counters(pipes_metrics(cc))})
      for (const std::string& metric : list) {
        CAPTURE(metric);
        CHECK(passes(chip, {metric}) >= 1);
      }
    const int core = passes(chip, counters(core_metrics(cc))), pipes = passes(chip, counters(pipes_metrics(cc)));
    MESSAGE(std::string(chip) << ": core " << core << " passes, pipes " << pipes);
    CHECK(core >= 1);
    CHECK(pipes >= 1);
    if (cc == 90) CHECK(core == 1);
  }
  CHECK(passes("GB202", {"dram__bytes_read.sum"}) == 0);  // so the alias is needed there
  CHECK(metric_alias("dram__bytes_read.sum", 120) == "dram__bytes_op_read.sum");
  CHECK(passes("GH100", {"dram__bites.sum"}) == 0);  // a name that no chip has is found out
}
#else
TEST_CASE("metrics: every counter exists on sm_80, sm_90, sm_100 and sm_120, and the core ones fit one pass of sm_90") {
  CAPSTONE_SKIP("no cupti_profiler_host.h in the toolkit");
}
#endif
