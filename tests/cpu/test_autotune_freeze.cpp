// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>

#include "autotune/emit.hpp"
#include "autotune/freeze.hpp"
#include "tests/cpu/fake_op.hpp"

using namespace capstone::tests;

namespace {

// Times without noise, the default's 1.5 times those of `relative` 1.
finalist ran(config values, double relative) {
  return {values, values[0] * values[1], std::vector<double>(40, 10 * relative)};
}

shape_result at(std::int64_t rows, std::vector<finalist> finalists) {
  const std::vector<double> plain(40, 15.0);
  return {rows, plain, plain, std::move(finalists)};
}

std::string text(const config_values& values) {
  std::string all;
  for (const auto& [name, value] : values) all += name + "=" + value + " ";
  return all;
}

frozen_config file_of(std::vector<cols_entry> cols) {
  frozen_config file;
  file.kernel = "fake+twice";
  file.source = "sha256:" + std::string(64, 'a');
  file.axes = "sha256:" + std::string(64, 'b');
  file.dtype = "f32";
  file.device = {"h200", "NVIDIA H200", "9.0", 132, 62914560, "580.1"};
  file.toolchain = {"13.0.88", {"-std=c++20", "-arch=sm_90"}};
  file.cols = std::move(cols);
  return file;
}

}  // namespace

TEST_CASE("freeze: the reduction with the smallest worst ratio, not the fastest at one shape") {
  const auto entry = freeze_cols(fake_op(), 4096,
                                 {at(64, {ran({32, 1, 0}, 1.0), ran({64, 1, 0}, 1.02)}),
                                  at(4096, {ran({32, 1, 0}, 1.3), ran({64, 2, 0}, 1.0)})},
                                 {});
  CHECK(text(entry.reduction) == "lanes=64 ");
  CHECK(entry.invariance_worst == doctest::Approx(1.02));
  CHECK(entry.invariance_at_rows == 64);
}

TEST_CASE("freeze: row ranges end at the measured counts, the last is open") {
  const auto entry = freeze_cols(fake_op(), 4096,
                                 {at(4096, {ran({32, 4, 0}, 1)}),
                                  at(1, {ran({32, 1, 0}, 1)}),
                                  at(64, {ran({32, 2, 0}, 1)})},
                                 {});
  REQUIRE(entry.rows.size() == 3);
  CHECK(entry.rows[0].lo == 1);
  CHECK(entry.rows[0].hi == 1);
  CHECK(entry.rows[1].lo == 2);
  CHECK(entry.rows[1].hi == 64);
  CHECK(entry.rows[2].lo == 65);
  CHECK(entry.rows[2].hi == 0);
  CHECK(entry.rows[2].measured_rows == 4096);
  CHECK(text(entry.rows[2].schedule) == "tile_rows=4 fault=none ");
  CHECK(entry.rows[2].evidence.vs_default == doctest::Approx(1.5));
}

TEST_CASE("freeze: among ties fewer threads, then the smaller values; ties are listed") {
  const auto entry = freeze_cols(fake_op(), 4096,
                                 {at(64, {ran({32, 4, 0}, 1.0), ran({32, 2, 1}, 1.004),
                                        ran({32, 2, 0}, 1.003), ran({32, 1, 0}, 1.008)})},
                                 {});
  CHECK(text(entry.rows[0].schedule) == "tile_rows=2 fault=none ");
  CHECK(entry.rows[0].evidence.ties ==
        std::vector<std::string>{"lanes=32 tile_rows=2 fault=writes_nothing",
                                 "lanes=32 tile_rows=4 fault=none"});
}

