// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/profile.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>

#include "claims/bench.hpp"
#include "claims/metrics.hpp"
#include "claims/ncu.hpp"
#include "claims/profile_rows.hpp"
#include "claims/race.hpp"
#include "core/fingerprint.hpp"
#include "core/marker.hpp"

namespace capstone::claims {
namespace fs = std::filesystem;
namespace {

constexpr int fewest_launches = 5;
constexpr double warm_up_ms = 100;

/// One problem to profile, and what was predicted of it.
struct target {
  const op* of = nullptr;
  const kernel_spec* kernel = nullptr;
  problem what;
  prediction_key key;
  newest_prediction predicted;
  std::string unverified;  ///< "" or why it was not verified
};

std::string ceilings_digest(const std::string& folder) {
  const std::string path = folder + "/ceilings.yaml";
  return fs::exists(path) ? file_digest(path) : "none (" + path + " is missing)";
}

/// "" or why this problem may not be profiled.
std::string why_refused(const target& t, const profile_options& options) {
  const traffic_model traffic = t.kernel->traffic(t.what);
  if (traffic.read_bytes + traffic.written_bytes == 0)
    return name_of(t.key) + " has no elements; expected some to work on";
  if (t.what.in_place)
    return name_of(t.key) +
           " writes over its inputs, so its launches would differ; expected outputs apart";
  if (const std::string why = why_not_predicted(t.predicted, t.key); !why.empty()) return why;
  return options.unverified ? "" : t.unverified;
}

/// The problems of the selection; what may not be profiled is named on standard error and counted.
std::vector<target> targets_of(const selection& wanted, const profile_options& options,
                               const device& where, const std::string& out,
                               const std::string& binary, int& refused) {
  const std::string folder = out + "/evidence/" + where.id, root = source_root(),
                    ceilings = ceilings_digest(folder);
  std::vector<target> targets;
  for (const chosen& c : choose(wanted, where)) {
    const std::string source = source_fingerprint(root, c.of->header);
    for (const suite_problem& item : c.problems) {
      target t{c.of, c.kernel, item.what, {}, {}, ""};
      const choice_info choice =
          c.kernel->choice(item.what, fake_pointers(c.kernel->buffers(item.what)), where.limits);
      t.key = {where.id,
               c.kernel->name(),
               c.kernel->dtype,
               id_of(*c.of, item.what),
               tokens_of(*c.of, choice.values),
               source,
               ceilings};
      t.predicted = find_newest_prediction(folder, t.key.kernel, t.key.dtype, t.key.what);
      t.unverified =
          why_unverified(out, where.id, *c.of, *c.kernel, item.what, t.key.config, binary);
      if (const std::string why = why_refused(t, options); !why.empty()) {
        std::fprintf(stderr, "claims profile refuses: %s\n", why.c_str());
        ++refused;
      }
      targets.push_back(std::move(t));
    }
  }
  return targets;
}

// ---- The profiler
// ---------------------------------------------------------------------------------

std::string text_of_file(const std::string& path) {  // of /proc, whose files have no size
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

bool has_sys_admin() {
  constexpr int cap_sys_admin = 21;
  std::istringstream status(text_of_file("/proc/self/status"));
  std::uint64_t held = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("CapEff:")) std::istringstream(line.substr(7)) >> std::hex >> held;
  return (held >> cap_sys_admin & 1) != 0;
}

/// What nvidia-smi says of this GPU, or "" where it cannot be asked.
std::string smi(const device& where, const std::string& query) {
  if (!where.uuid.starts_with("GPU-")) return "";
  FILE* pipe = popen(("nvidia-smi -i " + where.uuid + " --query-gpu=" + query +
                      " --format=csv,noheader 2>/dev/null")
                         .c_str(),
                     "r");
  if (pipe == nullptr) return "";
  std::array<char, 256> line = {};
  const bool any = std::fgets(line.data(), line.size(), pipe) != nullptr;
  return pclose(pipe) == 0 && any ? line.data() : "";
}

/// "" or why the profiler would fail here. What this cannot tell is left to the profiler itself.
std::string why_no_counters(const device& where) {
  if (const std::string why = why_counters_denied(text_of_file("/proc/driver/nvidia/params"),
                                                  geteuid() == 0 || has_sys_admin());
      !why.empty())
    return why;
  if (smi(where, "mig.mode.current").starts_with("Enabled"))
    return "the GPU is split (MIG), and the counters of what its parts share cannot be read; turn "
           "it off with `nvidia-smi -mig 0`, or profile on a whole GPU";
  return "";
}

/// A text as a record keeps it: paths below `folder` from there on.
std::string without_folder(std::string text, const std::string& folder) {
  const std::string prefix = folder + "/";
  for (auto at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
    text.erase(at, prefix.size());
  return text;
}

/// The command line as a record keeps it: no folder of the machine it ran on.
std::string command_text(const std::vector<std::string>& arguments, const std::string& folder) {
  std::string text;
  for (const std::string& argument : arguments) {
    std::string word = without_folder(argument, folder);
    if (word.starts_with('/')) word = fs::path(word).filename().string();
    text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

/// Both runs of the profiler over all problems.
class profiler {
 public:
  profiler(const selection& wanted, const profile_options& options, const device& where,
           const std::string& session)
      : wanted_(wanted),
        options_(options),
        where_(where),
        folder_((fs::read_symlink("/proc/self/exe").parent_path().parent_path() / "profile" / session).string()) {}

  const std::string& folder() const { return folder_; }

  /// "" or why no counter was read, with a remedy.
  std::string start(profile_record& record) {
    if (const std::string why = why_no_counters(where_); !why.empty()) return why;
    try {
      std::vector<std::string> asked = core_metrics(where_.limits.cc);
      for (const std::string& metric : pipes_metrics(where_.limits.cc)) asked.push_back(metric);
      tool_ = find_ncu_for(asked, where_.limits.cc);
    } catch (const ncu_error& error) {
      return sentence(error);
    }
    record.ncu = tool_.version;
    return "";
  }

  /// A run of the profiler told apart by its markers, or nothing after putting a fault on every
  /// problem.
  std::optional<told_run> run(const std::string& name, const std::vector<std::string>& metrics,
                              const std::vector<std::string>& names, std::size_t problems,
                              profile_record& record) {
    ncu_run wanted;
    wanted.folder = folder_;
    wanted.name = name;
    wanted.metrics = metrics;
    wanted.program = this_program_again({"launch-for-profiler", "--launches", std::to_string(options_.launches)}, wanted_,
                                        options_.plugins, where_);
    // A launch is saved and restored for every pass, and the caches are emptied: some 50 ms where
    // it is large.
    wanted.timeout_s = 60 + 0.6 * static_cast<double>(problems) * options_.launches;
    const auto blame = [&](const char* kind, const std::string& why) {
      for (profiled& p : record.problems) p.faults.push_back({kind, name + " metrics: " + why});
    };
    told_run told;
    try {
      fs::create_directories(folder_);
      told.result = run_ncu(tool_, wanted);
    } catch (const ncu_error& error) {
      blame("INCONCLUSIVE", without_folder(sentence(error), folder_));
      return {};
    }
    record.options.push_back(command_text(told.result.arguments, folder_));
    told.result.table.metrics = names;  // in the order they were asked for
    told.calls = split_calls(told.result.table, marker_symbol);
    if (const std::string why =
            why_not_split(told.calls, problems, static_cast<std::size_t>(options_.launches));
        !why.empty()) {
      blame("INVALID", why);
      return {};
    }
    return told;
  }

  /// What the profiled program printed.
  std::string output(const std::string& name) const {
    return text_of_file(folder_ + "/" + name + ".out");
  }

 private:
  static std::string sentence(const ncu_error& error) {
    std::string text = error.what();
    if (!error.remedy.empty()) text += "; " + error.remedy;
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  }

  const selection& wanted_;
  const profile_options& options_;
  const device& where_;
  std::string folder_;
  ncu_tool tool_;
};

// ---- Times without the profiler
// -------------------------------------------------------------------

ratio_band band_of(const std::vector<double>& us, std::uint64_t seed) {
  const interval band = bootstrap_median(us, seed);
  return recorded(ratio_band{median(us), band.low, band.high});
}

void time_problem(const device& where, const target& t, std::uint64_t seed, int rounds,
                  profiled& entry) {
  timing_options options;
  options.rounds = rounds;
  options.seed = seed;
  options.warm_up_ms = warm_up_ms;
  race r;
  add_sets(where, *t.kernel, t.what, seed, options, r);
  add_own_arm(own_name, where, *t.kernel, t.what, r);
  add_floor(where, *t.kernel, t.what, options, r);
  const timing timed = time_arms(where, r.arms, options);
  const arm_samples* floor = nullptr;
  for (const arm_samples& a : timed.arms) {
    if (a.name == own_name)
      entry.time_us = band_of(a.us, seed);
    else if (floor == nullptr || median(a.us) < median(floor->us))
      floor = &a;
  }
  if (floor != nullptr) entry.floor_us = band_of(floor->us, seed);
}

// ---- The command
// ----------------------------------------------------------------------------------

profiled new_entry(const target& t, const std::string& out) {
  profiled entry;
  entry.kernel = t.key.kernel;
  entry.dtype = t.key.dtype;
  entry.what = t.key.what;
  entry.config = t.key.config;
  entry.prediction_path = t.predicted.path;
  entry.prediction_sha256 = t.predicted.digest;
  entry.l2 = "cold";
  if (!t.unverified.empty())
    entry.faults.push_back({"INVALID", "not verified: " + without_folder(t.unverified, out)});
  return entry;
}

/// Everything that is measured, into the entries of the record.
void measure(const selection& wanted, const profile_options& options, const device& where,
             const std::vector<target>& targets, profile_record& record) {
  profiler counters(wanted, options, where, record.run.session);
  if (const std::string why = counters.start(record); !why.empty()) {
    for (profiled& p : record.problems) p.faults.push_back({"INCONCLUSIVE", why});
    return;
  }
  std::fprintf(stderr, "profile: %zu problems, %d launches each; reports in %s\n", targets.size(),
               options.launches, counters.folder().c_str());
  const int canonical = 90, cc = where.limits.cc;  // records name metrics as sm_90 does
  const auto core =
      counters.run("core", core_metrics(cc), core_metrics(canonical), targets.size(), record);
  if (!core) return;
  const auto pipes =
      counters.run("pipes", pipes_metrics(cc), pipes_metrics(canonical), targets.size(), record);
  std::vector<std::string> names;
  for (const target& t : targets) names.push_back(name_of(t.key));
  const std::vector<std::string> faults = harness_faults(counters.output("core"), names);
  for (std::size_t i = 0; i < targets.size(); ++i) {
    profiled& entry = record.problems[i];
    if (!faults[i].empty())
      entry.faults.push_back({"INVALID", "the output is wrong under the profiler: " + faults[i]});
    fill_from_report(*core, pipes ? &*pipes : nullptr, i,
                     static_cast<std::size_t>(options.launches), core_metrics(canonical),
                     pipes_metrics(canonical), targets[i].predicted.content, entry);
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    std::fprintf(stderr, "profile: times of %s, %zu of %zu\n", names[i].c_str(), i + 1,
                 targets.size());
    try {
      time_problem(where, targets[i], wanted.seed, options.rounds, record.problems[i]);
    } catch (const std::bad_alloc&) {
      record.problems[i].faults.push_back(
          {"INCONCLUSIVE", "the device's memory has no room to time it"});
    } catch (const std::exception& error) {  // the counters are worth keeping
      record.problems[i].faults.push_back(
          {"INCONCLUSIVE", std::string("it could not be timed: ") + error.what()});
    }
  }
}

void print(const profiled& p, const prediction& predicted) {
  std::printf("%-12s %s %s %s: %.4g us of [%.4g, %.4g], floor %.4g\n", p.verdict.c_str(),
              p.kernel.c_str(), p.dtype.c_str(), p.what.shape.c_str(), p.time_us.median,
              predicted.low_us, predicted.high_us, p.floor_us.median);
  for (const claim_verdict& v : p.verdicts)
    if (v.claim == "run")
      std::printf("  %-12s %s\n", v.verdict.c_str(), v.why.c_str());
    else if (v.verdict != "CONFIRMED")
      std::printf("  %-12s %s: %s, predicted [%s, %s]%s%s\n", v.verdict.c_str(), v.claim.c_str(),
                  format_double(recorded(v.observed)).c_str(),
                  format_double(recorded(v.low)).c_str(), format_double(recorded(v.high)).c_str(),
                  v.why.empty() ? "" : "; ", v.why.c_str());
  if (!p.story.empty()) std::printf("  story: %s; next: %s\n", p.story.c_str(), p.next.c_str());
}

}  // namespace

int profile(const selection& wanted, const profile_options& options, const device& where) {
  if (options.launches < fewest_launches)
    throw std::invalid_argument("launches is " + std::to_string(options.launches) + "; expected " +
                                std::to_string(fewest_launches) + " or more");
  if (where.is_host()) {
    std::fprintf(stderr,
                 "claims profile refuses: device is host, which has no counters; expected a GPU\n");
    return 2;
  }
  const std::string out = out_root(wanted, where);
  profile_record record;
  record.run = this_run();
  record.device = describe(where);
  record.seed = static_cast<std::int64_t>(wanted.seed);
  int refused = 0;
  const std::vector<target> targets =
      targets_of(wanted, options, where, out, record.run.binary, refused);
  if (refused > 0) return 2;
  if (targets.empty())
    throw std::invalid_argument("the selection holds no problem; expected one or more");
  const std::string path =
      out + "/evidence/" + where.id + "/profiles/" + record.run.session + ".yaml";
  const auto keep = [&](profile_record& r) {
    for (std::size_t i = 0; i < targets.size(); ++i)
      judge(targets[i].predicted.content, r.problems[i]);
    atomic_write(path, write_profile(r));
  };
  for (const target& t : targets) record.problems.push_back(new_entry(t, out));
  profile_record begun =
      record;  // on record before anything is looked at: a run that ends early was a look, too
  for (profiled& p : begun.problems) p.faults.push_back({"INCONCLUSIVE", "the run did not finish"});
  keep(begun);
  measure(wanted, options, where, targets, record);
  keep(record);
  const auto count = [&](const char* verdict) {
    return std::count_if(record.problems.begin(), record.problems.end(),
                         [&](const profiled& p) { return p.verdict == verdict; });
  };
  for (std::size_t i = 0; i < targets.size(); ++i)
    print(record.problems[i], targets[i].predicted.content);
  const auto confirmed = count("CONFIRMED"), refuted = count("REFUTED"),
             inconclusive = count("INCONCLUSIVE"), invalid = count("INVALID");
  std::printf(
      "profile on %s: %td confirmed, %td refuted, %td inconclusive, %td invalid; record %s\n",
      where.id.c_str(), confirmed, refuted, inconclusive, invalid, path.c_str());
  return refuted + invalid > 0 ? 3 : inconclusive > 0 ? 4 : 0;
}

}  // namespace capstone::claims
