// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// The pipeline end to end on the host, and the command line's exit codes.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "autotune/check.hpp"
#include "autotune/emit.hpp"
#include "autotune/tune.hpp"
#include "core/context.hpp"
#include "core/records.hpp"
#include "tests/skip.hpp"

using namespace capstone::tools;
namespace fs = std::filesystem;

namespace {

int exit_of(const std::string& arguments) {
  const auto program = fs::path(CAPSTONE_BINARY_DIR) / "bin/autotune";
  const auto command =
      "CUDA_VISIBLE_DEVICES= '" + program.string() + "' " + arguments + " >/dev/null 2>&1";
  const int code = std::system(command.c_str());
  return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
}

}  // namespace

TEST_CASE("autotune: tunes on the host, and what it freezes is current") {
  std::string out = (fs::temp_directory_path() / "capstone-tune-XXXXXX").string();
  REQUIRE(mkdtemp(out.data()) != nullptr);
  REQUIRE_FALSE(registry().empty());
  const auto& kernel = registry().front().kernels.front();
  tune_request request;
  request.kernels = {kernel.name()};
  request.dtype = kernel.dtype;
  request.devices = {"host"};
  request.program = (fs::path(CAPSTONE_BINARY_DIR) / "bin/autotune").string();
  request.out = request.scratch = out;
  request.jobs = 2;
  request.max_candidates = 2;
  problem at;
  for (const std::int64_t rows : {2, 7}) {
    at.shape = {rows, 64};
    request.problems.push_back(at);
  }
  CHECK(tune(request) == exit_ok);
  const auto files = read_configs(out, registry().front());
  REQUIRE(files.size() == 1);
  REQUIRE(files[0].second.cols.size() == 1);
  CHECK(files[0].second.cols[0].rows.size() == 2);
  CHECK(files[0].second.provenance.candidates.timed > 0);
  const auto found = check_tree(out, source_root());
  for (const auto& each : found.errors) MESSAGE(each);
  CHECK(found.errors.empty());
  CHECK(found.entries == 2);
  fs::remove_all(out);
}

TEST_CASE("autotune: exit codes of the command line") {
  if (!fs::exists(fs::path(CAPSTONE_BINARY_DIR) / "bin/autotune")) {
    CAPSTONE_SKIP("build/bin/autotune is not built");
  }
  CHECK(exit_of("--help") == exit_ok);
  CHECK(exit_of("space --shape 16x64") == exit_ok);
  CHECK(exit_of("--shape 16x64 --dry-run") == exit_ok);
  CHECK(exit_of("") == exit_usage);
  CHECK(exit_of("--shape 16by64") == exit_usage);
  CHECK(exit_of("--shape 16x64 --kernel no_such_kernel") == exit_usage);
  CHECK(exit_of("--shape 16x64 --budget soon") == exit_usage);
  CHECK(exit_of("--shape 16x64 --unknown") == exit_usage);
  CHECK(exit_of("--shape 16x64") == exit_no_device);
  CHECK(exit_of("verify") == exit_no_device);
  CHECK(exit_of("rerun") == exit_no_device);
  CHECK(exit_of("explain") == exit_usage);
  CHECK(exit_of("explain --shape 4096x4096") == exit_ok);
  CHECK(exit_of("explain --shape 4096x4097") == exit_no_candidate);
  CHECK(exit_of("explain --shape 4096x4096 --arch sm_80") == exit_no_candidate);
  const auto out = fs::temp_directory_path() / "capstone-budget";
  CHECK(exit_of("--shape 16x64 --device host --budget 0.001s --out '" + out.string() + "'") ==
        exit_partial);
  fs::remove_all(out);
}

