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
    for (const rival_story& r : p.rivals) CHECK_MESSAGE(!r.excluded_by.empty(), r.name);
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

TEST_CASE("model: blocks that fit an SM") {
  CHECK(blocks_per_sm(90, 40, 256, 264) == 6);
  CHECK(blocks_per_sm(90, 32, 1024, 0) == 2);
  CHECK(blocks_per_sm(90, 255, 256, 0) == 1);
  CHECK(blocks_per_sm(90, 32, 64, 0) == 32);
  CHECK(blocks_per_sm(90, 32, 256, 100 * 1024) == 2);
  CHECK(blocks_per_sm(120, 32, 256, 0) == 6);
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
