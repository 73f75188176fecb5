// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/record.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/shapes.hpp"

namespace capstone::claims {
namespace {

constexpr double capped = 1e30;  // how a record spells infinity and NaN where it takes numbers only

double finite(double value) {
  return std::isnan(value) ? capped : std::clamp(value, -capped, capped);
}

std::string exact(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

template <class Item>
void write_what(yaml_writer& w, const Item& item) {
  w.field("shape", item.what.shape).field("layout", item.what.layout);
  w.field("match", item.match).field("fallback", item.fallback).tokens("config", item.config);
}

template <class Item>
void read_what(const yaml_reader& at, Item& item) {
  item.what = {at.get_string("shape"), at.get_string("layout")};
  item.match = at.get_string("match");
  item.fallback = at.get_bool("fallback");
  item.config = at.at("config").as_tokens();
}

void write_output(yaml_writer& w, const check_result& r) {
  w.begin(yaml_style::flow_map).field("output", r.output);
  w.field("count", r.count).field("failures", r.failures).field("ratio", finite(r.worst_ratio));
  w.field("row", r.row).field("col", r.col);
  w.field("actual", exact(r.actual)).field("expected", exact(r.expected));
  w.field("error", finite(r.error)).field("bound", finite(r.bound));
  w.field("bias", finite(r.bias)).field("bias_limit", finite(r.bias_limit)).end();
}

/// Of any value, infinities and NaN included.
double read_exact(const yaml_reader& at) {
  const std::string text = at.as_string();
  const double value = std::strtod(text.c_str(), nullptr);
  if (exact(value) != text) at.fail("a number in at most 9 digits, as \"" + exact(value) + "\"");
  return value;
}

check_result read_output(const yaml_reader& at) {
  check_result r;
  r.output = at.get_string("output");
  r.count = at.get_int("count", 0);
  r.failures = at.get_int("failures", 0);
  r.worst_ratio = at.get_double("ratio", 0);
  r.row = at.get_int("row", 0);
  r.col = at.get_int("col", 0);
  r.actual = read_exact(at.at("actual"));
  r.expected = read_exact(at.at("expected"));
  r.error = at.get_double("error");
  r.bound = at.get_double("bound");
  r.bias = at.get_double("bias");
  r.bias_limit = at.get_double("bias_limit");
  return r;
}

void write_arm(yaml_writer& w, const arm_row& row) {
  w.begin(yaml_style::flow_map).field("name", row.name).field("version", row.version);
  w.field("ms", row.ms).field("low", row.low).field("high", row.high);
  if (row.speedup) write_band(w, "speedup", *row.speedup);
  if (!row.spread.empty()) w.list("spread", row.spread);
  if (!row.kernels.empty()) w.list("kernels", row.kernels);
  if (row.do_bench_ms > 0) w.field("do_bench_ms", row.do_bench_ms);
  w.end();
}

arm_row read_arm(const yaml_reader& at, std::set<std::string>& seen) {
  arm_row row{read_new_name(at.at("name"), seen), at.get_string("version"), at.get_double("ms", 0),
              at.get_double("low", 0), at.get_double("high", 0), {}};
  if (at.has("speedup")) row.speedup = read_band(at.at("speedup"));
  if (at.has("spread")) {
    row.spread = at.get_doubles("spread");
    if (row.spread.size() != 4 || !std::is_sorted(row.spread.begin(), row.spread.end()))
      at.at("spread").fail("four times, ascending");
  }
  if (at.has("kernels")) {
    row.kernels = at.get_strings("kernels");
    if (row.kernels.empty()) at.at("kernels").fail("the names of the kernels that ran");
  }
  if (at.has("do_bench_ms")) row.do_bench_ms = at.get_double("do_bench_ms", 0);
  if (at.has("do_bench_ms") && row.do_bench_ms == 0) at.at("do_bench_ms").fail("a time above 0");
  if (row.speedup.has_value() == (row.name == own_name))
    at.fail("a speedup for every arm but capstone");
  return row;
}

void write_comparison(yaml_writer& w, const comparison& c) {
  w.begin(yaml_style::block_map);
  w.field("kernel", c.kernel).field("dtype", c.dtype).field("rounding", c.rounding);
  write_what(w, c);
  w.field("bytes", c.bytes);
  w.begin("timing", yaml_style::flow_map).field("timer", c.timer).field("rounds", c.rounds);
  w.field("calls_per_sample", c.calls_per_sample).field("sets", c.sets).field("flushed", c.flushed);
  w.end().list("sm_mhz", c.sm_mhz);
  w.field("watts", c.watts).field("other_processes", c.other_processes).field("void", c.is_void());
  write_band(w, "floor_target", c.floor_target);
  w.begin("arms", yaml_style::block_list);
  for (const arm_row& row : c.arms) write_arm(w, row);
  w.end();
  if (!c.suite.empty()) w.field("suite", c.suite);
  if (!c.absent.empty()) {
    w.begin("absent", yaml_style::block_list);
    for (const absent_peer& p : c.absent)
      w.begin(yaml_style::flow_map).field("name", p.name).field("version", p.version).field("reason", p.reason).end();
    w.end();
  }
  w.end();
}

comparison read_comparison(const yaml_reader& at) {
  comparison c;
  c.kernel = at.get_string("kernel");
  c.dtype = at.get_string("dtype");
  c.rounding = at.get_string("rounding");
  read_what(at, c);
  c.bytes = at.get_int("bytes", 0);
  const yaml_reader t = at.at("timing");
  c.timer = t.get_string("timer");
  c.rounds = t.get_int("rounds", 1);
  c.calls_per_sample = t.get_int("calls_per_sample", 1);
  c.sets = t.get_int("sets", 1);
  c.flushed = t.get_bool("flushed");
  c.sm_mhz = at.get_ints("sm_mhz");
  if (!c.sm_mhz.empty() && c.sm_mhz.size() != 3) at.at("sm_mhz").fail("[min, median, max] or []");
  c.watts = at.get_double("watts", 0);
  c.other_processes = at.get_int("other_processes", -1);
  c.floor_target = read_band(at.at("floor_target"));
  std::set<std::string> arms;
  for (const yaml_reader& arm : at.get_list("arms")) c.arms.push_back(read_arm(arm, arms));
  for (const char* name : {own_name, twin_name, floor_name})
    if (c.find(name) == nullptr) at.at("arms").fail("an arm named " + std::string(name));
  if (at.has("suite")) c.suite = at.get_string("suite");
  if (at.has("suite") && c.suite.empty()) at.at("suite").fail("a suite's name");
  if (at.has("absent")) {
    if (at.get_list("absent").empty()) at.at("absent").fail("one peer or more");
    for (const yaml_reader& peer : at.get_list("absent")) {
      c.absent.push_back({peer.get_string("name"), peer.get_string("version"), peer.get_string("reason")});
      if (c.absent.back().reason.empty()) peer.at("reason").fail("why it was not raced");
      if (c.find(c.absent.back().name) != nullptr) peer.at("name").fail("a peer that is not among the arms");
    }
  }
  if (c.is_race())  // a time without the kernel that took it could be another library's
    for (const arm_row& row : c.arms)
      if (row.name != floor_name && row.kernels.empty()) at.at("arms").fail("kernels for every arm but the floor");
  if (at.get_bool("void") != c.is_void())
    at.at("void").fail(std::string(c.is_void() ? "true" : "false") + ", as its A/A interval says");
  return c;
}

}  // namespace

void write_run(yaml_writer& w, const char* schema, const run_context& run,
               const record_device& device) {
  w.field("schema", schema).field("session", run.session).field("date", run.date);
  w.field("commit", run.commit).field("dirty", run.dirty).field("binary", run.binary);
  w.begin("toolchain", yaml_style::flow_map);
  w.field("cuda", run.toolkit).field("flags", run.flags).end();
  w.begin("device", yaml_style::flow_map);
  w.field("id", device.id).field("name", device.name).field("cc", device.cc);
  w.field("sms", device.sms)
      .field("l2_bytes", device.l2_bytes)
      .field("driver", device.driver)
      .end();
}

void read_run(const yaml_reader& at, const char* schema, run_context& run, record_device& device) {
  if (at.get_string("schema") != schema) at.at("schema").fail("\"" + std::string(schema) + "\"");
  run.session = at.get_string("session");
  run.date = at.get_string("date");
  run.commit = at.get_string("commit");
  run.dirty = at.get_bool("dirty");
  run.binary = at.get_string("binary");
  run.toolkit = at.at("toolchain").get_string("cuda");
  run.flags = at.at("toolchain").get_string("flags");
  const yaml_reader d = at.at("device");
  device = {d.get_string("id"),  d.get_string("name"),     d.get_string("cc"),
            d.get_int("sms", 0), d.get_int("l2_bytes", 0), d.get_string("driver")};
}

void write_band(yaml_writer& w, const char* key, const ratio_band& band) {
  w.begin(key, yaml_style::flow_map);
  w.field("median", finite(band.median)).field("low", finite(band.low));
  w.field("high", finite(band.high)).end();
}

ratio_band read_band(const yaml_reader& at) {
  return {at.get_double("median", 0), at.get_double("low", 0), at.get_double("high", 0)};
}

void expect_note(const yaml_reader& at, const std::string& note) {
  if (at.get_string("note") != note) at.at("note").fail("\"" + note + "\"");
}

std::string read_new_name(const yaml_reader& at, std::set<std::string>& seen) {
  const std::string name = at.as_string();
  if (name.empty()) at.fail("a name");
  if (!seen.insert(name).second) at.fail("a name that did not come before");
  return name;
}

double recorded(double value) { return std::strtod(format_double(finite(value)).c_str(), nullptr); }

ratio_band recorded(const ratio_band& band) {
  return {recorded(band.median), recorded(band.low), recorded(band.high)};
}

check_result recorded(check_result r) {
  for (double* value : {&r.worst_ratio, &r.error, &r.bound, &r.bias, &r.bias_limit})
    *value = recorded(*value);
  return r;
}

problem_id id_of(const op& of, const problem& what) {
  std::string layout;
  const auto add = [&layout](const std::string& word) {
    if (!layout.empty()) layout += ' ';
    layout += word;
  };
  if (what.offset != 0) add("offset=" + std::to_string(what.offset));
  if (what.pad != 0) add("pad=" + std::to_string(what.pad));
  if (what.in_place) add("in_place");
  if (what.data != "normal") add("data=" + what.data);
  for (const auto& [key, value] : what.options) add(key + "=" + format_double(value));
  return {format_shape(what.shape, of.dims), layout};
}

config_values tokens_of(const op& of, const config& values) {
  if (values.size() != of.axes.size())
    throw std::invalid_argument("a config of " + of.name + " has " + std::to_string(values.size()) +
                                " values; expected " + std::to_string(of.axes.size()));
  config_values tokens;
  for (std::size_t i = 0; i < values.size(); ++i)
    tokens.emplace_back(of.axes[i].name, of.axes[i].value_token(values[i]));
  return tokens;
}

std::string text_of(const config_values& values) {
  std::string text;
  for (const auto& [name, token] : values) text += (text.empty() ? "" : ",") + name + "=" + token;
  return text;
}

bool verified::passed() const {
  return fault.empty() &&
         std::all_of(outputs.begin(), outputs.end(), [](const auto& o) { return o.passed(); });
}

const check_result* verified::worst() const {
  const auto found = std::max_element(outputs.begin(), outputs.end(), [](auto& a, auto& b) {
    return a.worst_ratio < b.worst_ratio;
  });
  return found == outputs.end() ? nullptr : &*found;
}

const arm_row* comparison::find(const std::string& name) const {
  const auto found =
      std::find_if(arms.begin(), arms.end(), [&](const arm_row& a) { return a.name == name; });
  return found == arms.end() ? nullptr : &*found;
}

bool comparison::is_race() const {
  return !absent.empty() || std::any_of(arms.begin(), arms.end(), [](const arm_row& a) { return !a.kernels.empty(); });
}

bool comparison::is_void() const {
  const arm_row* twin = find(twin_name);
  return twin == nullptr || !twin->speedup || twin->speedup->low > 1.005 ||
         twin->speedup->high < 0.995;
}

std::string write_verify(const verify_record& record) {
  yaml_writer w;
  write_run(w, verify_schema, record.run, record.device);
  w.field("kernel", record.kernel).field("dtype", record.dtype).field("rounding", record.rounding);
  w.begin("problems", yaml_style::block_list);
  for (const verified& v : record.problems) {
    w.begin(yaml_style::block_map).field("suite", v.suite);
    write_what(w, v);
    w.field("passed", v.passed()).field("fault", v.fault);
    w.begin("outputs", yaml_style::block_list);
    for (const check_result& r : v.outputs) write_output(w, r);
    w.end().end();
  }
  w.end();
  return w.text();
}

verify_record read_verify(const std::string& path) {
  const yaml_reader at = yaml_reader::load(path);
  verify_record record;
  read_run(at, verify_schema, record.run, record.device);
  record.kernel = at.get_string("kernel");
  record.dtype = at.get_string("dtype");
  record.rounding = at.get_string("rounding");
  for (const yaml_reader& item : at.get_list("problems")) {
    verified v;
    v.suite = item.get_string("suite");
    read_what(item, v);
    v.fault = item.get_string("fault");
    for (const yaml_reader& output : item.get_list("outputs"))
      v.outputs.push_back(read_output(output));
    if (item.get_bool("passed") != v.passed())
      item.at("passed").fail(std::string(v.passed() ? "true" : "false") + ", as its outputs say");
    record.problems.push_back(v);
  }
  at.done();
  return record;
}

std::string write_session(const session_record& record) {
  yaml_writer w;
  write_run(w, session_schema, record.run, record.device);
  w.field("note", record.device.id == "host" ? host_note : "");
  w.field("seed", record.seed);
  w.field("voids", std::count_if(record.comparisons.begin(), record.comparisons.end(),
                                 [](const comparison& c) { return c.is_void(); }));
  w.begin("comparisons", yaml_style::block_list);
  for (const comparison& c : record.comparisons) write_comparison(w, c);
  w.end();
  return w.text();
}

session_record read_session(const std::string& path) {
  const yaml_reader at = yaml_reader::load(path);
  session_record record;
  read_run(at, session_schema, record.run, record.device);
  expect_note(at, record.device.id == "host" ? host_note : "");
  record.seed = at.get_int("seed");
  std::int64_t voids = 0;
  for (const yaml_reader& item : at.get_list("comparisons")) {
    record.comparisons.push_back(read_comparison(item));
    voids += record.comparisons.back().is_void() ? 1 : 0;
  }
  if (at.get_int("voids") != voids) at.at("voids").fail(std::to_string(voids) + ", their count");
  at.done();
  return record;
}

}  // namespace capstone::claims