TEST_CASE("freeze: one config for several shapes may cost up to 1 %, not more") {
  const std::vector<shape_result> shapes = {
      at(64, {ran({32, 1, 0}, 1.0), ran({32, 2, 0}, 1.009)}),
      at(512, {ran({32, 2, 0}, 1.0), ran({32, 1, 0}, 1.2)}),
      at(4096, {ran({32, 4, 0}, 1.0), ran({32, 2, 0}, 1.011)})};
  const auto entry = freeze_cols(fake_op(), 4096, shapes, {});
  CHECK(text(entry.rows[0].schedule) == "tile_rows=2 fault=none ");
  CHECK(text(entry.rows[1].schedule) == "tile_rows=2 fault=none ");
  CHECK(text(entry.rows[2].schedule) == "tile_rows=4 fault=none ");
}

TEST_CASE("freeze: among ties one that the file already has") {
  const std::vector<shape_result> shapes = {at(64, {ran({32, 4, 0}, 1.0), ran({32, 1, 0}, 1.001)})};
  CHECK(text(freeze_cols(fake_op(), 4096, shapes, {}).rows[0].schedule) ==
        "tile_rows=1 fault=none ");
  CHECK(text(freeze_cols(fake_op(), 4096, shapes, {{32, 4, 0}}).rows[0].schedule) ==
        "tile_rows=4 fault=none ");
}

TEST_CASE("freeze: what sharing a kernel costs is on record, 1 where it costs nothing") {
  const auto entry = freeze_cols(fake_op(), 4096,
                                 {at(64, {ran({32, 1, 0}, 1.0), ran({32, 2, 0}, 1.009)}),
                                  at(512, {ran({32, 2, 0}, 1.0), ran({32, 1, 0}, 1.2)})}, {});
  CHECK(*entry.rows[0].merge_cost == doctest::Approx(1.009));
  CHECK(*entry.rows[1].merge_cost == 1);
  CHECK_FALSE(entry.merge_band);
}

TEST_CASE("freeze: an incumbent that is tied stays, one that is proven slower goes, at its own row count") {
  std::vector<shape_result> shapes = {at(64, {ran({32, 4, 0}, 1.004), ran({32, 1, 0}, 1)}),
                                      at(512, {ran({32, 4, 0}, 1.03), ran({32, 1, 0}, 1)})};
  shapes[0].incumbent = shapes[1].incumbent = {32, 4, 0};
  const auto entry = freeze_cols(fake_op(), 4096, shapes, {});
  CHECK(text(entry.rows[0].schedule) == "tile_rows=4 fault=none ");
  CHECK(text(entry.rows[1].schedule) == "tile_rows=1 fault=none ");
}

TEST_CASE("freeze: an incumbent that was not timed, or is of another reduction, binds nothing") {
  auto shape = at(64, {ran({32, 1, 0}, 1), ran({64, 1, 0}, 1.2)});
  for (const config& old : {config{32, 2, 0}, config{64, 1, 0}}) {
    shape.incumbent = old;
    const auto entry = freeze_cols(fake_op(), 4096, {shape}, {});
    CHECK(text(entry.reduction) + text(entry.rows[0].schedule) == "lanes=32 tile_rows=1 fault=none ");
  }
}

TEST_CASE("freeze: an incumbent reduction stays within the tie band and goes beyond it") {
  const auto chosen = [](double loss) {
    auto shape = at(64, {ran({32, 1, 0}, 1), ran({64, 1, 0}, loss)});
    shape.incumbent = {64, 1, 0};
    return choose(fake_op(), {shape}, {}).reduction;
  };
  CHECK(chosen(1.004) == config{64});
  CHECK(chosen(1.006) == config{32});
}

TEST_CASE("freeze: published times are those of the run-off") {
  auto shape = at(64, {ran({32, 1, 0}, 1)});
  for (std::size_t r = 0; r < 40; ++r) {
    shape.finalists[0].us[r] = 10 + 0.1 * double(r);
    shape.default_us[r] = 20 + 0.2 * double(r);
  }
  const auto got = freeze_cols(fake_op(), 4096, {shape}, {}).rows[0].evidence;
  CHECK(got.median_us == doctest::Approx(11.95));
  CHECK(got.ci_low_us < 11.95);
  CHECK(got.ci_low_us > 10.5);
  CHECK(got.ci_high_us > 11.95);
  CHECK(got.ci_high_us < 13.4);
  CHECK(got.rounds == 40);
  CHECK(got.vs_default == doctest::Approx(2));
}

