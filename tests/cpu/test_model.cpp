// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The model on the ceilings that an H200 was calibrated with, and predictions end to end.

#include "claims/model.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "claims/predict.hpp"
#include "claims/profile_rows.hpp"
#include "core/disassembler.hpp"
#include "tests/cpu/faulty_scale.hpp"
#include "tests/skip.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;
namespace fs = std::filesystem;

namespace {

const std::string ceilings_file = std::string(CAPSTONE_SOURCE_DIR) + "/evidence/h200/ceilings.yaml";

const ceilings& h200() {
  static const ceilings measured = read_ceilings(ceilings_file);
  return measured;
}

/// A streaming kernel: a block of 256 threads a row of 4096 16-bit elements, read and written once.
model_inputs streaming(std::int64_t rows) {
  const std::int64_t bytes = rows * 8192;
  machine_code code;
  code.symbol = "k", code.registers = 40, code.static_smem = 264, code.straight = 283, code.loops = 1;
  model_inputs in{h200(), {bytes, bytes, 1, 1}, {double(rows) * 4096 * 4, double(rows) * 256, 0}, {"k", unsigned(rows), 256, 1, 0, true}, code, {}, rows, false};
  in.rivals.emplace_back("unfused", traffic_model{3 * bytes, 2 * bytes, 1, 1});
  return in;
}

prediction predicted(const model_inputs& in) {
  prediction p;
  p.device = h200().device;
  apply_model(in, p);
  return p;
}

double term(const prediction& p, const std::string& name) {
  for (const time_term& t : p.terms)
    if (t.name == name) return t.us;
  FAIL("no term " << name);
  return 0;
}

}  // namespace

TEST_CASE("model: twice the rows are twice the bytes, and a little less than twice the time") {
  const prediction one = predicted(streaming(8192)), two = predicted(streaming(16384));
  CHECK(term(two, "dram") == doctest::Approx(2 * term(one, "dram")).epsilon(0.001));
  CHECK(two.expected_us < 2 * one.expected_us);
  CHECK(two.expected_us > 1.8 * one.expected_us);
  CHECK(two.find("lts__t_sectors_srcunit_tex_op_write.sum")->value == doctest::Approx(16384.0 * 8192 / 32).epsilon(0.001));
  CHECK(two.find("sm__inst_executed.sum")->value == doctest::Approx(16384.0 * 8 * 283).epsilon(0.001));
}

TEST_CASE("model: launch binds small calls, memory large ones, and the crossover lies between") {
  const prediction small = predicted(streaming(1)), large = predicted(streaming(16384));
  CHECK(small.binding == "launch");
  CHECK(large.binding == "dram");
  CHECK(large.launch_dominates_below_rows > 1);
  CHECK(large.launch_dominates_below_rows < 16384);
  const double bytes_per_us = 2.0 * 16384 * 8192 / term(large, "dram");
  CHECK(double(large.launch_dominates_below_bytes) == doctest::Approx(term(large, "launch") * bytes_per_us).epsilon(0.001));
}

TEST_CASE("model: what every SM reads again widens the reads upwards only") {
  const model_inputs in = streaming(4096);
  model_inputs with_weights = in;
  with_weights.traffic.reused_bytes = 8192;
  const auto *a = predicted(in).find("dram__bytes.sum");
  REQUIRE(a != nullptr);
  const prediction p = predicted(in), q = predicted(with_weights);
  const char* reads = "lts__t_sectors_srcunit_tex_op_read.sum";
  CHECK(q.find(reads)->low == p.find(reads)->low);
  CHECK(q.find(reads)->high > p.find(reads)->high);
}

TEST_CASE("model: every rival story is excluded by a metric, from one row to the largest") {
  for (const std::int64_t rows : {1, 64, 512, 4096, 16384, 65536}) {
    CAPTURE(rows);
    const prediction p = predicted(streaming(rows));
    CHECK(p.rivals.size() >= 6);
    for (const rival_story& r : p.rivals) {
      CHECK_MESSAGE(!r.excluded_by.empty(), r.name);
      CHECK_MESSAGE(r.shows.size() >= r.excluded_by.size(), r.name);
    }
    CHECK(why_cannot_fail(p) == "");
  }
}

TEST_CASE("model: a rival that does the same is refused, for such a prediction cannot fail") {
  model_inputs in = streaming(4096);
  in.rivals = {{"twin", in.traffic}};
  CHECK(why_cannot_fail(predicted(in)).find("the story 'twin'") != std::string::npos);
}

TEST_CASE("model: tensor work binds where it is counted, and is missed where it is left out") {
  model_inputs in = streaming(16384);
  in.work.tensor_flops = 1e12;
  in.launch.single_pass = false;
  const prediction full = predicted(in);
  CHECK(full.binding == "tensor");
  CHECK(full.expected_us > 1000);
  const char* pipe = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed";
  CHECK(full.find(pipe)->value > 90);
  CHECK(full.find("sm__inst_executed.sum") == nullptr);  // a loop whose length no machine code shows
  in.memory_only = true;
  const prediction blind = predicted(in);
  CHECK(blind.binding == "dram");
  CHECK(blind.expected_us < 100);
  CHECK(blind.find(pipe)->high == 2);
}