TEST_CASE("autotune: a column count that the budget left, or that a killed shard never began, is missed") {
  if (!fs::exists(fs::path(CAPSTONE_BINARY_DIR) / "bin/autotune")) {
    CAPSTONE_SKIP("build/bin/autotune is not built");
  }
  std::string folder = (fs::temp_directory_path() / "capstone-merge-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const auto on = [&](const std::string& tree) { return " --out '" + folder + "/" + tree + "'"; };
  const auto tune = [&](const std::string& more, const std::string& tree) {
    return exit_of(more + " --dtype f32 --device host --simulate --max-candidates 1" + on(tree));
  };
  // One is finished, and the time is over before the other leaves a line in the journal.
  REQUIRE(tune("--shape 3x64", "budget") == exit_ok);
  CHECK(exit_of("merge" + on("budget")) == exit_ok);
  CHECK(tune("--shape 3x64,3x96 --resume --budget 0.001s", "budget") == exit_partial);
  CHECK(exit_of("merge" + on("budget")) == exit_partial);
  CHECK(tune("--shape 3x64,3x96 --resume", "budget") == exit_ok);
  CHECK(exit_of("merge" + on("budget")) == exit_ok);

  // Three shards of two column counts: the third has none, and that is known from its journal.
  const std::string what = "--shape 3x64,3x96 --shard ";
  REQUIRE(tune(what + "1/3", "shards") == exit_ok);
  REQUIRE(tune(what + "2/3", "shards") == exit_ok);
  CHECK(exit_of("merge" + on("shards")) == exit_partial);
  REQUIRE(tune(what + "3/3", "shards") == exit_ok);
  CHECK(exit_of("merge" + on("shards")) == exit_ok);
  // What kill -9 leaves of a shard that had just begun.
  const auto path = folder + "/shards/.autotune/host.rms_norm.f32.shard-2-of-3.jsonl";
  const auto text = read_text(path);
  const auto header = text.substr(0, text.find('\n') + 1);
  atomic_write(path, header);
  CHECK(exit_of("merge" + on("shards")) == exit_partial);
  // A journal of the schema before did not name them.
  auto older = nlohmann::json::parse(header);
  older["schema"] = "capstone-journal/1";
  older.erase("cols");
  atomic_write(path, older.dump() + text.substr(header.size() - 1));
  CHECK(exit_of("merge" + on("shards")) == exit_invalid);
  CHECK(tune(what + "2/3 --resume", "shards") == exit_invalid);
  CHECK(tune(what + "2/3", "shards") == exit_ok);
  CHECK(exit_of("merge" + on("shards")) == exit_ok);
  fs::remove_all(folder);
}

TEST_CASE("autotune: what is frozen passes verify and rerun, and an audit of the rules freezes nothing") {
  if (!fs::exists(fs::path(CAPSTONE_BINARY_DIR) / "bin/autotune")) {
    CAPSTONE_SKIP("build/bin/autotune is not built");
  }
  std::string folder = (fs::temp_directory_path() / "capstone-rerun-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  const auto on = [&](const std::string& tree) { return " --dtype f32 --device host --simulate --out '" + folder + "/" + tree + "'"; };
  REQUIRE(exit_of("--shape 3x64,40x64 --max-candidates 3" + on("a")) == exit_ok);
  REQUIRE(exit_of("--shape 3x64,40x64 --max-candidates 3 --seed 2" + on("b")) == exit_ok);
  CHECK(exit_of("verify" + on("a")) == exit_ok);
  CHECK(exit_of("rerun --against '" + folder + "/b'" + on("a")) == exit_ok);
  const auto record = nlohmann::json::parse(read_text(folder + "/a/.autotune/rerun.json"));
  CHECK(record.at("against").at("entries") == 2);
  CHECK(record.at("entries").size() == 2);
  CHECK(record.at("simulated") == true);

  // Other times than those on record, and a source that is not the one that was tuned.
  const auto path = folder + "/a/configs/host/rms_norm.f32.yaml";
  const auto text = read_text(path);
  auto drifted = read_config(path);
  drifted.cols[0].rows[1].evidence.vs_default *= 1.2;
  atomic_write(path, write_config(drifted));
  CHECK(exit_of("rerun" + on("a")) == exit_invalid);
  CHECK(exit_of("rerun --tolerance 0.5" + on("a")) == exit_ok);
  drifted.source.back() = drifted.source.back() == '0' ? '1' : '0';
  atomic_write(path, write_config(drifted));
  CHECK(exit_of("verify" + on("a")) == exit_invalid);

  CHECK(exit_of("--shape 40x64 --max-candidates 4 --no-prune 1" + on("audit")) == exit_ok);
  CHECK_FALSE(fs::exists(folder + "/audit/configs/host/rms_norm.f32.yaml"));
  const auto audit = nlohmann::json::parse(read_text(folder + "/audit/.autotune/tuning.json")).at("groups").at(0).at("audit");
  CHECK(audit.size() > 1);
  fs::remove_all(folder);
}
