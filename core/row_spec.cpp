// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/row_spec.hpp"

namespace capstone::tools {
namespace {

enum field { lanes, elements, cluster, tile_rows, load_bytes, hold, weights, persistent, cache };

template <class Field>
axis reduction_axis(const char* name, Field row_reduction::* f, std::vector<int> values) {
  return make_axis<row_config>(name, part::reduction, &row_config::reduction, f, std::move(values));
}
template <class Field>
axis schedule_axis(const char* name, Field row_schedule::* f, std::vector<int> values,
                   std::vector<std::string> names = {}, const char* enum_type = "") {
  axis a = make_axis<row_config>(name, part::schedule, &row_config::schedule, f, std::move(values),
                                 std::move(names));
  a.enum_type = enum_type;
  return a;
}

/// The first input and the columns decide how wide a lane's share is.
int element_bytes(const kernel_spec& k, const problem& p) {
  return static_cast<int>(size_of(k.buffers(p).front().type));
}
std::int64_t steps(const config& c, const problem& p) {
  return detail::row_steps(to_row_config(c).reduction, p.shape.at(1));
}

}  // namespace

std::vector<axis> row_axes() {
  return {
      reduction_axis("lanes", &row_reduction::lanes,
                     {4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024}),
      reduction_axis("elements", &row_reduction::elements, {4, 8, 16}),
      reduction_axis("cluster", &row_reduction::cluster, {1, 2, 4, 8}),
      schedule_axis("tile_rows", &row_schedule::tile_rows, {1, 2, 4, 8, 16, 32, 64}),
      schedule_axis("load_bytes", &row_schedule::load_bytes, {8, 16}),
      schedule_axis("hold", &row_schedule::hold, {0, 1, 2}, {"registers", "packed", "reread"},
                    "row_hold"),
      schedule_axis("weights", &row_schedule::weights, {0, 1, 2, 3}, {"early", "late", "as_used", "once"},
                    "row_weights"),
      schedule_axis("persistent", &row_schedule::persistent, {0, 1, 2, 4, 8}),
      schedule_axis("cache", &row_schedule::cache, {0, 1}, {"normal", "streaming"},
                    "detail::cache_use"),
  };
}

row_config to_row_config(const config& v) {
  return {{v.at(lanes), v.at(elements), v.at(cluster)},
          {v.at(tile_rows), v.at(load_bytes), row_hold(v.at(hold)), row_weights(v.at(weights)),
           v.at(persistent), detail::cache_use(v.at(cache))}};
}

config from_row_config(const row_config& c) {
  const row_reduction& r = c.reduction;
  const row_schedule& s = c.schedule;
  return {r.lanes, r.elements, r.cluster, s.tile_rows, s.load_bytes, int(s.hold), int(s.weights),
          s.persistent, int(s.cache)};
}

op make_row_op(std::string name, std::string header) {
  op o;
  o.name = std::move(name);
  o.header = std::move(header);
  o.config_type = "capstone::row_config";
  o.dims = {"rows", "cols"};
  o.axes = row_axes();
  o.config_fields = sizeof(row_config) / sizeof(int);
  o.rules = row_rules();
  return o;
}

double row_tree_depth(const row_reduction& r, std::int64_t cols) {
  return double(detail::row_steps(r, cols)) * r.elements + detail::combine_depth(r.lanes, r.cluster);
}

config default_values(const row_reduction& r, int load_bytes) {
  row_config c = detail::runtime_config(load_bytes);
  c.reduction = r;
  c.schedule.tile_rows = detail::default_tile_rows(r);
  return from_row_config(c);
}

std::string row_config_text(const row_config& c) {
  const config v = from_row_config(c);
  std::string text = "capstone::row_config{";
  const auto axes = row_axes();
  for (const part which : {part::reduction, part::schedule}) {
    text += which == part::reduction ? ".reduction = {" : "}, .schedule = {";
    bool first = true;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (axes[i].belongs != which) continue;
      text += (first ? "." : ", .") + axes[i].name + " = " +
              (axes[i].enum_type.empty() ? "" : "capstone::" + axes[i].enum_type + "::") +
              axes[i].value_token(v[i]);
      first = false;
    }
  }
  return text + "}}";
}