TEST_CASE("freeze: the order of shapes and finalists does not matter") {
  std::vector<shape_result> shapes = {at(64, {ran({32, 1, 0}, 1.0), ran({32, 2, 0}, 1.003), ran({64, 2, 0}, 1.0)}),
                                      at(512, {ran({32, 2, 0}, 1.0), ran({32, 1, 0}, 1.2), ran({64, 2, 0}, 1.0)})};
  const auto one = freeze_cols(fake_op(), 4096, shapes, {});
  std::swap(shapes[0], shapes[1]);
  for (auto& each : shapes) std::reverse(each.finalists.begin(), each.finalists.end());
  CHECK(freeze_cols(fake_op(), 4096, shapes, {}) == one);
}

TEST_CASE("freeze: a file with too many configs widens the band as far as needed, and says so") {
  // Each row count has a fastest of its own; the shared ones lose 1.2 % and 4 %.
  const auto wide = [](std::int64_t cols) {
    return cols_result{cols, {at(64, {ran({32, 1, 0}, 1.0), ran({32, 4, 0}, 1.012)}),
                              at(512, {ran({32, 2, 0}, 1.0), ran({32, 4, 0}, 1.012)})}};
  };
  std::vector<std::string> notes;
  auto entries = freeze_all(fake_op(), {wide(128), wide(64)}, {}, 2, notes);
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].lo == 64);
  CHECK(text(entries[0].rows[0].schedule) == "tile_rows=1 fault=none ");
  CHECK_FALSE(entries[0].merge_band);
  CHECK(notes.empty());

  entries = freeze_all(fake_op(), {wide(64), wide(128)}, {}, 1, notes);
  for (const auto& entry : entries) {
    CHECK(*entry.merge_band == 1.015);
    for (const auto& rows : entry.rows) {
      CHECK(text(rows.schedule) == "tile_rows=4 fault=none ");
      CHECK(*rows.merge_cost == doctest::Approx(1.012));
    }
  }
  REQUIRE(notes.size() == 1);
  CHECK(notes[0] == "the file would have 2 configs, more than 1: row counts may lose up to 1.5 %, not 1 %, to share one, "
                    "which leaves 1");

  // One that the file keeps from before costs no kernel.
  notes.clear();
  const cols_result single = {64, {at(64, {ran({32, 1, 0}, 1.0), ran({32, 4, 0}, 1.012)})}};
  entries = freeze_all(fake_op(), {single}, {{64, 1, 0}, {32, 4, 0}}, 2, notes);
  CHECK(*entries[0].merge_band == 1.015);
  CHECK(text(entries[0].rows[0].schedule) == "tile_rows=4 fault=none ");
  // Nothing helps: nothing is paid.
  notes.clear();
  entries = freeze_all(fake_op(), {{64, {at(64, {ran({32, 1, 0}, 1)})}}}, {{64, 1, 0}}, 1, notes);
  CHECK_FALSE(entries[0].merge_band);
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("the file has 2 configs, more than 1"));
}

TEST_CASE("freeze: no reduction at every row count is an error") {
  CHECK_THROWS_WITH(
      freeze_cols(fake_op(), 4096, {at(1, {ran({32, 1, 0}, 1)}), at(2, {ran({64, 1, 0}, 1)})}, {}),
      "no reduction was measured at every row count");
}

TEST_CASE("merge: other cols stay, the same cols are replaced, lost row counts are said") {
  const auto op = fake_op();
  const auto old_a = freeze_cols(op, 64, {at(1, {ran({32, 1, 0}, 1)})}, {});
  const auto old_b =
      freeze_cols(op, 128, {at(1, {ran({32, 1, 0}, 1)}), at(64, {ran({32, 1, 0}, 1)})}, {});
  const auto fresh_b = freeze_cols(op, 128, {at(64, {ran({64, 1, 0}, 1)})}, {});
  std::vector<std::string> notes;
  const auto merged = merge(file_of({fresh_b}), file_of({old_a, old_b}), notes);
  REQUIRE(merged.cols.size() == 2);
  CHECK(merged.cols[0].lo == 64);
  CHECK(text(merged.cols[1].reduction) == "lanes=64 ");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].starts_with("cols 128: the row counts 1 were tuned before and are dropped"));
}

