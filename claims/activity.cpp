// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/activity.hpp"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <vector>

#if __has_include(<cupti.h>)
#include <cupti.h>
#define CAPSTONE_HAS_CUPTI 1
#endif

namespace capstone::claims {

#if defined(CAPSTONE_HAS_CUPTI)
namespace {

// The record's type grows with CUDA; the library writes the one of its own version.
#if CUPTI_API_VERSION >= 130000
using kernel_activity = CUpti_ActivityKernel10;
using overhead_activity = CUpti_ActivityOverhead3;
#else
using kernel_activity = CUpti_ActivityKernel9;
using overhead_activity = CUpti_ActivityOverhead2;
#endif
using copy_activity = CUpti_ActivityMemcpy6;
using fill_activity = CUpti_ActivityMemset4;

constexpr std::size_t buffer_bytes = 4 << 20;
constexpr CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,  // KERNEL would serialise them
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                                        CUPTI_ACTIVITY_KIND_OVERHEAD,
                                        CUPTI_ACTIVITY_KIND_RUNTIME, CUPTI_ACTIVITY_KIND_DRIVER};

struct api {
  void* library = nullptr;
  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetResultString) result_string = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;
  decltype(&cuptiGetTimestamp) timestamp = nullptr;

  void expect(CUptiResult code, const char* what) const {
    if (code == CUPTI_SUCCESS) return;
    const char* why = nullptr;
    if (result_string == nullptr || result_string(code, &why) != CUPTI_SUCCESS || why == nullptr) why = "no name";
    throw trace_error(std::string(what) + " failed: " + why + " (" + std::to_string(int(code)) + ")");
  }
};

void* load_library() {
  std::vector<std::string> names;
  std::istringstream includes(CAPSTONE_CUDA_INCLUDE_DIR);
  for (std::string folder; std::getline(includes, folder, ':');)
    for (const char* beside : {"../extras/CUPTI/lib64", "../lib64", "../lib", "../targets/x86_64-linux/lib"})
      names.push_back((std::filesystem::path(folder) / beside / "libcupti.so").string());
  for (const char* name : {"libcupti.so.13", "libcupti.so.12", "libcupti.so"}) names.emplace_back(name);
  std::string tried;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += (tried.empty() ? "" : ", ") + name;
  }
  throw trace_error("libcupti is at none of " + tried + "; install the CUDA toolkit's part cuda-cupti");
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw trace_error(std::string("libcupti has no ") + name);
}

const api& cupti() {
  static const api loaded = [] {
    api a;
    a.library = load_library();
    find(a.library, "cuptiGetVersion", a.get_version);
    find(a.library, "cuptiGetResultString", a.result_string);
    find(a.library, "cuptiActivityRegisterCallbacks", a.register_callbacks);
    find(a.library, "cuptiActivityEnable", a.enable);
    find(a.library, "cuptiActivityDisable", a.disable);
    find(a.library, "cuptiActivityFlushAll", a.flush_all);
    find(a.library, "cuptiActivityGetNextRecord", a.next_record);
    find(a.library, "cuptiActivityGetNumDroppedRecords", a.dropped);
    find(a.library, "cuptiGetCallbackName", a.callback_name);
    find(a.library, "cuptiGetTimestamp", a.timestamp);
    return a;
  }();
  return loaded;
}

// CUPTI's callbacks carry no pointer of ours.
struct {
  std::mutex mutex;
  lane_events events;
  std::map<std::uint64_t, CUpti_ActivityKind> launch_kind;  // by correlation: whose record is kept
  std::size_t dropped = 0;
} collected;

std::string short_name(const char* mangled) {
  if (mangled == nullptr) return "?";
  int status = 0;
  char* text = abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  const std::string name = status == 0 && text != nullptr ? text : mangled;
  std::free(text);
  return short_kernel_name(name);
}

bool is_launch(CUpti_CallbackDomain domain, CUpti_CallbackId id, std::string& name) {
  const char* text = nullptr;
  if (cupti().callback_name(domain, id, &text) != CUPTI_SUCCESS || text == nullptr) return false;
  name = text;
  return is_launch_call(name);
}

