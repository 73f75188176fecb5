// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/ceilings.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>
#include <utility>

namespace capstone::claims {
namespace {

using mix = std::pair<std::int64_t, std::int64_t>;  // streams read, streams written

template <class Item>
mix mix_of(const Item& item) {
  return {item.reads, item.writes};
}

std::vector<floor_point> points_of(const ceilings& c, const mix& wanted) {
  std::vector<floor_point> points;
  for (const floor_point& p : c.floors)
    if (mix_of(p) == wanted) points.push_back(p);
  return points;
}

// ---- writing
// ---------------------------------------------------------------------------------------

void write_rate(yaml_writer& w, const char* key, const ratio_band& rate) {
  w.begin(key, yaml_style::flow_map).field("value", rate.median);
  w.field("low", rate.low).field("high", rate.high).end();
}

void write_counters(yaml_writer& w, const counter_ceilings& k) {
  w.begin("counters", yaml_style::block_map).field("ncu", k.ncu);
  w.begin("copies", yaml_style::block_list);
  for (const counted_copy& c : k.copies) {
    w.begin(yaml_style::flow_map).field("reads", c.reads).field("writes", c.writes);
    w.field("read_bytes", c.read_bytes).field("written_bytes", c.written_bytes);
    w.field("variant", c.variant);
    w.field("dram_read", c.dram_read).field("dram_read_spread", c.dram_read_spread);
    w.field("dram_write", c.dram_write).field("dram_write_spread", c.dram_write_spread);
    w.field("dram_pct", c.dram_pct).field("sm_pct", c.sm_pct).field("duration_us", c.duration_us);
    w.end();
  }
  w.end();
  write_band(w, "residue_bytes", k.residue_bytes);
  w.begin("noise", yaml_style::flow_map).field("dram_read", k.noise_dram_read);
  w.field("dram_write", k.noise_dram_write).field("l2_read_sectors", k.noise_l2_read_sectors);
  w.field("l2_write_sectors", k.noise_l2_write_sectors).end();
  w.field("tensor_pct", k.tensor_pct);
  w.end();
}

// ---- reading
// ---------------------------------------------------------------------------------------

double get_positive(const yaml_reader& at, const char* key) {
  const double value = at.get_double(key);
  if (!(value > 0)) at.at(key).fail("a number above 0");
  return value;
}

/// Low, the value itself and high, in that order.
ratio_band read_rate(const yaml_reader& at, const char* key) {
  const ratio_band band{get_positive(at, key), get_positive(at, "low"), get_positive(at, "high")};
  if (band.low > band.median || band.median > band.high)
    at.at(key).fail("a number from low to high");
  return band;
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-3 * std::abs(b) + 1e-4; }

std::vector<floor_point> read_floors(const yaml_reader& at) {
  std::vector<floor_point> floors;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const yaml_reader& item : at.items()) {
    const ratio_band us = read_rate(item, "us");
    floors.push_back({item.get_int("reads", 1), item.get_int("writes", 1), item.get_int("bytes", 1),
                      us.median, us.low, us.high, item.get_string("variant")});
    const floor_point& p = floors.back();
    if (!seen.insert({p.reads, p.writes, p.bytes}).second)
      item.at("bytes").fail("a size that did not come before for this mix");
  }
  if (floors.empty()) at.fail("one floor or more");
  return floors;
}

floor_fit fit_of(const yaml_reader& item, const ceilings& c, const mix& of) {
  try {
    return fit_floor(points_of(c, of));
  } catch (const std::invalid_argument& error) {
    item.fail("floors that a line fits: " + std::string(error.what()));
  }
}

/// The fits are functions of the floors, so a fit that says anything else was edited.
std::vector<floor_fit> read_fits(const yaml_reader& at, const ceilings& c) {
  std::vector<floor_fit> fits;
  std::set<mix> missing, seen;
  for (const floor_point& p : c.floors) missing.insert(mix_of(p));
  for (const yaml_reader& item : at.items()) {
    floor_fit f{item.get_int("reads", 1),
                item.get_int("writes", 1),
                item.get_double("fixed_us"),
                get_positive(item, "gb_per_s"),
                item.get_double("worst_residual", 0),
                item.get_doubles("residuals")};
    if (!seen.insert(mix_of(f)).second) item.at("reads").fail("a mix that did not come before");
    if (missing.erase(mix_of(f)) == 0) item.at("reads").fail("a mix that has floors");
    const floor_fit should = fit_of(item, c, mix_of(f));
    if (!near(f.fixed_us, should.fixed_us))
      item.at("fixed_us").fail(format_double(recorded(should.fixed_us)) + ", as its floors say");
    if (!near(f.gb_per_s, should.gb_per_s))
      item.at("gb_per_s").fail(format_double(recorded(should.gb_per_s)) + ", as its floors say");
    if (f.residuals.size() != should.residuals.size())
      item.at("residuals").fail(std::to_string(should.residuals.size()) + " numbers, one a floor");
    for (std::size_t i = 0; i < f.residuals.size(); ++i)
      if (std::abs(f.residuals[i] - should.residuals[i]) > 1e-3)
        item.at("residuals").fail("what the fit misses each floor by");
    if (std::abs(f.worst_residual - should.worst_residual) > 1e-3)
      item.at("worst_residual").fail("the largest of the residuals");
    fits.push_back(std::move(f));
  }
  if (!missing.empty())
    at.fail("a fit for " + std::to_string(missing.begin()->first) + " read, " +
            std::to_string(missing.begin()->second) + " written too, which has floors");
  return fits;
}

void read_l2(const yaml_reader& at, ceilings& c) {
  c.l2_edge_bytes = at.get_int("edge_bytes", 1);
  c.l2_gb_per_s = get_positive(at, "plateau_gb_per_s");
  std::int64_t edge = 0;
  for (const yaml_reader& item : at.get_list("points")) {
    c.l2_points.push_back({item.get_int("bytes", 1), get_positive(item, "gb_per_s")});
    const l2_point& p = c.l2_points.back();
    if (p.gb_per_s >= 0.8 * c.l2_gb_per_s) edge = std::max(edge, p.bytes);
  }
  if (edge != c.l2_edge_bytes)
    at.at("edge_bytes")
        .fail(std::to_string(edge) + ", the largest set that reaches 80 % of the plateau");
}

counter_ceilings read_counters(const yaml_reader& at) {
  counter_ceilings k;
  k.ncu = at.get_string("ncu");
  if (k.ncu.empty()) at.at("ncu").fail("a version");
  for (const yaml_reader& item : at.get_list("copies")) {
    counted_copy c;
    c.reads = item.get_int("reads", 1);
    c.writes = item.get_int("writes", 1);
    c.read_bytes = item.get_int("read_bytes", 1);
    c.written_bytes = item.get_int("written_bytes", 1);
    c.variant = item.get_string("variant");
    c.dram_read = item.get_double("dram_read", 0);
    c.dram_read_spread = item.get_double("dram_read_spread", 0);
    c.dram_write = item.get_double("dram_write", 0);
    c.dram_write_spread = item.get_double("dram_write_spread", 0);
    c.dram_pct = item.get_double("dram_pct", 0);
    c.sm_pct = item.get_double("sm_pct", 0);
    c.duration_us = get_positive(item, "duration_us");
    for (const char* key : {"dram_pct", "sm_pct"})
      if (item.get_double(key) > 100) item.at(key).fail("at most 100 %");
    k.copies.push_back(std::move(c));
  }
  if (k.copies.empty()) at.at("copies").fail("one copy or more");
  const yaml_reader residue = at.at("residue_bytes");
  // Not read_band: what is counted can exceed what was written by a little, so below 0 is possible.
  k.residue_bytes = {residue.get_double("median"), residue.get_double("low"),
                     residue.get_double("high")};
  if (k.residue_bytes.low > k.residue_bytes.median || k.residue_bytes.median > k.residue_bytes.high)
    residue.at("median").fail("a number from low to high");
  const yaml_reader noise = at.at("noise");
  k.noise_dram_read = noise.get_double("dram_read", 0);
  k.noise_dram_write = noise.get_double("dram_write", 0);
  k.noise_l2_read_sectors = noise.get_double("l2_read_sectors", 0);
  k.noise_l2_write_sectors = noise.get_double("l2_write_sectors", 0);
  k.tensor_pct = at.get_double("tensor_pct", 0);
  return k;
}

std::vector<std::int64_t> read_clock(const yaml_reader& at) {
  const std::vector<std::int64_t> mhz = at.get_ints("sm_mhz");
  if (!mhz.empty() && (mhz.size() != 3 || !std::is_sorted(mhz.begin(), mhz.end()) || mhz[0] < 0))
    at.at("sm_mhz").fail("[min, median, max] or []");
  return mhz;
}

double fit_us(const floor_fit& fit, double bytes) {
  return fit.fixed_us + bytes / (fit.gb_per_s * 1e3);
}

/// The calibrated mix nearest to one that is not, by its share of reads, then by how many streams
/// there are.
mix nearest_mix(const ceilings& c, const mix& wanted) {
  const auto distance = [&](const floor_fit& f) {
    const auto share = [](double reads, double writes) { return reads / (reads + writes); };
    return std::abs(share(double(f.reads), double(f.writes)) -
                    share(double(wanted.first), double(wanted.second))) +
           0.01 * std::abs(double(f.reads + f.writes - wanted.first - wanted.second));
  };
  const auto best =
      std::min_element(c.fits.begin(), c.fits.end(),
                       [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
  return mix_of(*best);
}

}  // namespace

std::string write_ceilings(const ceilings& c) {
  if (c.counters.has_value() != c.why_no_counters.empty())
    throw std::invalid_argument("why_no_counters is \"" + c.why_no_counters +
                                "\"; expected a sentence where there are no counters, else \"\"");
  yaml_writer w;
  write_run(w, ceilings_schema, c.run, c.device);
  w.field("note", "").list("sm_mhz", c.sm_mhz);
  w.begin("launch", yaml_style::flow_map).field("stream_us", c.launch_stream_us);
  w.field("graph_node_us", c.launch_graph_node_us)
      .field("empty_kernel_us", c.empty_kernel_us)
      .end();
  w.begin("chain_us", yaml_style::flow_map).field("load", c.chain_load_us);
  w.field("reduce", c.chain_reduce_us).end();
  w.begin("floors", yaml_style::block_list);
  for (const floor_point& p : c.floors) {
    w.begin(yaml_style::flow_map).field("reads", p.reads).field("writes", p.writes);
    w.field("bytes", p.bytes).field("us", p.us).field("low", p.low).field("high", p.high);
    w.field("variant", p.variant).end();
  }
  w.end().begin("fits", yaml_style::block_list);
  for (const floor_fit& f : c.fits) {
    w.begin(yaml_style::flow_map).field("reads", f.reads).field("writes", f.writes);
    w.field("fixed_us", f.fixed_us).field("gb_per_s", f.gb_per_s);
    w.field("worst_residual", f.worst_residual).list("residuals", f.residuals).end();
  }
  w.end().begin("l2", yaml_style::block_map).field("edge_bytes", c.l2_edge_bytes);
  w.field("plateau_gb_per_s", c.l2_gb_per_s).begin("points", yaml_style::block_list);
  for (const l2_point& p : c.l2_points)
    w.begin(yaml_style::flow_map).field("bytes", p.bytes).field("gb_per_s", p.gb_per_s).end();
  w.end().end().begin("rates", yaml_style::block_map);
  write_rate(w, "fma_tflops", c.fma_tflops);
  write_rate(w, "special_gops", c.special_gops);
  write_rate(w, "tensor_bf16_tflops", c.tensor_bf16_tflops);
  w.end();
  if (c.counters)
    write_counters(w, *c.counters);
  else
    w.field("counters", nullptr);
  w.field("why_no_counters", c.why_no_counters);
  return w.text();
}

ceilings read_ceilings(const std::string& path) {
  const yaml_reader at = yaml_reader::load(path);
  ceilings c;
  read_run(at, ceilings_schema, c.run, c.device);
  expect_note(at, "");
  c.sm_mhz = read_clock(at);
  const yaml_reader launch = at.at("launch"), chain = at.at("chain_us"), rates = at.at("rates");
  c.launch_stream_us = get_positive(launch, "stream_us");
  c.launch_graph_node_us = get_positive(launch, "graph_node_us");
  c.empty_kernel_us = get_positive(launch, "empty_kernel_us");
  c.chain_load_us = get_positive(chain, "load");
  c.chain_reduce_us = get_positive(chain, "reduce");
  c.floors = read_floors(at.at("floors"));
  c.fits = read_fits(at.at("fits"), c);
  read_l2(at.at("l2"), c);
  c.fma_tflops = read_rate(rates.at("fma_tflops"), "value");
  c.special_gops = read_rate(rates.at("special_gops"), "value");
  c.tensor_bf16_tflops = read_rate(rates.at("tensor_bf16_tflops"), "value");
  const yaml_reader counters = at.at("counters");
  if (!counters.is_null()) c.counters = read_counters(counters);
  c.why_no_counters = at.get_string("why_no_counters");
  if (c.counters.has_value() != c.why_no_counters.empty())
    at.at("why_no_counters").fail("a sentence where counters is null, else \"\"");
  at.done();
  return c;
}

floor_fit fit_floor(const std::vector<floor_point>& points) {
  floor_fit fit;
  std::set<std::int64_t> sizes;
  // Weighted least squares with weights 1 / t^2, whose residuals are relative; bytes in MB, so that
  // the sums are of one size.
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const floor_point& p : points) {
    if (mix_of(p) != mix_of(points[0]))
      throw std::invalid_argument("points mix " + std::to_string(p.reads) + ":" +
                                  std::to_string(p.writes) + " with " +
                                  std::to_string(points[0].reads) + ":" +
                                  std::to_string(points[0].writes) + "; expected one mix");
    if (!(p.us > 0) || p.bytes < 1)
      throw std::invalid_argument("a floor of " + std::to_string(p.bytes) + " bytes takes " +
                                  std::to_string(p.us) + " us; expected both above 0");
    sizes.insert(p.bytes);
    const double x = double(p.bytes) / 1e6, weight = 1 / (p.us * p.us);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * p.us;
    wxt += weight * x * p.us;
  }
  if (sizes.size() < 2)
    throw std::invalid_argument("points hold " + std::to_string(sizes.size()) +
                                " sizes; expected 2 or more to fit a line to");
  const double slope = (w * wxt - wx * wt) / (w * wxx - wx * wx);  // us per MB
  if (!(slope > 0))
    throw std::invalid_argument("points take no longer for more bytes (" + std::to_string(slope) +
                                " us per MB); expected a rate above 0");
  fit.reads = points[0].reads;
  fit.writes = points[0].writes;
  fit.fixed_us = (wt - slope * wx) / w;
  fit.gb_per_s = 1e3 / slope;  // MB/us are TB/s
  for (const floor_point& p : points) {
    fit.residuals.push_back(fit_us(fit, double(p.bytes)) / p.us - 1);
    fit.worst_residual = std::max(fit.worst_residual, std::abs(fit.residuals.back()));
  }
  return fit;
}

double floor_us(const ceilings& c, std::int64_t reads, std::int64_t writes, std::int64_t bytes) {
  if (reads < 0 || writes < 0 || reads + writes < 1 || bytes < 0)
    throw std::invalid_argument("reads, writes, bytes are " + std::to_string(reads) + ", " +
                                std::to_string(writes) + ", " + std::to_string(bytes) +
                                "; expected streams and no negative size");
  if (c.fits.empty())
    throw std::invalid_argument("the ceilings hold no fits; run `claims calibrate`");
  const mix nearest = nearest_mix(c, {reads, writes});
  std::vector<floor_point> points = points_of(c, nearest);
  if (points.empty())
    throw std::invalid_argument("the ceilings hold a fit and no floors for " +
                                std::to_string(nearest.first) + ":" +
                                std::to_string(nearest.second) + "; run `claims calibrate`");
  std::sort(points.begin(), points.end(),
            [](const auto& a, const auto& b) { return a.bytes < b.bytes; });
  const floor_fit& fit = *std::find_if(c.fits.begin(), c.fits.end(),
                                       [&](const floor_fit& f) { return mix_of(f) == nearest; });
  // Beyond the floors the fit's shape, scaled to meet the last of them: a larger size must not come
  // out faster than a measured smaller one just because the fit runs below that.
  const auto beyond = [&](const floor_point& last) {
    return last.us * fit_us(fit, double(bytes)) / fit_us(fit, double(last.bytes));
  };
  if (bytes >= points.back().bytes) return beyond(points.back());
  if (bytes <= points.front().bytes) return beyond(points.front());
  const auto right =
      std::find_if(points.begin(), points.end(), [&](const auto& p) { return p.bytes > bytes; });
  const auto left = right - 1;
  const double share = double(bytes - left->bytes) / double(right->bytes - left->bytes);
  return left->us + share * (right->us - left->us);
}

}  // namespace capstone::claims