TEST_CASE("merge: entries of another source, axes or device are dropped with a sentence") {
  const auto op = fake_op();
  const auto entry = freeze_cols(op, 64, {at(1, {ran({32, 1, 0}, 1)})}, {});
  const auto fresh = file_of({freeze_cols(op, 128, {at(1, {ran({32, 1, 0}, 1)})}, {})});
  auto source = file_of({entry}), axes = source, device = source, toolkit = source;
  source.source.back() = 'c';
  axes.axes.back() = 'c';
  device.device.sms = 114;
  toolkit.toolchain.cuda = "12.9";
  for (const auto& before : {source, axes, device, toolkit}) {
    std::vector<std::string> notes;
    CHECK(merge(fresh, before, notes).cols.size() == 1);
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].starts_with("cols 64: the frozen entry is dropped because"));
  }
}

TEST_CASE("emit: the table's text") {
  auto op = fake_op();
  op.axes[2].enum_type = "fault_kind";
  const auto file = file_of({freeze_cols(
      op, 4096, {at(64, {ran({32, 2, racy}, 1)}), at(512, {ran({32, 4, none}, 1)})}, {})});
  CHECK(emit_table(op, {{"a.yaml", file}}, "") ==
        R"(// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
//
// Generated by `autotune` from configs/; do not edit. `autotune check` compares.
#pragma once

#include <capstone/detail/table.hpp>

namespace capstone::tuned {

struct fake {
  static constexpr int count = 2;
  static constexpr detail::table_row<row_config> rows[] = {
      {.device = {.cc = 90, .sms = 132, .l2_bytes = 62914560},
       .variant = "+twice", .dtype = "f32",
       .cols_min = 4096, .cols_max = 4096, .rows_min = 1, .rows_max = 64, .rows_tuned = 64,
       .config = {.reduction = {.lanes = 32},
                  .schedule = {.tile_rows = 2, .fault = fault_kind::racy}}},
      {.device = {.cc = 90, .sms = 132, .l2_bytes = 62914560},
       .variant = "+twice", .dtype = "f32",
       .cols_min = 4096, .cols_max = 4096, .rows_min = 65, .rows_max = 0, .rows_tuned = 512,
       .config = {.reduction = {.lanes = 32},
                  .schedule = {.tile_rows = 4, .fault = fault_kind::none}}},
  };
};

}  // namespace capstone::tuned
)");
}

TEST_CASE("emit: a table of the user's is global and names types in full; an empty one counts 0") {
  const auto op = fake_op();
  const auto text = emit_table(op, {}, "my_table");
  CHECK(text.find("\nstruct my_table {\n  static constexpr int count = 0;\n"
                  "  static constexpr capstone::detail::table_row<capstone::row_config> "
                  "rows[] = {\n"
                  "      {},\n  };\n};\n") != std::string::npos);
  CHECK(text.find("namespace") == std::string::npos);
  CHECK(table_path("out", op, "my_table") == "out/my_table.cuh");
  CHECK(table_path("out", op, "") == "out/include/capstone/tuned/fake.cuh");
}

TEST_CASE("emit: a kernel belongs to an op with its variants, not by a common beginning") {
  op of;
  of.name = "norm";
  CHECK(belongs_to(of, "norm"));
  CHECK(belongs_to(of, "norm+residual.round_sum"));
  CHECK(belongs_to(of, "norm.round_sum"));
  CHECK_FALSE(belongs_to(of, "norm_backward"));
  CHECK_FALSE(belongs_to(of, "layer_norm"));
}