TEST_CASE("model: intervals are as narrow as promised for large calls") {
  const prediction p = predicted(streaming(16384));
  for (const counter_prediction& c : p.counters)
    if (c.unit == "byte" && c.value > 0) CHECK_MESSAGE((c.high - c.low) / 2 <= 0.02 * c.value, c.metric);
  CHECK((p.high_us - p.low_us) / 2 <= 0.05 * p.expected_us);
}

TEST_CASE("model: blocks that fit an SM, by registers, threads, shared memory and architecture") {
  struct row {
    int cc, registers, threads, smem_bytes, blocks;
  };
  // A quarter of an SM holds floor(16384 / a warp's registers) warps, which come in units of 256; a
  // block takes its shared memory and 1 KB, in units of 128 bytes. By hand, in this order:
  for (const row& r : std::vector<row>{
           {90, 32, 1024, 0, 2},            // 64 warps of 32
           {90, 32, 64, 0, 32},             // the most blocks
           {90, 40, 256, 264, 6},           // 1280 a warp: 4 x 12 = 48 warps, and floor(65536 / 1280) = 51 too gives 6 of 8
           {90, 40, 96, 0, 16},             // 48 warps of 3, where 51 would be 17
           {90, 40, 32, 0, 32},             // 48 warps of 1, the most blocks are fewer
           {90, 56, 64, 0, 18},             // 1792 a warp: 4 x 9 = 36 warps of 2
           {90, 72, 128, 0, 7},             // 2304 a warp: 4 x 7 = 28 warps of 4
           {90, 88, 192, 0, 3},             // 2816 a warp: 4 x 5 = 20 warps of 6, where 23 would be 3 as well
           {90, 88, 32, 0, 20},             // ... of 1, where 23 would be 23
           {90, 168, 384, 0, 1},            // 5376 a warp: 4 x 3 = 12 warps of 12
           {90, 33, 128, 0, 12},            // 33 are 40
           {90, 255, 256, 0, 1},            // 8192 a warp: 4 x 2 = 8 warps of 8
           {90, 255, 288, 0, 0},            // 9 warps
           {90, 32, 256, 100 * 1024, 2},    // 228 KB of 101
           {90, 32, 256, 227 * 1024, 1},    // all of it
           {90, 32, 256, 227 * 1024 + 1, 0},
           {90, 32, 256, 113 * 1024, 2},    // 114 KB twice is 228
           {90, 32, 256, 113 * 1024 + 1, 1},
           {80, 32, 256, 81 * 1024, 2},     // 164 KB of 82
           {80, 32, 64, 0, 32},
           {86, 32, 64, 0, 16},             // the most blocks of GA10x
           {86, 32, 256, 0, 6},             // 48 warps
           {86, 32, 128, 49 * 1024, 2},     // 100 KB of 50
           {89, 32, 64, 0, 24},
           {100, 40, 96, 0, 16},
           {100, 32, 256, 113 * 1024, 2},
           {120, 32, 256, 0, 6},
           {120, 32, 32, 0, 24},
           {120, 40, 96, 0, 16},            // 48 warps by both
           {120, 88, 32, 0, 20},
       }) {
    CAPTURE(r.cc);
    CAPTURE(r.registers);
    CAPTURE(r.threads);
    CAPTURE(r.smem_bytes);
    CHECK(blocks_per_sm(r.cc, r.registers, r.threads, r.smem_bytes) == r.blocks);
  }
  CHECK_THROWS_WITH(blocks_per_sm(990, 32, 256, 0), doctest::Contains("cc is 990"));
}

TEST_CASE("predict: writes what can fail, once; a successor needs a reason and names what it follows") {
  if (capstone::tools::find_disassembler({"cuobjdump"}).empty()) CAPSTONE_SKIP("no cuobjdump; tools/install-deps brings it");
  const scratch_tree tree("predict");
  selection wanted;
  wanted.out = tree.str();
  wanted.kernels = {"rms_norm"};
  wanted.dtypes = {"bf16"};
  wanted.shapes = {"4096x4096"};
  CHECK_THROWS_WITH(predict(wanted, {}), doctest::Contains("claims calibrate"));
  fs::create_directories(tree.str() + "/evidence/h200");
  fs::copy(ceilings_file, tree.str() + "/evidence/h200/ceilings.yaml");
  CHECK(predict(wanted, {}) == 0);
  const std::string folder = tree.str() + "/evidence/h200";
  const problem_id what{"rows=4096,cols=4096", ""};
  const newest_prediction first = find_newest_prediction(folder, "rms_norm", "bf16", what);
  REQUIRE(first.n == 1);
  CHECK(first.content.launch.grid == 4096);
  CHECK(first.content.launch.registers > 0);
  CHECK(predict(wanted, {}) == 0);  // the same again: nothing is written
  CHECK(find_newest_prediction(folder, "rms_norm", "bf16", what).n == 1);
  predict_options blind;
  blind.memory_only = true;
  CHECK(predict(wanted, blind) == 2);  // another one, and no --supersede
  blind.supersede = true;
  CHECK(predict(wanted, blind) == 2);  // no reason
  CHECK(find_newest_prediction(folder, "rms_norm", "bf16", what).n == 1);
  blind.why = "to see what happens";
  CHECK(predict(wanted, blind) == 0);
  const newest_prediction second = find_newest_prediction(folder, "rms_norm", "bf16", what);
  CHECK(second.n == 2);
  CHECK(second.content.supersedes == first.digest);
  CHECK(second.content.model == "memory only");
}
