// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/group.hpp"

#include <algorithm>
#include <cstdio>
#include <random>
#include <set>
#include <stdexcept>

#include "autotune/gate.hpp"
#include "core/shapes.hpp"

namespace capstone::tools {
namespace {

void print_space(const group& work, const shape_work& shape, const space& made) {
  std::printf("%s %s %s: %zu declared", work.kernel->name().c_str(), work.kernel->dtype.c_str(),
              format_shape(shape.at.shape).c_str(), made.declared);
  std::size_t pruned = 0;
  for (const auto& [reason, count] : made.pruned) pruned += count;
  std::size_t audited = 0;
  for (const auto& rule : shape.audited) audited += rule.sample.size();
  std::printf(", %zu pruned by rules, %zu left%s\n", pruned, made.candidates.size() - audited,
              audited > 0 ? (", " + std::to_string(audited) + " of the pruned ones are tried").c_str() : "");
}

void add_shape(group& work, const problem& at, const device_limits& limits, std::size_t audit, std::uint64_t seed) {
  auto made = make_space(*work.of, *work.kernel, at, limits);
  shape_work shape{at, {}, made.declared, made.pruned};
  if (audit > 0) {
    shape.audited = sample_pruned(*work.of, *work.kernel, at, limits, audit, seed);
    for (const auto& rule : shape.audited) {
      for (const auto& values : rule.sample) made.candidates.push_back({values});
    }
  }
  for (const auto& each : made.candidates) {
    shape.configs.push_back(each.values);
    const bool known =
        std::any_of(work.candidates.begin(), work.candidates.end(),
                    [&](const candidate& other) { return other.values == each.values; });
    if (!known) work.candidates.push_back(each);
  }
  work.counts.declared = static_cast<std::int64_t>(made.declared);
  print_space(work, shape, made);
  work.shapes.push_back(std::move(shape));
}

}  // namespace

bool shape_work::has(const config& values) const { return std::find(configs.begin(), configs.end(), values) != configs.end(); }

const pruned_alone* shape_work::audit_of(const config& values) const {
  for (const auto& each : audited) {
    if (std::find(each.sample.begin(), each.sample.end(), values) != each.sample.end()) return &each;
  }
  return nullptr;
}

std::vector<std::string> types_of(const group& work, const device& where, const config& values) {
  executor nothing;
  const gate sampler(where, *work.of, *work.kernel, work.shapes.front().at, nothing, 0);
  auto problems = sampler.problems(values);
  for (const auto& shape : work.shapes) problems.push_back(shape.at);
  std::vector<std::string> types;
  for (const auto& at : problems) {
    const auto addresses = fake_pointers(work.kernel->buffers(at));
    for (const auto& make : {work.kernel->default_plan, work.kernel->plan}) {
      auto type = make(at, addresses, values, where.limits).kernel_type;
      if (std::find(types.begin(), types.end(), type) == types.end()) {
        types.push_back(std::move(type));
      }
    }
  }
  return types;
}

std::vector<group> make_groups(const tune_request& request, const device& where) {
  std::vector<group> groups;
  for (const auto& name : request.kernels) {
    const auto [of, kernel] = find_kernel(name, request.dtype);
    if (!kernel->configs_of.empty()) {
      throw std::invalid_argument("--kernel is " + name + ", which uses the configs of " +
                                  kernel->configs_of + "; tune that");
    }
    std::map<std::int64_t, std::size_t> by_cols;
    for (const auto& at : request.problems) {
      if (at.shape.size() != 2 || at.shape[0] < 1 || at.shape[1] < 1) {
        throw std::invalid_argument("shape is " + format_shape(at.shape) +
                                    "; expected rows and cols of 1 or more to tune for");
      }
      const auto [slot, is_new] = by_cols.emplace(at.shape[1], groups.size());
      if (is_new) groups.push_back({of, kernel, {}, {}, {}, {}, {}});
      auto& work = groups[slot->second];
      const bool seen = std::any_of(work.shapes.begin(), work.shapes.end(),
                                    [&](const auto& s) { return s.at.shape == at.shape; });
      if (!seen) add_shape(work, at, where.limits, request.audit, request.seed);
    }
  }
  std::mt19937_64 random(request.seed);
  for (auto& work : groups) {
    // Random order, so that what a short budget reaches is a fair sample; the default stays first.
    std::shuffle(work.candidates.begin() + 1, work.candidates.end(), random);
    work.counts.pruned = work.counts.declared;
    for (const auto& each : work.candidates) {
      work.counts.pruned -= std::any_of(work.shapes.begin(), work.shapes.end(), [&](const shape_work& shape) {
        return shape.has(each.values) && shape.audit_of(each.values) == nullptr;
      });
    }
    if (request.max_candidates > 0 &&
        work.candidates.size() > static_cast<std::size_t>(request.max_candidates)) {
      work.candidates.resize(static_cast<std::size_t>(request.max_candidates));
    }
    for (auto& each : work.candidates) {
      try {
        work.types.push_back(types_of(work, where, each.values));
      } catch (const std::exception& error) {  // no rule keeps it from being impossible
        work.types.emplace_back();
        each.state = status::compile_error, each.why = error.what();
      }
    }
  }
  return groups;
}

std::map<std::string, std::vector<std::string>> types_by_header(const std::vector<group*>& groups) {
  std::map<std::string, std::vector<std::string>> types;
  std::set<std::string> seen;
  std::size_t longest = 0;
  for (const auto* work : groups) longest = std::max(longest, work->candidates.size());
  for (std::size_t i = 0; i < longest; ++i) {
    for (const auto* work : groups) {
      if (i >= work->candidates.size() || work->candidates[i].state != status::untried) continue;
      for (const auto& type : work->types[i]) {
        if (seen.insert(type).second) types[work->of->header].push_back(type);
      }
    }
  }
  return types;
}

}  // namespace capstone::tools
