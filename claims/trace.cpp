// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/trace.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <stdexcept>

#include "core/stats.hpp"

namespace capstone::claims {
namespace {

std::string json_text(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20) out += ' ';
    else out += c;
  }
  return out + '"';
}

std::string json_us(std::uint64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%.3f", double(ns) / 1e3);
  return text;
}

std::uint64_t first_event(const lane_events& events) {
  std::uint64_t first = ~std::uint64_t(0);
  for (const auto* list : {&events.kernels, &events.launches})
    for (const traced_interval& e : *list) first = std::min(first, e.begin_ns);
  return first;
}

std::vector<traced_interval> sorted(std::vector<traced_interval> list) {
  std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return list;
}

/// What follows from the intervals, against what the record says of them.
void expect_derived(const yaml_reader& at, const timeline_lane& lane) {
  lane_events events;
  const auto ns = [](double us) { return std::uint64_t(std::llround(us * 1e3)); };
  for (const timeline_lane::bar& b : lane.kernels)
    events.kernels.push_back({lane.names[std::size_t(b.name)], ns(b.begin_us), ns(b.begin_us) + ns(b.length_us), 0, 0});
  for (const auto& [begin, length] : lane.launches) events.launches.push_back({"", ns(begin), ns(begin) + ns(length), 0, 0});
  timeline_lane again;
  again.name = lane.name;
  again.calls = lane.calls;
  derive(events, again);
  const auto expect = [&](const char* field, double says, double follows) {
    if (std::abs(says - follows) > 1e-3 + 1e-4 * follows) at.at(field).fail(format_double(follows) + ", which follows from the intervals");
  };
  expect("kernels_per_call", lane.kernels_per_call, again.kernels_per_call);
  expect("window_us", lane.window_us, again.window_us);
  expect("busy_us", lane.busy_us, again.busy_us);
  expect("gap_us", lane.gap_us, again.gap_us);
  expect("launch_share", lane.launch_share, again.launch_share);
  expect("api_us_per_call", lane.api_us_per_call, again.api_us_per_call);
  expect("kernel_us", lane.kernel_us, again.kernel_us);
  expect("shares", median(lane.shares), again.launch_share);
}

timeline_lane read_lane(const yaml_reader& at, bool of_one_window) {
  timeline_lane lane;
  lane.name = at.get_string("name");
  lane.calls = at.get_int("calls", 1);
  lane.kernels_per_call = at.get_double("kernels_per_call", 0);
  lane.wall_us_per_call = at.get_double("wall_us_per_call", 0);
  lane.window_us = at.get_double("window_us", 0);
  lane.busy_us = at.get_double("busy_us", 0);
  lane.gap_us = at.get_double("gap_us", 0);
  lane.launch_share = at.get_double("launch_share", 0);
  if (!of_one_window) {
    for (const yaml_reader& share : at.get_list("shares")) lane.shares.push_back(share.as_double(0));
    if (lane.shares.size() % 2 == 0) at.at("shares").fail("an odd number of shares");
    if (at.has("overhead_us")) lane.overhead_us = at.get_double("overhead_us", 0);
  }
  lane.api_us_per_call = at.get_double("api_us_per_call", 0);
  lane.kernel_us = at.get_double("kernel_us", 0);
  lane.names = at.get_strings("names");
  for (const yaml_reader& item : at.get_list("kernels")) {
    const auto values = item.items();
    if (values.size() != 3) item.fail("[begin_us, length_us, name]");
    lane.kernels.push_back({values[0].as_double(0), values[1].as_double(0), values[2].as_int(0, std::int64_t(lane.names.size()) - 1)});
  }
  for (const yaml_reader& item : at.get_list("launches")) {
    const auto values = item.items();
    if (values.size() != 2) item.fail("[begin_us, length_us]");
    lane.launches.emplace_back(values[0].as_double(0), values[1].as_double(0));
  }
  if (lane.kernels.empty()) at.at("kernels").fail("one or more");
  if (!of_one_window) expect_derived(at, lane);
  return lane;
}

/// Behind the bracket that closes the one at `open`.
std::size_t behind(const std::string& text, std::size_t open) {
  int depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '<' || text[i] == '(') ++depth;
    if ((text[i] == '>' || text[i] == ')') && --depth == 0) return i + 1;
  }
  return text.size();
}

}  // namespace

std::string tracer_id::label() const { return name + " " + version + (fallback.empty() ? "" : "; " + fallback); }

bool is_launch_call(std::string& name) {
  for (const char* prefix : {"cudaLaunchKernel", "cudaGraphLaunch", "cuLaunchKernel", "cuGraphLaunch"})
    if (name.starts_with(prefix)) {
      if (const auto version = name.find("_v"); version != std::string::npos) name.resize(version);
      return true;
    }
  return false;
}

