// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// `claims predict` on all that is predicted by default, and again after the ceilings have changed.

#include "claims/predict.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "claims/check_understood.hpp"
#include "claims/profile_rows.hpp"
#include "core/disassembler.hpp"
#include "tests/cpu/faulty_scale.hpp"
#include "tests/skip.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;
namespace fs = std::filesystem;

namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

/// Path and bytes of every prediction.
std::map<std::string, std::string> files_below(const std::string& folder) {
  std::map<std::string, std::string> found;
  std::error_code none;
  for (const auto& file : fs::recursive_directory_iterator(folder + "/predictions", none))
    if (file.is_regular_file()) found[fs::relative(file.path(), folder).string()] = capstone::tools::read_text(file.path().string());
  return found;
}

struct predicted_tree {
  scratch_tree tree{"predict"};
  std::string folder = tree.str() + "/evidence/h200", ceilings_file = folder + "/ceilings.yaml";
  selection wanted;
  predict_options options;

  predicted_tree() {
    fs::create_directories(folder);
    fs::copy(std::string(CAPSTONE_SOURCE_DIR) + "/evidence/h200/ceilings.yaml", ceilings_file);
    wanted.out = tree.str();
    wanted.tuned_only = true;  // as the command line does
    wanted.default_suites = {"llm", "narrow"};
  }
  /// Another measurement of one number of the ceilings that every prediction rests on.
  void change_ceilings() const {
    fs::create_directories(folder + "/ceilings");
    fs::copy(ceilings_file, folder + "/ceilings/first.yaml");
    ceilings c = read_ceilings(ceilings_file);
    c.chain_reduce_us *= 1.5;
    capstone::tools::atomic_write(ceilings_file, write_ceilings(c));
  }
};

}  // namespace

#define NEEDS_CUOBJDUMP() \
  if (capstone::tools::find_disassembler({"cuobjdump"}).empty()) CAPSTONE_SKIP("no cuobjdump; tools/install-deps brings it")

TEST_CASE("predict: all tuned kernels on the suites llm and narrow, and the same again is unchanged") {
  NEEDS_CUOBJDUMP();
  predicted_tree t;
  CHECK(predict(t.wanted, t.options) == 0);
  const auto first = files_below(t.folder);
  CHECK(first.size() == 26);
  const std::string digest = file_digest(t.ceilings_file);
  for (const auto& [path, text] : first) {
    CAPTURE(path);
    const prediction p = parse_prediction(text, path);
    CHECK(path == prediction_path(p.kernel, p.dtype, p.what, 1));
    CHECK(p.ceilings == digest);
    CHECK(p.supersedes == "");
    CHECK(p.prior_profiles == 0);
    CHECK(p.model == "full");
    CHECK(p.launch.registers > 0);
    CHECK(p.physics_us < p.low_us);
    CHECK(why_cannot_fail(p) == "");
  }
  CHECK(predict(t.wanted, t.options) == 0);
  CHECK(files_below(t.folder) == first);  // byte for byte, with their dates
  // What was written passes the check against the sources that this program was built from.
  for (const std::string& problem : check_understood(CAPSTONE_SOURCE_DIR, t.tree.str() + "/evidence").problems) FAIL_CHECK(problem);
}

TEST_CASE("predict: where the ceilings have changed, only a successor with a reason is written") {
  NEEDS_CUOBJDUMP();
  predicted_tree t;
  t.wanted.kernels = {"rms_norm"};
  t.wanted.dtypes = {"bf16"};
  t.wanted.shapes = {"64x4096,16384x4096"};
  REQUIRE(predict(t.wanted, t.options) == 0);
  const auto first = files_below(t.folder);
  REQUIRE(first.size() == 2);
  t.change_ceilings();
  CHECK(predict(t.wanted, t.options) == 2);
  CHECK(files_below(t.folder) == first);
  t.options.supersede = true;
  CHECK(predict(t.wanted, t.options) == 2);  // no reason
  CHECK(files_below(t.folder) == first);
  t.options.why = "the reduction was measured again";
  CHECK(predict(t.wanted, t.options) == 0);
  const auto both = files_below(t.folder);
  CHECK(both.size() == 4);
  for (const auto& [path, text] : first) {
    CAPTURE(path);
    REQUIRE(both.count(path) == 1);
    CHECK(both.at(path) == text);  // kept as it was
    const std::string next = replaced(path, ".1.yaml", ".2.yaml");
    REQUIRE(both.count(next) == 1);
    const prediction p = parse_prediction(both.at(next), next);
    CHECK(p.supersedes == file_digest(t.folder + "/" + path));
    CHECK(p.why == t.options.why);
    CHECK(p.ceilings == file_digest(t.ceilings_file));
  }
  // A successor that says the same as the one before is none.
  CHECK(predict(t.wanted, t.options) == 0);
  CHECK(files_below(t.folder) == both);
  for (const std::string& problem : check_understood(CAPSTONE_SOURCE_DIR, t.tree.str() + "/evidence").problems) FAIL_CHECK(problem);
}

TEST_CASE("predict: a problem without elements is refused, and the others are predicted") {
  NEEDS_CUOBJDUMP();
  predicted_tree t;
  t.wanted.kernels = {"rms_norm"};
  t.wanted.dtypes = {"bf16"};
  t.wanted.shapes = {"0x4096,64x4096"};
  CHECK(predict(t.wanted, t.options) == 2);
  const auto files = files_below(t.folder);
  REQUIRE(files.size() == 1);
  CHECK(files.begin()->first == "predictions/rms_norm.bf16/rows=64,cols=4096.1.yaml");
}

TEST_CASE("predict: without ceilings, or without counters in them, a sentence says what to run") {
  predicted_tree t;
  t.options.device = "b200";
  CHECK_THROWS_WITH_AS(predict(t.wanted, t.options), doctest::Contains("device is 'b200'"), std::invalid_argument);
  fs::remove(t.ceilings_file);
  for (const char* device : {"", "h200"}) {
    t.options.device = device;
    CHECK_THROWS_WITH_AS(predict(t.wanted, t.options), doctest::Contains("claims calibrate"), std::invalid_argument);
  }
  CHECK(files_below(t.folder).empty());
}

TEST_CASE("predict: ceilings whose counters could not be read predict nothing") {
  NEEDS_CUOBJDUMP();
  predicted_tree t;
  ceilings c = read_ceilings(t.ceilings_file);
  c.counters.reset();
  c.why_no_counters = "the driver gives its counters to administrators alone";
  capstone::tools::atomic_write(t.ceilings_file, write_ceilings(c));
  t.wanted.kernels = {"rms_norm"};
  t.wanted.dtypes = {"bf16"};
  t.wanted.shapes = {"64x4096"};
  CHECK(predict(t.wanted, t.options) == 2);
  CHECK(files_below(t.folder).empty());
}
