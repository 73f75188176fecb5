// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/profile_record.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace capstone::claims {
namespace {

constexpr std::array<const char*, 4> words = {"CONFIRMED", "INCONCLUSIVE", "REFUTED",
                                              "INVALID"};  // by rank

yaml_scalar number(double value) {
  return std::isnan(value) ? yaml_scalar(nullptr) : yaml_scalar(recorded(value));
}

double read_number(const yaml_reader& at) { return at.is_null() ? std::nan("") : at.as_double(); }

std::size_t rank(const std::string& verdict) {
  return static_cast<std::size_t>(std::find(words.begin(), words.end(), verdict) - words.begin());
}

std::string read_verdict(const yaml_reader& at) {
  const std::string verdict = at.as_string();
  if (rank(verdict) == words.size()) at.fail("CONFIRMED, REFUTED, INCONCLUSIVE or INVALID");
  return verdict;
}

run_fault read_fault(const yaml_reader& at) {
  const std::string text = at.as_string();
  for (const std::string kind : {"INVALID", "INCONCLUSIVE"})
    if (text.starts_with(kind + ": ") && text.size() > kind.size() + 2)
      return {kind, text.substr(kind.size() + 2)};
  at.fail("\"INVALID: \" or \"INCONCLUSIVE: \" and a sentence");
}

void write_seen(yaml_writer& w, const seen_launches& s) {
  w.begin("seen", yaml_style::flow_map).list("symbols", s.symbols).field("kernels", s.kernels);
  w.field("grid", s.grid).field("block", s.block).field("streams", s.streams).end();
}

void write_problem(yaml_writer& w, const profiled& p) {
  w.begin(yaml_style::block_map).field("kernel", p.kernel).field("dtype", p.dtype);
  w.field("shape", p.what.shape).field("layout", p.what.layout).tokens("config", p.config);
  w.field("prediction", p.prediction_path).field("prediction_sha256", p.prediction_sha256);
  w.begin("passes", yaml_style::flow_map)
      .field("core", p.core_passes)
      .field("pipes", p.pipes_passes)
      .end();
  w.field("launches", p.launches).field("l2", p.l2);
  write_seen(w, p.seen);
  write_band(w, "time_us", p.time_us);
  write_band(w, "floor_us", p.floor_us);
  w.begin("counters", yaml_style::block_list);
  for (const counter_values& c : p.counters) {
    w.begin(yaml_style::flow_map).field("metric", c.metric).field("unit", c.unit);
    w.begin("values", yaml_style::flow_list);
    for (const double value : c.values) w.item(number(value));
    w.end().end();
  }
  w.end().begin("faults", yaml_style::block_list);
  for (const run_fault& f : p.faults) w.item(f.kind + ": " + f.sentence);
  w.end().begin("verdicts", yaml_style::block_list);
  for (const claim_verdict& v : p.verdicts) {
    w.begin(yaml_style::flow_map).field("claim", v.claim).field("verdict", v.verdict);
    w.field("observed", recorded(v.observed))
        .field("low", recorded(v.low))
        .field("high", recorded(v.high));
    w.field("why", v.why).end();
  }
  w.end().field("verdict", p.verdict).field("story", p.story).field("next", p.next).end();
}

counter_values read_counter(const yaml_reader& at, std::int64_t launches, std::set<std::string>& seen) {
  counter_values c;
  c.metric = read_new_name(at.at("metric"), seen);
  c.unit = at.get_string("unit");
  for (const yaml_reader& value : at.get_list("values")) c.values.push_back(read_number(value));
  if (std::ssize(c.values) != launches)
    at.at("values").fail(std::to_string(launches) + " values, one a launch");
  return c;
}

claim_verdict read_claim(const yaml_reader& at) {
  claim_verdict v;
  v.claim = at.get_string("claim");
  v.verdict = read_verdict(at.at("verdict"));
  v.observed = at.get_double("observed");
  v.low = at.get_double("low");
  v.high = at.get_double("high");
  v.why = at.get_string("why");
  return v;
}

/// What the faults and the verdicts on single claims come to.
const char* worst_of(const profiled& p) {
  if (p.faults.empty() && p.verdicts.empty()) return words[1];
  std::size_t worst = 0;
  for (const run_fault& f : p.faults) worst = std::max(worst, rank(f.kind));
  for (const claim_verdict& v : p.verdicts) worst = std::max(worst, rank(v.verdict));
  return words[worst];
}

profiled read_problem(const yaml_reader& at) {
  profiled p;
  p.kernel = at.get_string("kernel");
  p.dtype = at.get_string("dtype");
  p.what = {at.get_string("shape"), at.get_string("layout")};
  p.config = at.at("config").as_tokens();
  p.prediction_path = at.get_string("prediction");
  p.prediction_sha256 = at.get_string("prediction_sha256");
  p.core_passes = at.at("passes").get_int("core", 0);
  p.pipes_passes = at.at("passes").get_int("pipes", 0);
  p.launches = at.get_int("launches", 0);
  p.l2 = at.get_string("l2");
  const yaml_reader seen = at.at("seen");
  p.seen = {seen.get_strings("symbols"), seen.get_int("kernels", 0), seen.get_int("grid", 0),
            seen.get_int("block", 0), seen.get_int("streams", 0)};
  p.time_us = read_band(at.at("time_us"));
  p.floor_us = read_band(at.at("floor_us"));
  std::set<std::string> metrics;
  for (const yaml_reader& item : at.get_list("counters"))
    p.counters.push_back(read_counter(item, p.launches, metrics));
  for (const yaml_reader& item : at.get_list("faults")) p.faults.push_back(read_fault(item));
  for (const yaml_reader& item : at.get_list("verdicts")) p.verdicts.push_back(read_claim(item));
  p.verdict = read_verdict(at.at("verdict"));
  if (p.verdict != worst_of(p))
    at.at("verdict").fail(std::string(worst_of(p)) + ", the worst of its faults and claims");
  p.story = at.get_string("story");
  p.next = at.get_string("next");
  return p;
}

}  // namespace

std::string write_profile(const profile_record& record) {
  yaml_writer w;
  write_run(w, profile_schema, record.run, record.device);
  w.field("ncu", record.ncu);
  w.begin("options", yaml_style::block_list);
  for (const std::string& option : record.options) w.item(option);
  w.end().field("seed", record.seed);
  w.begin("problems", yaml_style::block_list);
  for (const profiled& p : record.problems) write_problem(w, p);
  w.end();
  return w.text();
}

profile_record read_profile(const std::string& path) {
  const yaml_reader at = yaml_reader::load(path);
  profile_record record;
  read_run(at, profile_schema, record.run, record.device);
  record.ncu = at.get_string("ncu");
  record.options = at.get_strings("options");
  record.seed = at.get_int("seed");
  for (const yaml_reader& item : at.get_list("problems"))
    record.problems.push_back(read_problem(item));
  at.done();
  return record;
}

}  // namespace capstone::claims