void take_record(const CUpti_Activity* record) {
  if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
    const auto* k = reinterpret_cast<const kernel_activity*>(record);
    collected.events.kernels.push_back({short_name(k->name), k->start, k->end, k->correlationId, k->streamId});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    const auto* m = reinterpret_cast<const copy_activity*>(record);
    collected.events.kernels.push_back({"memcpy", m->start, m->end, m->correlationId, m->streamId});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    const auto* m = reinterpret_cast<const fill_activity*>(record);
    collected.events.kernels.push_back({"memset", m->start, m->end, m->correlationId, m->streamId});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_OVERHEAD) {
    const auto* o = reinterpret_cast<const overhead_activity*>(record);
    collected.events.overheads.push_back({"overhead", o->start, o->end, 0, 0});
  } else if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME || record->kind == CUPTI_ACTIVITY_KIND_DRIVER) {
    const auto* a = reinterpret_cast<const CUpti_ActivityAPI*>(record);
    std::string name;
    if (!is_launch(record->kind == CUPTI_ACTIVITY_KIND_RUNTIME ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API, a->cbid, name)) return;
    // A launch by the runtime shows in the driver too; the outer one is the caller's cost.
    traced_interval launch{name, a->start, a->end, a->correlationId, 0};
    const auto before = collected.launch_kind.find(a->correlationId);
    if (before == collected.launch_kind.end()) {
      collected.launch_kind[a->correlationId] = record->kind;
      collected.events.launches.push_back(launch);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_RUNTIME && before->second != record->kind) {
      before->second = record->kind;
      for (traced_interval& l : collected.events.launches)
        if (l.correlation == a->correlationId) l = launch;
    }
  }
}

void CUPTIAPI request_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, buffer_bytes));
  *size = *buffer == nullptr ? 0 : buffer_bytes;
  *most = 0;
}

void CUPTIAPI complete_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t, std::size_t valid) {
  const std::lock_guard lock(collected.mutex);
  CUpti_Activity* record = nullptr;
  while (valid > 0 && cupti().next_record(buffer, valid, &record) == CUPTI_SUCCESS) take_record(record);
  std::size_t dropped = 0;
  if (cupti().dropped(context, stream, &dropped) == CUPTI_SUCCESS) collected.dropped += dropped;
  std::free(buffer);
}

std::uint32_t major_of(std::uint32_t api_version) { return api_version >= 10000 ? api_version / 10000 : api_version >= 19 ? 12 : 11; }

}  // namespace

struct activity_tracer::state {
  std::string version;
};

activity_tracer::activity_tracer() : state_(std::make_unique<state>()) {
  const api& a = cupti();
  std::uint32_t version = 0;
  a.expect(a.get_version(&version), "cuptiGetVersion");
  if (major_of(version) != major_of(CUPTI_API_VERSION))
    throw trace_error("libcupti has API version " + std::to_string(version) + ", this program was compiled for " +
                             std::to_string(CUPTI_API_VERSION) + "; expected the same CUDA major version");
  // Up to 12.9 the API was numbered on its own: 26 came with 12.8.
  const std::string cuda = version < 10000 ? "" : std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + " ";
  state_->version = cuda + "(API version " + std::to_string(version) + ")";
  a.expect(a.register_callbacks(request_buffer, complete_buffer), "cuptiActivityRegisterCallbacks");
  for (const CUpti_ActivityKind kind : kinds) a.expect(a.enable(kind), "cuptiActivityEnable");
}

activity_tracer::~activity_tracer() {
  for (const CUpti_ActivityKind kind : kinds) cupti().disable(kind);
  cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
}

const std::string& activity_tracer::version() const { return state_->version; }

std::uint64_t activity_tracer::now_ns() const {
  std::uint64_t now = 0;
  cupti().expect(cupti().timestamp(&now), "cuptiGetTimestamp");
  return now;
}

lane_events activity_tracer::take() {
  cupti().expect(cupti().flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "cuptiActivityFlushAll");
  const std::lock_guard lock(collected.mutex);
  lane_events events;
  std::swap(events, collected.events);
  collected.launch_kind.clear();
  if (const std::size_t lost = std::exchange(collected.dropped, 0); lost != 0)
    throw trace_error("CUPTI dropped " + std::to_string(lost) + " records; the trace is not whole");
  return events;
}

#else

struct activity_tracer::state {};
activity_tracer::activity_tracer() {
  throw trace_error("this program was built without CUPTI's headers; install the CUDA toolkit's part cuda-cupti-dev and build again");
}
activity_tracer::~activity_tracer() = default;
const std::string& activity_tracer::version() const {
  static const std::string none;
  return none;
}
std::uint64_t activity_tracer::now_ns() const { return 0; }
lane_events activity_tracer::take() { return {}; }

#endif

}  // namespace capstone::claims
