// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/verify.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "core/progress.hpp"
#include "core/buffers.hpp"
#include "core/timer.hpp"

namespace capstone::claims {
namespace {

/// The shipped call, to its end. Returns the sentence of a failure.
std::string call(const device& where, const kernel_spec& kernel, const problem& what,
                 const pointers& data) {
  if (where.is_host()) return kernel.call_host(what, data);
  const std::string failure = kernel.call(what, data, nullptr);
  check_cuda(cudaDeviceSynchronize(), (kernel.name() + " " + kernel.dtype).c_str());
  return failure;
}

std::vector<std::vector<std::byte>> outputs_of(const buffer_set& set) {
  std::vector<std::vector<std::byte>> bytes;
  for (std::size_t i = 0; i < set.descs().size(); ++i)
    if (set.descs()[i].use == role::out) bytes.push_back(set.download(static_cast<int>(i)));
  return bytes;
}

bool is_empty(const problem& what) {
  return std::find(what.shape.begin(), what.shape.end(), 0) != what.shape.end();
}

problem out_of_place(problem what) {
  what.in_place = false;
  return what;
}

/// What an earlier run of the same binary found stays; what was verified again replaces it.
void merge_earlier(const std::string& path, verify_record& record) {
  if (!std::filesystem::exists(path)) return;
  try {
    const verify_record earlier = read_verify(path);
    if (earlier.run.binary != record.run.binary) return;
    for (const verified& old : earlier.problems)
      if (std::none_of(record.problems.begin(), record.problems.end(), [&](const verified& v) {
            return v.suite == old.suite && v.what == old.what;
          }))
        record.problems.push_back(old);
  } catch (const record_error& error) {
    std::fprintf(stderr, "claims: %s; the record is written anew\n", error.what());
  }
}

struct tally {
  int passed = 0, failed = 0, skipped = 0;
  std::map<std::string, int> matches;
  double worst_ratio = 0;
  std::string worst_at = "-";
};

void count(tally& t, const verified& v) {
  ++(v.passed() ? t.passed : t.failed);
  ++t.matches[v.match + (v.fallback ? " (fallback)" : "")];
  const check_result* worst = v.worst();
  if (worst == nullptr || (t.worst_at != "-" && worst->worst_ratio <= t.worst_ratio)) return;
  t.worst_ratio = worst->worst_ratio;
  t.worst_at = v.what.shape + (v.what.layout.empty() ? "" : " " + v.what.layout);
}

void print_problem(const verified& v) {
  std::printf("  %s  %s %s  config %s: %s\n", v.passed() ? "pass" : "FAIL", v.what.shape.c_str(),
              v.what.layout.c_str(), v.match.c_str(), text_of(v.config).c_str());
  if (!v.fault.empty()) std::printf("        %s\n", v.fault.c_str());
  for (const check_result& r : v.outputs)
    std::printf(
        "        %s: error %.4g, bound %.4g, ratio %.4g at row %lld, col %lld (is %.9g, "
        "expected %.9g); bias %.4g of %.4g; %lld of %lld wrong\n",
        r.output.c_str(), r.error, r.bound, r.worst_ratio, static_cast<long long>(r.row),
        static_cast<long long>(r.col), r.actual, r.expected, r.bias, r.bias_limit,
        static_cast<long long>(r.failures), static_cast<long long>(r.count));
}

void print_suite(const chosen& c, const std::string& suite, const tally& t) {
  std::string matches;
  for (const auto& [name, n] : t.matches)
    matches += (matches.empty() ? "" : ", ") + std::to_string(n) + " " + name;
  std::printf(
      "%-28s %-12s %-7s passed %4d  failed %3d  skipped %3d  worst error/bound %-9.4g %s  "
      "[config: %s]\n",
      c.kernel->name().c_str(), c.kernel->dtype.c_str(), suite.c_str(), t.passed, t.failed,
      t.skipped, t.worst_ratio, t.worst_at.c_str(), matches.c_str());
}

}  // namespace

std::size_t verify_bytes(const kernel_spec& kernel, const problem& what) {
  const std::size_t pristine =
      what.in_place ? buffer_set::bytes_needed(kernel.buffers(out_of_place(what))) : 0;
  return buffer_set::bytes_needed(kernel.buffers(what)) + pristine;
}

verified verify_problem(const device& where, const op& of, const kernel_spec& kernel,
                        const suite_problem& item, std::uint64_t seed) {
  const problem& what = item.what;
  verified v;
  v.suite = item.suite;
  v.what = id_of(of, what);
  buffer_set set(where, kernel.buffers(what), seed);
  set.reset();
  const choice_info choice = kernel.choice(what, set.data(), where.limits);
  v.match = choice.match;
  v.fallback = choice.fallback;
  v.config = tokens_of(of, choice.values);
  const auto fail = [&v](const std::string& sentence) {
    if (!sentence.empty() && v.fault.empty()) v.fault = sentence;
  };
  fail(call(where, kernel, what, set.data()));
  fail(set.find_damage());
  if (is_empty(what) || !v.fault.empty()) return v;
  fail(set.find_unwritten());
  const auto first = outputs_of(set);
  pointers inputs = set.data();
  std::optional<buffer_set> pristine;  // an output lies where an input was: take it from elsewhere
  if (what.in_place) {
    pristine.emplace(where, kernel.buffers(out_of_place(what)), seed);
    pristine->reset();
    inputs = pristine->data();
  }
  for (const check_result& r :
       kernel.check(what, inputs, set.data(), choice.values, where.is_host()))
    v.outputs.push_back(recorded(r));
  set.poison_outputs();
  fail(call(where, kernel, what, set.data()));
  if (outputs_of(set) != first) fail("a second run of the same call gave other bits");
  return v;
}

int verify(const selection& wanted, const device& where) {
  const std::string out = out_root(wanted, where);
  const run_context run = this_run();
  int failed = 0, skipped = 0, passed = 0;
  bool dead = false;
  kernel_names untuned;
  for (const chosen& c : choose(wanted, where)) {
    const std::string name = c.kernel->name() + " " + c.kernel->dtype;
    std::printf("%s: %s\n", name.c_str(), c.kernel->rounding.c_str());
    verify_record record{
        run, describe(where), c.kernel->name(), c.kernel->dtype, c.kernel->rounding, {}};
    std::map<std::string, tally> suites;
    tools::progress shown("verify " + name, c.problems.size());
    for (std::size_t i = 0; i < c.problems.size(); ++i) {
      const suite_problem& item = c.problems[i];
      shown.step(1);
      tally& t = suites[item.suite];
      const std::size_t needed = verify_bytes(*c.kernel, item.what);
      if (needed > free_memory(where) / 10 * 9) {
        std::printf("  skipped  %s: needs %zu MiB, more than is free on the device\n",
                    id_of(*c.of, item.what).shape.c_str(), needed >> 20);
        ++t.skipped;
        continue;
      }
      verified v{item.suite, id_of(*c.of, item.what), "none", false, {}, "", {}};
      try {
        v = verify_problem(where, *c.of, *c.kernel, item, wanted.seed);
      } catch (const std::exception& error) {
        v.fault = error.what();
        dead = !where.is_host();  // after a fault on the GPU nothing more can run in this process
      }
      count(t, v);
      if (wanted.verbose || !v.passed()) print_problem(v);
      record.problems.push_back(v);
      if (dead) break;
    }
    for (const auto& [suite, t] : suites) {
      print_suite(c, suite, t);
      if (t.matches.count("default") + t.matches.count("default (fallback)") != 0)
        untuned.insert({c.kernel->name(), c.kernel->dtype});
      passed += t.passed;
      failed += t.failed;
      skipped += t.skipped;
    }
    const std::string path = verify_path(out, where.id, *c.kernel);
    merge_earlier(path, record);
    atomic_write(path, write_verify(record));
    if (dead) break;
  }
  advise_tuning(untuned, where);
  std::printf("verify on %s: %d passed, %d failed, %d skipped; records in %s/evidence/%s/verify\n",
              where.id.c_str(), passed, failed, skipped, out.c_str(), where.id.c_str());
  if (passed == 0) std::fprintf(stderr, "claims: nothing was verified\n");
  return failed == 0 && passed > 0 ? 0 : 3;
}

}  // namespace capstone::claims
