// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Exit codes: 0 done, 1 the command line or a file is wrong, 2 refused or stale, 3 a check failed or a
// claim is refuted or invalid, 4 a claim is inconclusive, 5 no device.

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <new>

#include "claims/bench.hpp"
#include "claims/calibrate.hpp"
#include "claims/harness.hpp"
#include "claims/predict.hpp"
#include "claims/probe.hpp"
#include "claims/profile.hpp"
#include "claims/report.hpp"
#include "claims/select.hpp"
#include "claims/table.hpp"
#include "claims/timeline.hpp"
#include "claims/verify.hpp"

namespace {

namespace claims = capstone::claims;
namespace tools = capstone::tools;

void add_selection(CLI::App* command, claims::selection& wanted, std::vector<std::string>& plugins,
                   bool opens_device = true) {
  command->add_option("--kernel", wanted.kernels, "e.g. rms_norm+residual; several with commas")
      ->delimiter(',');
  command->add_option("--dtype", wanted.dtypes, "e.g. bf16,f16")->delimiter(',');
  auto* suite =
      command->add_option("--suite", wanted.suites, "llm, narrow, wide, odd, edge")->delimiter(',');
  command
      ->add_option("--shape", wanted.shapes, "e.g. 4096x8192 or 1:4096:x4x8192, in place of suites")
      ->excludes(suite);
  if (opens_device) command->add_option("--device", wanted.device, "a GPU's number, or host");
  command->add_option("--out", wanted.out,
                      "folder that holds evidence/ (default: the source tree; "
                      "for the host build/host)");
  command->add_option("--spec", plugins, "shared object with specs of your own");
  command->add_option("--seed", wanted.seed, "of the data and the order of rounds");
}

/// "600", "90s", "10m" or "1h" in seconds.
double seconds(const std::string& text) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double factor = unit.empty() || unit == "s" ? 1
                        : unit == "m"               ? 60
                        : unit == "h"               ? 3600
                                                    : -1;
  if (used == 0 || value < 0 || factor < 0)
    throw std::invalid_argument("budget is '" + text + "'; expected a time like 90s, 10m or 1h");
  return value * factor;
}

/// The device, or exit code 5 with a sentence.
tools::device open_or_exit(const std::string& request) {
  if (request != "host") {
    if (const std::string why = tools::why_no_gpu(); !why.empty()) {
      std::fprintf(stderr,
                   "claims: %s; the host runs the same pipeline as a self-test with "
                   "`--device host`\n",
                   why.c_str());
      std::exit(5);
    }
  }
  return tools::open_device(request);
}

