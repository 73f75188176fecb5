// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>

#include "autotune/check.hpp"
#include "autotune/freeze_group.hpp"
#include "autotune/emit.hpp"
#include "autotune/freeze_group.hpp"
#include "autotune/space.hpp"
#include "autotune/tune.hpp"
#include "core/fingerprint.hpp"
#include "tests/cpu/fake_op.hpp"

using namespace capstone::tests;
namespace fs = std::filesystem;

namespace {

// A tree with one frozen config of the fake op, its header and its table.
class tree {
 public:
  tree() {
    std::string path = (fs::temp_directory_path() / "capstone-check-XXXXXX").string();
    REQUIRE(mkdtemp(path.data()) != nullptr);
    root = path;
    write("include/fake.cuh", "int twice(int x) { return 2 * x; }\n");
    file.kernel = "fake+twice";
    file.source = source_fingerprint(root, "fake.cuh");
    file.axes = axes_fingerprint(fake_op());
    file.dtype = "f32";
    file.device = {"h200", "NVIDIA H200", "9.0", 132, 62914560, "580.1"};
    file.toolchain = {CAPSTONE_CUDA_VERSION, {"-std=c++20"}};
    cols_entry cols;
    cols.lo = cols.hi = 100;
    cols.reduction = {{"lanes", "64"}};
    cols.invariance_worst = 1;
    cols.invariance_at_rows = 64;
    rows_entry rows;
    rows.schedule = {{"tile_rows", "2"}, {"fault", "none"}};
    rows.measured_rows = 64;
    rows.evidence = {1, 1, 1, 40, 1.5, {}};
    cols.rows = {rows};
    file.cols = {cols};
  }
  ~tree() { fs::remove_all(root); }

  void write(const std::string& name, const std::string& text) {
    atomic_write(root + "/" + name, text);
  }
  void freeze(const std::string& place = "configs/h200/fake+twice.f32.yaml") {
    write(place, write_config(file));
    write_table(root, "fake", "");
  }
  // The one error that a check finds, or all of them where there are not one.
  std::string error() const {
    const auto found = check_tree(root, root);
    std::string all = std::to_string(found.errors.size()) + " errors";
    for (const auto& each : found.errors) all += "\n" + each;
    return found.errors.size() == 1 ? found.errors[0] : all;
  }

  registered_fake registered;
  std::string root;
  frozen_config file;
};

bool contains(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) MESSAGE(text);
  return found;
}

}  // namespace

TEST_CASE("check: a current tree passes") {
  tree t;
  t.freeze();
  const auto found = check_tree(t.root, t.root);
  CHECK(t.error() == "0 errors");
  CHECK(found.files == 1);
  CHECK(found.entries == 1);
  CHECK(found.warnings.empty());
}

TEST_CASE("check: a comment in the source is no change, a constant is; hashes and remedy") {
  tree t;
  t.freeze();
  t.write("include/fake.cuh", "int twice(int x) { return 2 * x; }  // a word\n");
  CHECK(t.error() == "0 errors");
  t.write("include/fake.cuh", "int twice(int x) { return 3 * x; }\n");
  const auto error = t.error();
  CHECK(contains(error, "configs/h200/fake+twice.f32.yaml: stale, the source of fake.cuh changed"));
  CHECK(contains(error, t.file.source));
  CHECK(contains(error, source_fingerprint(t.root, "fake.cuh")));
  CHECK(contains(error, "autotune --kernel fake+twice --dtype f32 --shape 64x100"));
}

TEST_CASE("check: other axes are stale") {
  tree t;
  t.freeze();
  registry().back().axes[0].values.push_back(512);
  CHECK(contains(t.error(), "stale, the axes or rules of fake changed"));
}

TEST_CASE("check: an axis that is not declared") {
  tree t;
  t.freeze();
  t.file.cols[0].rows[0].schedule.emplace_back("warps", "3");
  t.write("configs/h200/fake+twice.f32.yaml", write_config(t.file));
  CHECK(contains(t.error(), "cols 100, rows 64: schedule names axis warps (3)"));
}

TEST_CASE("check: a value off the axis, and a rule broken") {
  tree t;
  t.file.cols[0].reduction = {{"lanes", "96"}};
  t.freeze();
  CHECK(contains(t.error(), "lanes is 96, which the axis does not list"));
  t.file.cols[0].reduction = {{"lanes", "128"}};
  t.file.cols[0].rows[0].schedule[0].second = "4";
  t.freeze();
  CHECK(contains(t.error(), "breaks the rule 'a block has at most 256 threads'"));
}

TEST_CASE("check: a table edited by hand, and one that is missing") {
  tree t;
  t.freeze();
  const auto path = "include/capstone/tuned/fake.cuh";
  t.write(path, read_text(t.root + "/" + path) + "// better\n");
  CHECK(contains(t.error(), "fake.cuh: differs from what configs/ gives; make it again: autotune "
                            "emit --kernel fake"));
  fs::remove(t.root + "/" + path);
  CHECK(contains(t.error(), "is missing"));
}

TEST_CASE("check: a config in another device's folder, or under another kernel's name") {
  tree t;
  t.freeze("configs/sm80-108-40mb/fake+twice.f32.yaml");
  CHECK(contains(t.error(), "is for device h200 but lies in configs/sm80-108-40mb"));
  fs::remove_all(t.root + "/configs");
  t.freeze("configs/h200/fake.f32.yaml");
  CHECK(contains(t.error(), "expected the name fake+twice.f32.yaml"));
}

TEST_CASE("check: a device whose numbers are not its id's") {
  tree t;
  t.file.device.sms = 16;  // a slice of the GPU
  t.freeze();
  CHECK(contains(t.error(), "device.id is h200; expected sm90-16-60mb"));
}

TEST_CASE("check: a config of the host never lies in the source tree") {
  tree t;
  t.file.device = {"host", "host", "0.0", 0, 0, "host"};
  t.freeze("configs/host/fake+twice.f32.yaml");
  CHECK(contains(t.error(), "never kept here"));
}

TEST_CASE("check: a kernel that no spec declares, and text that is no config") {
  tree t;
  t.file.kernel = "other";
  t.write("configs/h200/other.f32.yaml", write_config(t.file));
  CHECK(contains(t.error(), "which no spec declares"));
  fs::remove_all(t.root + "/configs");
  t.write("configs/h200/fake+twice.f32.yaml", "schema: 1\n");
  CHECK(contains(t.error(), "fake+twice.f32.yaml:1: "));
}

TEST_CASE("check: another major version of the toolkit is a warning") {
  tree t;
  t.file.toolchain.cuda = "9.2";
  t.freeze();
  const auto found = check_tree(t.root, t.root);
  CHECK(found.errors.empty());
  REQUIRE(found.warnings.size() == 1);
  CHECK(contains(found.warnings[0], "tuned with CUDA 9.2"));
}
