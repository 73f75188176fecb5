// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/bench.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "claims/race.hpp"
#include "core/fingerprint.hpp"
#include "core/nvml.hpp"

namespace capstone::claims {
namespace {

struct refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

bool can_run(const baseline& b, const problem& what, const device& where) {
  return (!where.is_host() || b.on_host) && (!b.supports || b.supports(what));
}

/// "" if a run of the baseline passes the kernel's own check by and large. It may add in another
/// order and round once more than the kernel does: a rounding to the same type moves a value at the
/// foot of a binade by twice the bound at its top, and the last rounding may cross into the next
/// one, so 5 bounds (4.01 was seen). A wrong one is off by much more.
std::string why_wrong(const device& where, const kernel_spec& kernel, const problem& what,
                      buffer_set& set, const baseline& b, void* workspace, const config& values) {
  set.reset();
  b.run(what, set.data(), workspace, nullptr);
  if (const std::string damage = set.find_damage(); !damage.empty()) return damage;  // waits, too
  if (const std::string gap = set.find_unwritten(); !gap.empty()) return gap;
  for (const check_result& r : kernel.check(what, set.data(), set.data(), values, where.is_host()))
    if (!(r.worst_ratio <= 5))
      return r.output + " is off by " + format_double(recorded(r.worst_ratio)) + " bounds";
  return "";
}

void set_up(const device& where, const kernel_spec& kernel, const problem& what,
            const config& values, std::uint64_t seed, timing_options& timing, race& r) {
  add_sets(where, kernel, what, seed, timing, r);
  add_own_arm(own_name, where, kernel, what, r);
  add_own_arm(twin_name, where, kernel, what, r);
  for (const baseline& b : kernel.baselines) {
    if (!can_run(b, what, where)) continue;
    r.scratch.emplace_back(where, b.workspace_bytes ? b.workspace_bytes(what) : 0);
    void* workspace = r.scratch.back().data();
    const std::string wrong = why_wrong(where, kernel, what, r.sets[0], b, workspace, values);
    if (!wrong.empty()) {
      std::printf("baseline %s is left out of this race: %s\n", b.name.c_str(), wrong.c_str());
      continue;
    }
    r.arms.push_back({b.name, [&b, &what, &r, workspace](int set, void* stream) {
                        b.run(what, r.sets[static_cast<std::size_t>(set)].data(), workspace,
                              stream);
                      }});
  }
  r.sets[0].reset();
  add_floor(where, kernel, what, timing, r);
}

std::string version_of(const kernel_spec& kernel, const std::string& arm_name) {
  for (const baseline& b : kernel.baselines)
    if (b.name == arm_name) return b.version;
  return "";
}

comparison compare(const device& where, const op& of, const kernel_spec& kernel,
                   const problem& what, const choice_info& choice, const selection& wanted,
                   const bench_options& options) {
  comparison c;
  c.kernel = kernel.name();
  c.dtype = kernel.dtype;
  c.rounding = kernel.rounding;
  c.what = id_of(of, what);
  c.match = choice.match;
  c.fallback = choice.fallback;
  c.config = tokens_of(of, choice.values);
  timing_options timing;
  timing.rounds = options.rounds;
  timing.seed = wanted.seed;
  race r;
  set_up(where, kernel, what, choice.values, wanted.seed, timing, r);
  c.bytes = timing.bytes_per_call;
  summarise(time_arms(where, r.arms, timing), r.floor_arms, wanted.seed, c);
  for (arm_row& row : c.arms)
    if (row.version.empty()) row.version = version_of(kernel, row.name);
  c.other_processes = nvml(where).other_processes();
  return c;
}

choice_info choice_for(const device& where, const kernel_spec& kernel, const problem& what) {
  buffer_set set(where, kernel.buffers(what), 1);
  return kernel.choice(what, set.data(), where.limits);
}

void print(const comparison& c) {
  std::printf("%s %s %s [config %s%s: %s] %s timer, %lld sets%s%s\n", c.kernel.c_str(),
              c.dtype.c_str(), c.what.shape.c_str(), c.match.c_str(),
              c.fallback ? ", fallback" : "", text_of(c.config).c_str(), c.timer.c_str(),
              static_cast<long long>(c.sets), c.flushed ? ", L2 evicted" : "",
              c.is_void() ? "  VOID: the A/A twin differs" : "");
  for (const arm_row& row : c.arms) {
    std::printf("  %-20s %9.5f ms [%.5f, %.5f]", row.name.c_str(), row.ms, row.low, row.high);
    if (row.speedup)
      std::printf("  %7.4fx [%.4f, %.4f]", row.speedup->median, row.speedup->low,
                  row.speedup->high);
    std::printf("  %s\n", row.version.c_str());
  }
}

/// Refuses before anything is raced, so that a refusal costs no time on the device.
void expect_claimable(const std::vector<chosen>& all, const device& where, const std::string& out,
                      const run_context& run) {
  const std::string root = source_root();
  for (const chosen& c : all) {
    if (std::filesystem::exists(root + "/include/capstone"))
      if (const auto why = why_stale(root, where.id, *c.of, *c.kernel); !why.empty())
        throw refused(why);
    for (const suite_problem& item : c.problems) {
      if (c.kernel->traffic(item.what).written_bytes == 0)
        throw std::invalid_argument("shape is " + id_of(*c.of, item.what).shape +
                                    "; expected one with elements to time");
      const choice_info choice = choice_for(where, *c.kernel, item.what);
      const std::string why = why_unverified(out, where.id, *c.of, *c.kernel, item.what,
                                             tokens_of(*c.of, choice.values), run.binary);
      if (!why.empty()) throw refused(why);
    }
  }
}

}  // namespace

std::string why_unverified(const std::string& out, const std::string& device, const op& of,
                           const kernel_spec& kernel, const problem& what,
                           const config_values& config, const std::string& binary) {
  const problem_id id = id_of(of, what);
  const std::string about = kernel.name() + " " + kernel.dtype + " " + id.shape;
  const std::string advice = "; run `claims verify --kernel " + kernel.name() + " --dtype " +
                             kernel.dtype + "` with the same shapes and --out first";
  const std::string path = verify_path(out, device, kernel);
  if (!std::filesystem::exists(path))
    return about + " has no verify record (" + path + ")" + advice;
  const verify_record record = read_verify(path);
  if (record.run.binary != binary)
    return about + " was verified with another binary (" + record.run.binary + ")" + advice;
  bool found = false;
  for (const verified& v : record.problems) {
    if (v.what != id) continue;
    if (!v.passed()) return about + " failed verify (suite " + v.suite + ")" + advice;
    if (v.config != config)
      return about + " was verified with config " + text_of(v.config) + ", not " + text_of(config) +
             advice;
    found = true;
  }
  return found ? "" : about + " is not in its verify record" + advice;
}

std::string why_stale(const std::string& root, const std::string& device, const op& of,
                      const kernel_spec& kernel) {
  const std::string path =
      root + "/configs/" + device + "/" + kernel.config_name() + "." + kernel.dtype + ".yaml";
  if (!std::filesystem::exists(path)) return "";
  const std::string tuned = read_config(path).source, now = source_fingerprint(root, of.header);
  if (tuned == now) return "";
  return path + " was tuned from source " + tuned + ", and " + of.header + " is " + now +
         "; tune again with `autotune --kernel " + kernel.name() + " --dtype " + kernel.dtype + "`";
}

void summarise(const timing& timed, const std::vector<std::string>& floor_arms, std::uint64_t seed,
               comparison& result) {
  result.timer = token(timed.timer);
  result.calls_per_sample = timed.calls_per_sample;
  result.sets = timed.sets;
  result.flushed = timed.flushed;
  const auto is_floor = [&](const arm_samples& a) {
    return std::find(floor_arms.begin(), floor_arms.end(), a.name) != floor_arms.end();
  };
  const arm_samples *own = nullptr, *floor = nullptr;
  std::vector<double> mhz, watts;
  for (const arm_samples& a : timed.arms) {
    if (a.name == own_name) own = &a;
    if (is_floor(a) && (floor == nullptr || median(a.us) < median(floor->us))) floor = &a;
    mhz.insert(mhz.end(), a.sm_mhz.begin(), a.sm_mhz.end());
    watts.insert(watts.end(), a.watts.begin(), a.watts.end());
  }
  if (own == nullptr || floor == nullptr)
    throw std::invalid_argument("a comparison needs an arm named capstone and a floor");
  result.rounds = static_cast<std::int64_t>(own->us.size());
  if (!mhz.empty())
    for (const double q : {0.0, 0.5, 1.0})
      result.sm_mhz.push_back(static_cast<std::int64_t>(quantile(mhz, q)));
  if (!watts.empty()) result.watts = recorded(median(watts));
  for (const arm_samples& a : timed.arms) {
    if (is_floor(a) && &a != floor) continue;
    const interval band = bootstrap_median(a.us, seed);
    arm_row row{a.name,
                "",
                recorded(median(a.us) / 1000),
                recorded(band.low / 1000),
                recorded(band.high / 1000),
                {}};
    for (const double q : {0.05, 0.25, 0.75, 0.95}) row.spread.push_back(recorded(quantile(a.us, q) / 1000));
    if (&a != own) row.speedup = recorded(paired_ratio(a.us, own->us, seed));
    if (&a == floor) {
      row.version = row.name;
      row.name = floor_name;
    }
    result.arms.push_back(row);
  }
  result.floor_target = recorded(paired_ratio(own->us, floor->us, seed));
}

int bench(const selection& wanted, const device& where, const bench_options& options) {
  using clock = std::chrono::steady_clock;
  const auto begin = clock::now();
  const std::string out = out_root(wanted, where);
  session_record record{this_run(), describe(where), static_cast<std::int64_t>(wanted.seed), {}};
  const std::vector<chosen> all = choose(wanted, where);
  try {
    expect_claimable(all, where, out, record.run);
  } catch (const refused& why) {
    std::fprintf(stderr, "claims bench refuses: %s\n", why.what());
    return 2;
  }
  if (where.is_host()) std::printf("%s\n", host_note);
  const std::string path = session_path(out, where.id, record.run.session);
  std::size_t total = 0, left = 0, voids = 0;
  kernel_names untuned;
  for (const chosen& c : all) total += c.problems.size();
  for (const chosen& c : all) {
    for (const suite_problem& item : c.problems) {
      const double spent = std::chrono::duration<double>(clock::now() - begin).count();
      if (options.budget_s > 0 && spent > options.budget_s) {
        ++left;
        continue;
      }
      std::fprintf(stderr, "bench %s %s %s: %zu of %zu\n", c.kernel->name().c_str(),
                   c.kernel->dtype.c_str(), id_of(*c.of, item.what).shape.c_str(),
                   record.comparisons.size() + 1, total);
      try {
        const choice_info choice = choice_for(where, *c.kernel, item.what);
        record.comparisons.push_back(
            compare(where, *c.of, *c.kernel, item.what, choice, wanted, options));
      } catch (const std::bad_alloc&) {
        std::printf("%s does not fit the device's memory: left out\n",
                    id_of(*c.of, item.what).shape.c_str());
        ++left;
        continue;
      }
      print(record.comparisons.back());
      voids += record.comparisons.back().is_void() ? 1 : 0;
      if (record.comparisons.back().match == "default")
        untuned.insert({c.kernel->name(), c.kernel->dtype});
      atomic_write(path, write_session(record));  // what is measured stays, whatever comes next
    }
  }
  advise_tuning(untuned, where);
  std::printf("bench on %s: %zu comparisons, %zu void, %zu left out (budget, memory); record %s\n",
              where.id.c_str(), record.comparisons.size(), voids, left,
              record.comparisons.empty() ? "none" : path.c_str());
  return 0;
}

}  // namespace capstone::claims