int run(int argc, char** argv) {
  CLI::App app("Proves what is claimed about each kernel: correct, fast and understood.");
  app.footer("Exit codes: 0 done, 1 the command line or a file is wrong, 2 refused or stale, 3 a check failed "
             "or a claim is refuted or invalid, 4 a claim is inconclusive, 5 no device.");
  app.require_subcommand(1);
  claims::selection wanted;
  claims::bench_options options;
  std::vector<std::string> plugins;
  std::string budget, evidence, table_device, plan, folder;
  bool as_markdown = false, as_sentences = false;
  claims::predict_options foresee;
  claims::profile_options profiling;
  claims::calibrate_options ceilings;
  claims::timeline_options tracing;
  std::vector<int> calls;
  int launches = 5;

  const auto add_evidence = [&](CLI::App* command) {
    command->add_option("--evidence", evidence, "folder of records (default: evidence/ in the source tree)");
  };
  auto* verify = app.add_subcommand("verify", "compare every output with a float64 reference");
  add_selection(verify, wanted, plugins);
  verify->add_flag("--verbose", wanted.verbose, "a line per problem and output");
  auto* bench = app.add_subcommand("bench", "race what verify has passed against its baselines");
  add_selection(bench, wanted, plugins);
  bench->add_option("--rounds", options.rounds, "every arm once per round (default 40)")
      ->check(CLI::Range(2, 100000));
  bench->add_option("--budget", budget, "start nothing more after this long: 90s, 10m, 1h");
  auto* calibrate = app.add_subcommand("calibrate", "measure the GPU's ceilings, which predictions rest on");
  calibrate->add_option("--device", wanted.device, "a GPU's number");
  calibrate->add_option("--out", ceilings.out, "folder that holds evidence/ (default: the source tree)");
  calibrate->add_option("--seed", ceilings.seed, "of the data and the order of rounds");
  calibrate->add_option("--budget", budget, "start no floor and no profile after this long: 90s, 10m, 1h");
  auto* predict = app.add_subcommand("predict", "write what the profiler and the clock will say; no GPU");
  add_selection(predict, wanted, plugins, false);
  predict->add_option("--device", foresee.device, "id of a device with ceilings, e.g. h200");
  predict->add_flag("--supersede", foresee.supersede, "write a successor and keep the prediction before");
  predict->add_option("--why", foresee.why, "what was wrong with the one before");
  predict->add_flag("--memory-only", foresee.memory_only, "leave arithmetic out, to show what that does");
  auto* profile = app.add_subcommand("profile", "confirm or refute predictions by the counters (ncu) and the clock");
  add_selection(profile, wanted, plugins);
  profile->add_option("--launches", profiling.launches, "profiled calls of each problem (default 5)")->check(CLI::Range(5, 100));
  profile->add_flag("--unverified", profiling.unverified, "go on without `verify`; such a profile is INVALID");
  auto* timeline = app.add_subcommand("timeline", "when kernels and launches run, fused, unfused and in a graph");
  add_selection(timeline, wanted, plugins);
  timeline->add_option("--tracer", tracing.tracer, "auto: nsys where it gives a report, else CUPTI, and why (default); nsys; cupti")
      ->check(CLI::IsMember({"auto", "nsys", "cupti"}));
  auto* table = app.add_subcommand("table", "print every record as tab-separated values; no GPU");
  add_evidence(table);
  table->add_option("--device", table_device, "only this device's id, e.g. h200");
  auto* markdown = table->add_flag("--markdown", as_markdown, "a summary per kernel, losses first");
  table->add_flag("--sentences", as_sentences, "what the races support, in words")->excludes(markdown);
  auto* report = app.add_subcommand("report", "pages of all records, HTML and Markdown; no GPU");
  add_evidence(report);
  report->add_option("--out", folder, "where to write (default: report/ in the build folder)");
  auto* check = app.add_subcommand("check", "do all records read, agree with each other, and are they current? no GPU");
  add_evidence(check);
  // What the profiler and the tracer run: these are of no use by hand.
  auto* harness = app.add_subcommand("launch-for-profiler", "")->group("");
  add_selection(harness, wanted, plugins);
  harness->add_option("--launches", launches);
  auto* traced = app.add_subcommand("launch-for-tracer", "")->group("");
  add_selection(traced, wanted, plugins);
  traced->add_option("--calls", calls)->delimiter(',')->required();
  auto* probe = app.add_subcommand("probe", "")->group("");
  probe->add_option("--device", wanted.device);
  probe->add_option("--plan", plan)->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 1;
  }

  if (evidence.empty()) evidence = tools::source_root() + "/evidence";
  if (*table)
    return claims::table(evidence, table_device,
                         as_markdown    ? claims::table_form::markdown
                         : as_sentences ? claims::table_form::sentences
                                        : claims::table_form::tsv);
  if (*check) return claims::check(tools::source_root(), evidence);
  if (*report) return claims::report(evidence, folder);
  for (const std::string& path : plugins) tools::load_plugin(path);
  if (*probe) return claims::probe(open_or_exit(wanted.device), plan);
  if (*calibrate && !budget.empty()) ceilings.budget_s = seconds(budget);
  if (*calibrate) return claims::calibrate(ceilings, open_or_exit(wanted.device));
  if (*verify) return claims::verify(wanted, open_or_exit(wanted.device));
  if (*harness) return claims::harness(wanted, open_or_exit(wanted.device), launches);
  if (*traced) return claims::launch_for_tracer(wanted, open_or_exit(wanted.device), calls);
  wanted.tuned_only = true;
  wanted.default_suites = {"llm", "narrow"};
  if (*predict) return claims::predict(wanted, foresee);
  const tools::device where = open_or_exit(wanted.device);
  if (*profile) {
    profiling.plugins = plugins;
    return claims::profile(wanted, profiling, where);
  }
  if (*timeline) {
    tracing.plugins = plugins;
    return claims::timeline(wanted, tracing, where);
  }
  if (!budget.empty()) options.budget_s = seconds(budget);
  return claims::bench(wanted, where, options);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "claims: out of memory on the device or the host\n");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "claims: %s\n", error.what());
  }
  return 1;
}