std::string short_kernel_name(const std::string& demangled) {
  std::string name = demangled;
  constexpr const char* unnamed = "(anonymous namespace)::";
  for (auto at = name.find(unnamed); at != std::string::npos; at = name.find(unnamed)) name.erase(at, std::strlen(unnamed));
  if (name.starts_with("void ")) name.erase(0, 5);
  for (;;) {  // a namespace or class a turn
    const std::size_t end = name.find_first_of("<(:");
    if (end == std::string::npos || name[end] == '(') return name.substr(0, end);
    const std::size_t next = name[end] == '<' ? behind(name, end) : end;
    if (name.compare(next, 2, "::") == 0) {
      name.erase(0, next + 2);
      continue;
    }
    if (name[end] == ':') return name;
    if (name.compare(0, end, "entry") == 0) return short_kernel_name(name.substr(end + 1, next - end - 2));
    return name.substr(0, end);
  }
}

std::uint64_t covered_ns(std::vector<std::pair<std::uint64_t, std::uint64_t>> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::uint64_t total = 0, until = 0;
  for (const auto& [begin, end] : intervals) {
    const std::uint64_t from = std::max(begin, until);
    if (end > from) total += end - from;
    until = std::max(until, end);
  }
  return total;
}

void derive(const lane_events& events, timeline_lane& lane) {
  if (events.kernels.empty()) throw std::runtime_error("the lane '" + lane.name + "' was traced without a kernel");
  const std::vector<traced_interval> kernels = sorted(events.kernels), launches = sorted(events.launches);
  const std::uint64_t zero = first_event(events);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> busy;
  std::vector<double> lengths;
  std::uint64_t last = 0;
  for (const traced_interval& k : kernels) {
    busy.emplace_back(k.begin_ns, k.end_ns);
    lengths.push_back(double(k.end_ns - k.begin_ns) / 1e3);
    last = std::max(last, k.end_ns);
  }
  const double window = double(last - kernels.front().begin_ns) / 1e3, covered = double(covered_ns(busy)) / 1e3;
  lane.window_us = recorded(window);
  lane.busy_us = recorded(covered);
  lane.gap_us = recorded(window - covered);
  lane.launch_share = recorded(window > 0 ? (window - covered) / window : 0);
  lane.kernels_per_call = recorded(double(kernels.size()) / double(lane.calls));
  lane.kernel_us = recorded(median(lengths));
  std::vector<std::pair<std::uint64_t, std::uint64_t>> overheads;
  for (const traced_interval& o : events.overheads) {
    const std::uint64_t from = std::max(o.begin_ns, kernels.front().begin_ns), to = std::min(o.end_ns, last);
    if (from < to) overheads.emplace_back(from, to);
  }
  lane.overhead_us = recorded(double(covered_ns(overheads)) / 1e3);
  double api = 0;
  for (const traced_interval& l : launches) api += double(l.end_ns - l.begin_ns) / 1e3;
  lane.api_us_per_call = recorded(api / double(lane.calls));
  for (const traced_interval& k : kernels) {
    auto name = std::find(lane.names.begin(), lane.names.end(), k.name);
    if (name == lane.names.end()) name = lane.names.insert(name, k.name);
    lane.kernels.push_back({recorded(double(k.begin_ns - zero) / 1e3), recorded(double(k.end_ns - k.begin_ns) / 1e3), name - lane.names.begin()});
  }
  for (const traced_interval& l : launches) {
    lane.launches.emplace_back(recorded(double(l.begin_ns - zero) / 1e3), recorded(double(l.end_ns - l.begin_ns) / 1e3));
  }
}

std::string write_timeline(const timeline_record& record) {
  yaml_writer w;
  write_run(w, timeline_schema, record.run, record.device);
  w.field("note", "").begin("tracer", yaml_style::flow_map).field("name", record.tracer.name);
  w.field("version", record.tracer.version).field("fallback", record.tracer.fallback).end();
  w.field("kernel", record.kernel).field("dtype", record.dtype);
  w.field("shape", record.what.shape).field("layout", record.what.layout).field("l2", record.l2);
  w.begin("lanes", yaml_style::block_list);
  for (const timeline_lane& lane : record.lanes) {
    w.begin(yaml_style::block_map).field("name", lane.name).field("calls", lane.calls);
    w.field("kernels_per_call", lane.kernels_per_call).field("wall_us_per_call", lane.wall_us_per_call);
    w.field("window_us", lane.window_us).field("busy_us", lane.busy_us).field("gap_us", lane.gap_us);
    w.field("launch_share", lane.launch_share).begin("shares", yaml_style::flow_list);
    for (const double share : lane.shares) w.item(share);
    w.end();
    if (lane.overhead_us) w.field("overhead_us", *lane.overhead_us);
    w.field("api_us_per_call", lane.api_us_per_call).field("kernel_us", lane.kernel_us).list("names", lane.names);
    w.begin("kernels", yaml_style::flow_list);
    for (const timeline_lane::bar& b : lane.kernels)
      w.begin(yaml_style::flow_list).item(b.begin_us).item(b.length_us).item(b.name).end();
    w.end().begin("launches", yaml_style::flow_list);
    for (const auto& [begin, length] : lane.launches) w.begin(yaml_style::flow_list).item(begin).item(length).end();
    w.end().end();
  }
  w.end();
  return w.text();
}

