// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The command line of `autotune`.

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "autotune/check.hpp"
#include "autotune/compile.hpp"
#include "autotune/emit.hpp"
#include "autotune/explain.hpp"
#include "autotune/freeze_group.hpp"
#include "autotune/inspect.hpp"
#include "autotune/rerun.hpp"
#include "autotune/restamp.hpp"
#include "autotune/session.hpp"
#include "autotune/space.hpp"
#include "autotune/tune.hpp"
#include "autotune/worker.hpp"
#include "core/context.hpp"
#include "core/shapes.hpp"

namespace capstone::tools {
namespace {

constexpr const char* footer =
    "Exit codes: 0 done; 1 usage; 2 a config that is stale, invalid, wrong or drifted, or a spill; 3 no\n"
    "valid candidate, or no entry to explain; 4 partial: a signal or the budget ended it before every column\n"
    "count had its turn, or one is missing in a merge (--resume goes on); 5 no usable GPU, or it failed;\n"
    "6 somebody else tunes on the GPU.\n"
    "What becomes of a candidate: ok, untried, pruned, compile_error, compile_timeout, spilled, wrong,\n"
    "nondeterministic, crash, timeout, out_of_memory, launch_error, implausible.";

struct options {
  std::vector<std::string> kernels, suites, plugins;
  std::vector<std::string> devices;
  std::string shapes, dtype, budget, out, table, arch, from, part, against, candidate_timeout = "20s";
  double tolerance = 0.05;
  std::uint64_t seed = 1;
  std::size_t audit = 0;
  int jobs = 0, max_candidates = -1, require_width = 0;
  bool dry_run = false, defaults = false, resume = false, json = false, simulated = false;
  bool on_host() const { return std::count(devices.begin(), devices.end(), "host") > 0; }
};

int parse_arch(const std::string& text) {
  const std::string digits = text.starts_with("sm_") ? text.substr(3) : text;
  if (digits.empty() || digits.size() > 3 ||
      digits.find_first_not_of("0123456789") != std::string::npos) {
    throw std::invalid_argument("arch is '" + text + "'; expected one like sm_90");
  }
  return std::stoi(digits);
}

std::chrono::milliseconds parse_time(const char* option, const std::string& text) {
  if (text.empty()) return {};
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const auto unit = text.substr(used);
  const double scale = unit == "s" ? 1e3 : unit == "m" ? 6e4 : unit == "h" ? 36e5 : 0;
  if (used == 0 || scale == 0 || !(value > 0) || value > 1e6) {
    throw std::invalid_argument(std::string(option) + " is '" + text + "'; expected a time like 45s, 10m or 1h");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(value * scale));
}

shard parse_shard(const std::string& text) {
  shard found;
  char rest = 0;
  if (text.empty()) return found;
  if (std::sscanf(text.c_str(), "%d/%d%c", &found.index, &found.count, &rest) != 2 || found.count < 1 || found.index < 1 ||
      found.index > found.count) {
    throw std::invalid_argument("shard is '" + text + "'; expected I/N with I from 1 to N, 2/4 say");
  }
  return found;
}

// The kernel's and dtype's defaults come from what is registered: the tools know no kernel.
void fill_in(options& given) {
  if (registry().empty()) {
    throw std::invalid_argument("no spec is registered; load one with --spec");
  }
  if (given.kernels.empty()) {
    given.kernels = {registry().front().kernels.front().name()};
    std::printf("--kernel %s (default)\n", given.kernels[0].c_str());
  }
  if (given.dtype.empty()) {
    std::vector<std::string> known;
    for (const auto& of : registry()) {
      for (const auto& kernel : of.kernels) {
        if (kernel.name() == given.kernels[0]) known.push_back(kernel.dtype);
      }
    }
    const bool has_bf16 = std::find(known.begin(), known.end(), "bf16") != known.end();
    given.dtype = has_bf16 || known.empty() ? "bf16" : known.front();
    std::printf("--dtype %s (default)\n", given.dtype.c_str());
  }
}

std::vector<problem> problems_of(const options& given) {
  const auto* of = find_kernel(given.kernels.front(), given.dtype).first;
  std::vector<problem> problems;
  for (const auto& name : given.suites) {
    const auto& suite = of->suite(name);
    problems.insert(problems.end(), suite.begin(), suite.end());
  }
  if (!given.shapes.empty()) {
    for (auto& shape : parse_shapes(given.shapes, of->dims.size())) {
      problem at;
      at.shape = std::move(shape);
      problems.push_back(std::move(at));
    }
  }
  if (problems.empty()) {
    throw std::invalid_argument("there is nothing to tune; name shapes, --shape 4096x4096 say, or "
                                "a suite with --suite");
  }
  return problems;
}

/// A table of one's own never goes into the tree of the shipped ones, whose configs it would mix with.
void check_table(const options& given) {
  if (given.table.empty()) return;
  const bool named = !std::isdigit(static_cast<unsigned char>(given.table[0])) &&
                     std::all_of(given.table.begin(), given.table.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  if (!named) throw std::invalid_argument("table is '" + given.table + "'; expected the name of a C++ struct");
  std::error_code ignored;
  if (given.out.empty() || std::filesystem::equivalent(given.out, source_root(), ignored)) {
    throw std::invalid_argument("--table " + given.table + " needs --out FOLDER, a folder of your own: it gets the "
                                "table and the configs/ it is made from");
  }
}

int run_tune(options& given) {
  fill_in(given);
  check_table(given);
  const bool on_host = given.on_host();
  tune_request request;
  request.problems = problems_of(given);
  request.kernels = given.kernels;
  request.dtype = given.dtype;
  request.devices = given.devices.empty() ? std::vector<std::string>{""} : given.devices;
  request.part = parse_shard(given.part);
  request.resume = given.resume;
  request.simulated = given.simulated;
  if (given.simulated && !on_host) {
    throw std::invalid_argument("--simulate makes times up from the configs' names, as a self-test; expected --device host with it");
  }
  request.candidate_timeout = parse_time("candidate-timeout", given.candidate_timeout);
  request.plugins = given.plugins;
  request.out = !given.out.empty() ? given.out
                : on_host ? (std::filesystem::path(CAPSTONE_BINARY_DIR) / "host").string()
                          : source_root();
  std::error_code ignored;
  if (on_host && std::filesystem::equivalent(request.out, source_root(), ignored)) {
    throw std::invalid_argument("--out is the source tree, where configs of the host never go; "
                                "expected another folder, or none for build/host");
  }
  request.table = given.table;
  request.scratch = (std::filesystem::path(request.out) / ".autotune").string();
  request.budget = parse_time("budget", given.budget);
  request.seed = given.seed;
  request.jobs = given.jobs;
  // Host candidates take a C++ compiler most of a second each, and prove the pipeline just as well
  // by the dozen.
  request.max_candidates = given.max_candidates >= 0 ? given.max_candidates : on_host ? 12 : 0;
  request.audit = given.audit;
  request.dry_run = given.dry_run;
  return tune(request);
}

int run_space(options& given) {
  fill_in(given);
  const auto limits = given.on_host() ? device_limits{}
                                             : limits_of_arch(parse_arch(given.arch));
  for (const auto& name : given.kernels) {
    const auto [of, kernel] = find_kernel(name, given.dtype);
    for (const auto& each : of->axes) {
      std::string values;
      for (const int value : each.values) values += " " + each.value_token(value);
      std::printf("%s %s:%s\n", each.belongs == part::reduction ? "reduction" : "schedule ",
                  each.name.c_str(), values.c_str());
    }
    for (const auto& at : problems_of(given)) {
      const auto made = make_space(*of, *kernel, at, limits);
      std::printf("%s %s %s: %zu declared, %zu left\n", name.c_str(), given.dtype.c_str(),
                  format_shape(at.shape).c_str(), made.declared, made.candidates.size());
      for (const auto& [reason, count] : made.pruned) {
        if (count > 0) std::printf("  %6zu pruned: %s\n", count, reason.c_str());
      }
    }
  }
  return exit_ok;
}

int run_check(const options& given) {
  const auto tree = given.out.empty() ? source_root() : given.out;
  const auto found = check_tree(tree, source_root());
  for (const auto& text : found.warnings) std::printf("warning: %s\n", text.c_str());
  for (const auto& text : found.errors) std::printf("error: %s\n", text.c_str());
  std::printf("%zu config files with %zu entries: %zu errors, %zu warnings\n", found.files,
              found.entries, found.errors.size(), found.warnings.size());
  return found.errors.empty() ? exit_ok : exit_invalid;
}

int run_emit(const options& given) {
  const auto tree = given.out.empty() ? source_root() : given.out;
  for (const auto& of : registry()) {
    const bool wanted = given.kernels.empty()
                            ? !read_configs(tree, of).empty()
                            : std::any_of(given.kernels.begin(), given.kernels.end(),
                                          [&](const auto& name) { return belongs_to(of, name); });
    if (wanted) std::printf("wrote %s\n", write_table(tree, of.name, given.table).c_str());
  }
  return exit_ok;
}

int run_inspect(const options& given) {
  inspect_request request;
  request.tree = given.out.empty() ? source_root() : given.out;
  if (!given.arch.empty()) request.archs.push_back(parse_arch(given.arch));
  request.defaults = given.defaults;
  request.require_width = given.require_width;
  request.jobs = given.jobs;
  return inspect(request);
}

int run_explain(options& given) {
  fill_in(given);
  device where;
  if (given.on_host()) {
    where = open_device("host");
  } else if (given.arch.empty() && why_no_gpu().empty()) {
    where = open_device(given.devices.empty() ? "" : given.devices[0]);
  } else {
    const int cc = parse_arch(given.arch.empty() ? "sm_90" : given.arch);
    where.name = "sm_" + std::to_string(cc) + ", assumed: no GPU is asked", where.limits = limits_of_arch(cc), where.ordinal = 0;
  }
  bool all = true;
  for (const auto& name : given.kernels) {
    const auto [of, kernel] = find_kernel(name, given.dtype);
    for (const auto& at : problems_of(given)) {
      all = explain(given.out.empty() ? source_root() : given.out, *of, *kernel, at, where) && all;
    }
  }
  return all ? exit_ok : exit_no_candidate;
}

int run_again(const options& given, int (*run)(const rerun_request&)) {
  if (const auto no_gpu = given.on_host() ? "" : why_no_gpu(); !no_gpu.empty()) {
    std::fprintf(stderr, "autotune: %s; `autotune check` needs no GPU\n", no_gpu.c_str());
    return exit_no_device;
  }
  rerun_request request;
  const auto home = given.on_host() ? (std::filesystem::path(CAPSTONE_BINARY_DIR) / "host").string() : source_root();
  request.tree = request.out = given.out.empty() ? home : given.out;
  request.against = given.against;
  request.kernels = given.kernels;
  request.dtype = given.dtype;
  if (!given.shapes.empty() || !given.suites.empty()) {
    auto named = given;
    fill_in(named);
    request.problems = problems_of(named);
  }
  request.device = given.devices.empty() ? "" : given.devices[0];
  request.how.plugins = given.plugins;
  request.how.seed = given.seed;
  request.how.simulated = given.simulated;
  request.how.candidate_timeout = parse_time("candidate-timeout", given.candidate_timeout);
  request.jobs = given.jobs;
  request.tolerance = given.tolerance;
  return run(request);
}

void add_what(CLI::App& to, options& given) {
  to.add_option("--kernel", given.kernels, "kernels, NAME[,NAME]; default: the first one")
      ->delimiter(',')
      ->allow_extra_args(false);
  to.add_option("--dtype", given.dtype, "a dtype of the kernel's; default bf16");
  to.add_option("--shape", given.shapes, "4096x4096[,16x8192,1:64:x4x4096]");
  to.add_option("--suite", given.suites, "the spec's lists of shapes, NAME[,NAME]")
      ->delimiter(',')
      ->allow_extra_args(false);
  to.add_option("--device,--devices", given.devices, "GPUs' numbers, 0[,1], or host; default 0")
      ->delimiter(',')
      ->allow_extra_args(false);
}

int run(int argc, char** argv) {
  options given;
  CLI::App app{"Finds the fastest correct config of a kernel for each shape and freezes it.",
               "autotune"};
  app.footer(footer);
  app.require_subcommand(0, 1);
  app.fallthrough();
  // One value an option, or it would swallow the subcommand behind it.
  app.add_option("--spec", given.plugins, "a shared object that registers a spec of your own")
      ->allow_extra_args(false);
  app.add_option("--out", given.out, "tree with configs/ and tables; default: the source tree");
  app.add_option("--jobs", given.jobs, "compiler threads; default: all the machine has");
  add_what(app, given);
  app.add_option("--budget", given.budget, "time for all of it, 45s or 10m; default: no limit");
  app.add_option("--candidate-timeout", given.candidate_timeout, "of one check of one candidate; default 20s");
  app.add_flag("--resume", given.resume, "go on from the journal in OUT/.autotune/");
  app.add_option("--shard", given.part, "I/N: only this part, and freeze nothing; then `autotune merge`");
  app.add_flag("--json", given.json, "the journal's lines on stdout, everything else on stderr");
  app.add_flag("--simulate", given.simulated, "times made up from the configs' names: tests what follows, on the host");
  app.add_option("--seed", given.seed, "of data and order; default 1");
  app.add_option("--table", given.table, "write a table of your own, struct NAME in OUT/NAME.cuh, made from OUT/configs/");
  app.add_option("--max-candidates", given.max_candidates,
                 "per column count, 0: no limit; default 0, on the host 12");
  app.add_option("--no-prune", given.audit,
                 "try this many configs that a rule alone prunes, a rule and shape, and say whether one would have won");
  app.add_flag("--dry-run", given.dry_run, "say what would be compiled and timed");

  auto* space = app.add_subcommand("space", "print axes and what the rules prune (no GPU needed)");
  add_what(*space, given);
  space->add_option("--arch", given.arch, "the GPU's kind; default sm_90");
  auto* check = app.add_subcommand("check", "are configs and tables valid and current? (no GPU)");
  auto* emit = app.add_subcommand("emit", "make the tables from the configs again (no GPU)");
  emit->add_option("--kernel", given.kernels, "only of these")
      ->delimiter(',')
      ->allow_extra_args(false);
  emit->add_option("--table", given.table, "write a table of your own, OUT/NAME.cuh");
  auto* merged = app.add_subcommand("merge", "freeze what the shards' journals in OUT/.autotune/ hold (no GPU)");
  auto* inspect = app.add_subcommand(
      "inspect", "compile the frozen configs; registers, spills, access widths (no GPU)");
  inspect->add_option("--arch", given.arch, "compile for it; default: each config's own");
  inspect->add_flag("--defaults", given.defaults,
                    "also the untuned kernels, for sm_80, sm_90, sm_100 and sm_120");
  inspect->add_option("--require-width", given.require_width,
                      "fail unless aligned kernels load this many bytes at once");
  auto* explained = app.add_subcommand("explain", "which frozen entry serves --shape, and why, or why none (no GPU needed)");
  add_what(*explained, given);
  explained->add_option("--arch", given.arch, "a GPU's kind; default: the GPU that is here, else sm_90");
  auto* verified = app.add_subcommand("verify", "run the frozen configs through the gate, on a GPU");
  add_what(*verified, given);
  auto* reruns = app.add_subcommand("rerun", "race the frozen configs again: what drifted (GPU)");
  add_what(*reruns, given);
  reruns->add_option("--against", given.against, "another tree with configs/, whose choices race along");
  reruns->add_option("--tolerance", given.tolerance, "what counts as drift; default 0.05")->check(CLI::Range(0.001, 1.0));
  auto* restamped = app.add_subcommand(
      "restamp", "keep configs whose source changed but not their machine code (no GPU)");
  restamped->add_option("--from", given.from, "the source tree they were tuned with")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? exit_ok : exit_usage;
  }
  for (const auto& path : given.plugins) load_plugin(path);
  if (given.jobs <= 0) {
    given.jobs = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  }
  if (given.arch.empty() && space->parsed()) given.arch = "sm_90";
  if (given.json) print_json_lines();
  if (space->parsed()) return run_space(given);
  if (merged->parsed()) return merge_journals(given.out.empty() ? source_root() : given.out, given.table);
  if (explained->parsed()) return run_explain(given);
  if (verified->parsed()) return run_again(given, verify_frozen);
  if (reruns->parsed()) return run_again(given, rerun);
  if (check->parsed()) return run_check(given);
  if (emit->parsed()) return run_emit(given);
  if (inspect->parsed()) return run_inspect(given);
  if (restamped->parsed()) {
    return restamp(given.out.empty() ? source_root() : given.out, source_root(), given.from, given.jobs);
  }
  return run_tune(given);
}

}  // namespace
}  // namespace capstone::tools

int main(int argc, char** argv) {
  using namespace capstone::tools;
  if (argc > 1 && std::string(argv[1]) == "compiler") {  // not a user's: compile_all calls it
    return serve_compiler({argv + 2, argv + argc});
  }
  if (argc > 1 && std::string(argv[1]) == "worker") {  // nor this one: worker_session does
    try {
      return serve_worker({argv + 2, argv + argc});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "autotune worker: %s\n", error.what());
      return exit_no_device;
    }
  }
  stop_on_signals();
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);  // whole lines, in order with the progress
  const auto fail = [](const std::exception& error, int code) {
    std::fprintf(stderr, "autotune: %s\n", error.what());
    return code;
  };
  try {
    return run(argc, argv);
  } catch (const record_error& error) {
    return fail(error, exit_invalid);
  } catch (const device_failed& error) {
    return fail(error, exit_no_device);
  } catch (const device_busy& error) {
    return fail(error, exit_busy);
  } catch (const stopped& error) {
    return fail(error, exit_partial);
  } catch (const std::exception& error) {
    return fail(error, exit_usage);
  }
}
