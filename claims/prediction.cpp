// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/prediction.hpp"

#include <algorithm>

#include "core/fingerprint.hpp"

namespace capstone::claims {
namespace {

std::string read_schema(const yaml_reader& at) {
  const std::string schema = at.as_string();
  if (schema != prediction_schema && schema != older_prediction_schema)
    at.fail("\"" + std::string(prediction_schema) + "\" or \"" + older_prediction_schema + "\"");
  return schema;
}

std::string read_digest(const yaml_reader& at, bool may_be_empty = false) {
  const std::string digest = at.as_string();
  if (digest.empty() && may_be_empty) return digest;
  const bool hex = digest.find_first_not_of("0123456789abcdef", 7) == std::string::npos;
  if (!digest.starts_with("sha256:") || digest.size() != 71 || !hex)
    at.fail("\"sha256:\" and 64 lowercase hex digits");
  return digest;
}

std::string read_filled(const yaml_reader& at, const char* expected) {
  const std::string text = at.as_string();
  if (text.empty()) at.fail(expected);
  return text;
}

void write_launch(yaml_writer& w, const predicted_launch& l) {
  w.begin("launch", yaml_style::flow_map).field("symbol", l.symbol);
  w.field("grid", l.grid).field("block", l.block).field("kernels", l.kernels);
  w.field("registers", l.registers).field("smem_bytes", l.smem_bytes).field("waves", l.waves).end();
}

predicted_launch read_launch(const yaml_reader& at) {
  predicted_launch l;
  l.symbol = read_filled(at.at("symbol"), "a mangled name");
  l.grid = at.get_int("grid", 1);
  l.block = at.get_int("block", 1);
  l.kernels = at.get_int("kernels", 1);
  l.registers = at.get_int("registers", 0);
  l.smem_bytes = at.get_int("smem_bytes", 0);
  l.waves = at.get_double("waves", 0);
  return l;
}

void read_times(const yaml_reader& at, prediction& p) {
  p.expected_us = at.get_double("expected", 0);
  p.low_us = at.get_double("low", 0);
  p.high_us = at.get_double("high", 0);
  p.physics_us = at.get_double("physics", 0);
  if (p.low_us > p.expected_us || p.high_us < p.expected_us)
    at.at("expected").fail("a time from low to high");
  if (p.physics_us > p.expected_us) at.at("physics").fail("at most what is expected");
}

std::vector<time_term> read_terms(const yaml_reader& at) {
  std::vector<time_term> terms;
  std::set<std::string> seen;
  for (const yaml_reader& item : at.items()) {
    time_term t;
    t.name = read_new_name(item.at("name"), seen);
    t.formula = item.get_string("formula");
    t.us = item.get_double("us", 0);
    terms.push_back(t);
  }
  return terms;
}

std::vector<counter_prediction> read_counters(const yaml_reader& at) {
  std::vector<counter_prediction> counters;
  std::set<std::string> seen;
  for (const yaml_reader& item : at.items()) {
    counter_prediction c;
    c.metric = read_new_name(item.at("metric"), seen);
    c.unit = item.get_string("unit");
    c.value = item.get_double("value");
    c.low = item.get_double("low");
    c.high = item.get_double("high");
    c.formula = item.get_string("formula");
    if (c.low > c.value || c.high < c.value) item.at("value").fail("a number from low to high");
    counters.push_back(c);
  }
  return counters;
}

std::vector<std::pair<std::string, double>> read_shown(const yaml_reader& at, const prediction& p) {
  std::vector<std::pair<std::string, double>> shown;
  std::set<std::string> seen;
  for (const yaml_reader& item : at.items()) {
    const std::string metric = read_new_name(item.at("metric"), seen);
    if (p.find(metric) == nullptr) item.at("metric").fail("a metric that is predicted");
    shown.emplace_back(metric, item.get_double("value", 0));
  }
  if (shown.empty()) at.fail("the value of at least one metric");
  return shown;
}

std::vector<rival_story> read_rivals(const yaml_reader& at, const prediction& p) {
  std::vector<rival_story> rivals;
  std::set<std::string> seen;
  for (const yaml_reader& item : at.items()) {
    rival_story r;
    r.name = read_new_name(item.at("name"), seen);
    r.story = item.get_string("story");
    if (p.schema != older_prediction_schema) r.shows = read_shown(item.at("shows"), p);
    for (const yaml_reader& metric : item.get_list("excluded_by")) {
      r.excluded_by.push_back(metric.as_string());
      if (p.find(r.excluded_by.back()) == nullptr) metric.fail("a metric that is predicted");
    }
    rivals.push_back(r);
  }
  return rivals;
}

std::string read_term_name(const yaml_reader& at, const prediction& p) {
  const std::string name = at.as_string();
  const auto is_it = [&](const time_term& t) { return t.name == name; };
  if (std::none_of(p.terms.begin(), p.terms.end(), is_it)) at.fail("the name of a term");
  return name;
}

}  // namespace

const counter_prediction* prediction::find(const std::string& metric) const {
  for (const counter_prediction& c : counters)
    if (c.metric == metric) return &c;
  return nullptr;
}

std::vector<std::string> excluding(const prediction& p, const rival_story& r) {
  std::vector<std::string> metrics;
  for (const auto& [metric, value] : r.shows)
    if (const counter_prediction* c = p.find(metric);
        c != nullptr && (value < c->low || value > c->high))
      metrics.push_back(metric);
  return metrics;
}

std::string write_prediction(const prediction& p) {
  yaml_writer w;
  w.field("schema", p.schema).field("date", p.date).field("commit", p.commit);
  w.field("supersedes", p.supersedes).field("why", p.why);
  w.field("kernel", p.kernel).field("dtype", p.dtype);
  w.field("shape", p.what.shape).field("layout", p.what.layout);
  w.begin("device", yaml_style::flow_map).field("id", p.device.id).field("name", p.device.name);
  w.field("cc", p.device.cc).field("sms", p.device.sms).field("l2_bytes", p.device.l2_bytes);
  w.field("driver", p.device.driver).end();
  w.field("ceilings", p.ceilings).field("source", p.source).tokens("config", p.config);
  w.field("model", p.model).field("prior_profiles", p.prior_profiles);
  write_launch(w, p.launch);
  w.begin("state", yaml_style::flow_map).field("l2", p.l2).end();
  w.begin("terms", yaml_style::block_list);
  for (const time_term& t : p.terms) {
    w.begin(yaml_style::flow_map).field("name", t.name).field("formula", t.formula);
    w.field("us", t.us).end();
  }
  w.end().begin("binding", yaml_style::flow_map).field("term", p.binding).field("second", p.second);
  w.field("margin", p.margin).end();
  w.begin("time_us", yaml_style::flow_map).field("expected", p.expected_us);
  w.field("low", p.low_us).field("high", p.high_us).field("physics", p.physics_us).end();
  w.begin("counters", yaml_style::block_list);
  for (const counter_prediction& c : p.counters) {
    w.begin(yaml_style::flow_map).field("metric", c.metric).field("unit", c.unit);
    w.field("value", c.value).field("low", c.low).field("high", c.high);
    w.field("formula", c.formula).end();
  }
  w.end().begin("rivals", yaml_style::block_list);
  for (const rival_story& r : p.rivals) {
    w.begin(yaml_style::flow_map).field("name", r.name).field("story", r.story);
    if (p.schema != older_prediction_schema) {
      w.begin("shows", yaml_style::flow_list);
      for (const auto& [metric, value] : r.shows)
        w.begin(yaml_style::flow_map).field("metric", metric).field("value", value).end();
      w.end();
    }
    w.list("excluded_by", r.excluded_by).end();
  }
  w.end().begin("launch_dominates_below", yaml_style::flow_map);
  w.field("rows", p.launch_dominates_below_rows)
      .field("bytes", p.launch_dominates_below_bytes)
      .end();
  return w.text();
}

prediction parse_prediction(const std::string& text, const std::string& file) {
  const yaml_reader at = yaml_reader::parse(text, file);
  prediction p;
  p.schema = read_schema(at.at("schema"));
  p.date = read_filled(at.at("date"), "a date");
  p.commit = at.get_string("commit");
  p.supersedes = read_digest(at.at("supersedes"), true);
  p.why = at.get_string("why");
  if (p.supersedes.empty() != p.why.empty())
    at.at("why").fail("a reason where something is superseded, and only there");
  p.kernel = read_filled(at.at("kernel"), "a kernel's name");
  p.dtype = read_filled(at.at("dtype"), "a dtype");
  p.what = {read_filled(at.at("shape"), "a shape"), at.get_string("layout")};
  const yaml_reader d = at.at("device");
  p.device = {read_filled(d.at("id"), "a device's id"),
              d.get_string("name"),
              d.get_string("cc"),
              d.get_int("sms", 0),
              d.get_int("l2_bytes", 0),
              d.get_string("driver")};
  p.ceilings = read_digest(at.at("ceilings"));
  p.source = read_digest(at.at("source"));
  p.config = at.at("config").as_tokens();
  p.model = at.get_string("model");
  if (p.model != "full" && p.model != "memory only")
    at.at("model").fail("\"full\" or \"memory only\"");
  p.prior_profiles = at.get_int("prior_profiles", 0);
  p.launch = read_launch(at.at("launch"));
  p.l2 = at.at("state").get_string("l2");
  if (p.l2 != "cold") at.at("state").at("l2").fail("\"cold\"");
  p.terms = read_terms(at.at("terms"));
  const yaml_reader binding = at.at("binding");
  p.binding = read_term_name(binding.at("term"), p);
  p.second = read_term_name(binding.at("second"), p);
  p.margin = binding.get_double("margin", 0);
  read_times(at.at("time_us"), p);
  p.counters = read_counters(at.at("counters"));
  p.rivals = read_rivals(at.at("rivals"), p);
  const yaml_reader crossover = at.at("launch_dominates_below");
  p.launch_dominates_below_rows = crossover.get_int("rows", 0);
  p.launch_dominates_below_bytes = crossover.get_int("bytes", 0);
  at.done();
  return p;
}

std::string file_digest(const std::string& path) { return "sha256:" + file_sha256(path); }

}  // namespace capstone::claims