timeline_record read_timeline(const std::string& path) {
  const yaml_reader at = yaml_reader::load(path);
  timeline_record record;
  const bool of_one_window = at.get_string("schema") == timeline_schema_of_one_window;
  read_run(at, of_one_window ? timeline_schema_of_one_window : timeline_schema, record.run, record.device);
  expect_note(at, "");
  if (of_one_window) {
    const std::string source = at.get_string("source");
    record.tracer.name = source.substr(0, std::strlen(cupti_name));
    if (record.tracer.name != cupti_name || source.size() < record.tracer.name.size() + 2) at.at("source").fail("\"CUPTI activity \" and a version");
    record.tracer.version = source.substr(record.tracer.name.size() + 1);
  } else {
    const yaml_reader tracer = at.at("tracer");
    record.tracer = {tracer.get_string("name"), tracer.get_string("version"), tracer.get_string("fallback")};
    if (record.tracer.name != cupti_name && record.tracer.name != nsys_name) tracer.at("name").fail("\"CUPTI activity\" or \"nsys\"");
  }
  record.kernel = at.get_string("kernel");
  record.dtype = at.get_string("dtype");
  record.what = {at.get_string("shape"), at.get_string("layout")};
  record.l2 = at.get_string("l2");
  if (record.l2 != "cold" && record.l2 != "warm") at.at("l2").fail("\"cold\" or \"warm\"");
  for (const yaml_reader& item : at.get_list("lanes")) record.lanes.push_back(read_lane(item, of_one_window));
  at.done();
  return record;
}

std::string chrome_trace(const std::vector<std::pair<std::string, lane_events>>& lanes, const tracer_id& tracer) {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"tracer\":" + json_text(tracer.name) + ",\"version\":" + json_text(tracer.version) +
                     ",\"fallback\":" + json_text(tracer.fallback) + "},\"traceEvents\":[\n";
  bool first = true;
  const auto put = [&](const std::string& event) {
    text += (first ? "" : ",\n") + event;
    first = false;
  };
  const auto common = [](std::size_t pid, std::uint64_t tid) { return "\"pid\":" + std::to_string(pid) + ",\"tid\":" + std::to_string(tid); };
  std::uint64_t flow = 0;
  for (std::size_t pid = 0; pid < lanes.size(); ++pid) {
    const auto& [name, events] = lanes[pid];
    const std::uint64_t zero = first_event(events);
    put("{\"ph\":\"M\",\"name\":\"process_name\"," + common(pid, 0) + ",\"args\":{\"name\":" + json_text(name) + "}}");
    put("{\"ph\":\"M\",\"name\":\"thread_name\"," + common(pid, 0) + ",\"args\":{\"name\":\"host: launches\"}}");
    std::set<std::uint64_t> streams;
    for (const traced_interval& k : events.kernels)
      if (streams.insert(k.stream).second)
        put("{\"ph\":\"M\",\"name\":\"thread_name\"," + common(pid, k.stream + 1) + ",\"args\":{\"name\":\"GPU: stream " + std::to_string(k.stream) + "\"}}");
    const auto span = [&](const traced_interval& e, std::uint64_t tid) {
      put("{\"ph\":\"X\",\"name\":" + json_text(e.name) + "," + common(pid, tid) + ",\"ts\":" + json_us(e.begin_ns - zero) + ",\"dur\":" + json_us(e.end_ns - e.begin_ns) + "}");
    };
    for (const traced_interval& l : events.launches) span(l, 0);
    for (const traced_interval& k : events.kernels) {
      span(k, k.stream + 1);
      const auto from = std::find_if(events.launches.begin(), events.launches.end(), [&](const auto& l) { return l.correlation == k.correlation; });
      if (from == events.launches.end()) continue;
      const std::string id = "\"cat\":\"launch\",\"name\":\"launch\",\"id\":" + std::to_string(flow++) + ",";
      put("{\"ph\":\"s\"," + id + common(pid, 0) + ",\"ts\":" + json_us(from->begin_ns - zero) + "}");
      put("{\"ph\":\"f\",\"bp\":\"e\"," + id + common(pid, k.stream + 1) + ",\"ts\":" + json_us(k.begin_ns - zero) + "}");
    }
  }
  return text + "\n]}\n";
}

}  // namespace capstone::claims