std::vector<rule> row_rules() {
  using spec = kernel_spec;
  using limits = device_limits;
  std::vector<rule> rules;
  const auto add = [&](const char* reason, auto holds) { rules.push_back({reason, holds}); };

  add("load_bytes is what a lane owns in one step, at most 16: narrower accesses only cost instructions",
      [](const config& c, const problem& p, const spec& k, const limits&) {
        const int owned = c[elements] * element_bytes(k, p);
        return owned >= 8 && owned <= 32 && c[load_bytes] == (owned < 16 ? owned : 16);
      });
  add("a block has 64 to 1024 threads, and at most 15 teams of more than 32 lanes (16 barriers)",
      [](const config& c, const problem&, const spec&, const limits&) {
        const int threads = c[lanes] * c[tile_rows];
        return threads >= 64 && threads <= 1024 && (c[lanes] <= 32 || c[tile_rows] <= 15);
      });
  add("several rows a block only up to 512 threads: beyond, more blocks do the same with less waiting",
      [](const config& c, const problem&, const spec&, const limits&) {
        return c[tile_rows] == 1 || c[lanes] * c[tile_rows] <= 512;
      });
  add("no more rows a block than the problem has",
      [](const config& c, const problem& p, const spec&, const limits&) {
        return c[tile_rows] == 1 || c[tile_rows] <= p.shape.at(0);
      });
  add("the last step wastes at most an eighth of the lanes",
      [](const config& c, const problem& p, const spec&, const limits&) {
        const double covered = double(steps(c, p)) * c[lanes] * c[elements] * c[cluster];
        const bool smallest = c[lanes] * c[elements] <= 64 && covered / double(p.shape.at(1)) <= 2;
        return smallest || covered <= 1.125 * double(p.shape.at(1));
      });
  add("clusters pay from 32768 columns on (H200: they cost at 16384)",
      [](const config& c, const problem& p, const spec&, const limits& d) {
        return c[cluster] == 1 || (d.cc >= 90 && p.shape.at(1) >= 32768 && c[tile_rows] == 1 && c[lanes] >= 256);
      });
  add("a lane holds at most 128 bytes of a row, 64 registers as float32",
      [](const config& c, const problem& p, const spec& k, const limits&) {
        if (c[hold] == int(row_hold::reread)) return true;
        const std::int64_t held = steps(c, p) * c[elements];
        return held * element_bytes(k, p) <= 128 && (c[hold] == int(row_hold::packed) || held <= 64);
      });
  add("packed is registers for a float32 x",
      [](const config& c, const problem& p, const spec& k, const limits&) {
        return c[hold] != int(row_hold::packed) || element_bytes(k, p) < 4 || k.buffers(p).size() > 3;
      });
  add("a row is read twice only where it cannot be held by 1024 lanes",
      [](const config& c, const problem& p, const spec& k, const limits&) {
        return c[hold] != int(row_hold::reread) || p.shape.at(1) * element_bytes(k, p) > 128 * 1024;
      });
  add("weights as used differ from late weights only with more than one vector a lane",
      [](const config& c, const problem& p, const spec&, const limits&) {
        return c[weights] != int(row_weights::as_used) || steps(c, p) > 1;
      });
  add("weights are kept once only by a grid that loops",
      [](const config& c, const problem&, const spec&, const limits&) {
        return c[weights] != int(row_weights::once) || c[persistent] > 0;
      });
  add("a looping grid keeps 1024 to 2048 threads an SM and has two tiles or more for each block",
      [](const config& c, const problem& p, const spec&, const limits& d) {
        if (c[persistent] == 0) return true;
        const std::int64_t threads = std::int64_t(c[persistent]) * c[lanes] * c[tile_rows];
        return d.sms > 0 && threads >= 1024 && threads <= 2048 &&
               p.shape.at(0) >= 2 * std::int64_t(c[tile_rows]) * d.sms * c[persistent] / c[cluster];
      });
  add("streaming accesses only where the call moves more than L2 holds: the next kernel wants the rest there",
      [](const config& c, const problem& p, const spec& k, const limits& d) {
        const traffic_model t = k.traffic(p);
        return c[cache] == int(detail::cache_use::normal) || t.read_bytes + t.written_bytes > d.l2_bytes;
      });
  return rules;
}

}  // namespace capstone::tools
