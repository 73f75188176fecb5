// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// The pipeline end to end on the host, and the command line's exit codes.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <filesystem>

#include "autotune/check.hpp"
#include "autotune/emit.hpp"
#include "autotune/tune.hpp"
#include "core/context.hpp"
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
  const auto out = fs::temp_directory_path() / "capstone-budget";
  CHECK(exit_of("--shape 16x64 --device host --budget 0.001s --out '" + out.string() + "'") ==
        exit_partial);
  fs::remove_all(out);
}
