// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/gate.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "core/shapes.hpp"

namespace capstone::tools {
namespace {

constexpr std::int64_t some_rows = 37;  // prime, so that no tile divides it
constexpr std::int64_t pad = 64;        // whole vectors, so that the plan stays the same

std::string problem_key(const problem& at) {
  return format_shape(at.shape) + (at.pad == 0 ? "" : ", stride cols+" + std::to_string(at.pad)) +
         (at.offset == 0 ? "" : ", " + std::to_string(at.offset) + " elements off alignment");
}

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string describe(const check_result& r) {
  return r.output + "[" + std::to_string(r.row) + ", " + std::to_string(r.col) + "] is " +
         number(r.actual) + ", expected " + number(r.expected) + "; error " + number(r.error) +
         ", bound " + number(r.bound) + ", " + std::to_string(r.failures) + " of " +
         std::to_string(r.count) + " elements fail, bias " + number(r.bias);
}

verdict run_once(const launch_plan& plan, const executor& run) {
  try {
    run.launch(plan, nullptr);
    run.wait();
  } catch (const launch_refused& error) {
    return {status::launch_error, error.what()};
  } catch (const device_crashed& error) {
    return {status::crash, error.what()};
  }
  return {};
}

}  // namespace

gate::gate(const device& where, const op& of, const kernel_spec& kernel, const problem& shape,
           executor run, std::uint64_t seed)
    : where_(where), op_(of), kernel_(kernel), shape_(shape), run_(std::move(run)), seed_(seed) {
  shape_.in_place = false;  // the check compares with the inputs, so they must outlive the run
}

std::vector<problem> gate::problems(const config& values) const {
  const std::int64_t tile = axis_value(op_, values, "tile_rows", 1);
  std::vector<std::int64_t> rows = {some_rows, 1, tile - 1, tile, tile + 1};
  // A grid that loops has to: two tiles for each of its blocks, and one row more.
  const std::int64_t blocks = axis_value(op_, values, "persistent", 0) * where_.limits.sms;
  if (blocks > 0) rows.push_back(2 * tile * blocks + 1);
  std::sort(rows.begin() + 1, rows.end());
  rows.erase(std::unique(rows.begin() + 1, rows.end()), rows.end());
  std::vector<problem> found;
  for (const auto count : rows) {
    if (count < 1 || (count == some_rows && !found.empty())) continue;
    found.push_back(shape_);
    found.back().shape[0] = count;
  }
  // A wider stride only where it leaves the config legal.
  auto padded = shape_;
  padded.pad += pad;
  if (broken_rule(op_, kernel_, values, padded, where_.limits) == nullptr) {
    padded.shape[0] = some_rows;
    found.push_back(padded);
  }
  // As badly aligned as its accesses allow, and worse, where the run-time path takes over.
  const auto element = static_cast<std::int64_t>(size_of(kernel_.buffers(shape_).front().type));
  std::vector<std::int64_t> offsets = {1};
  const std::int64_t vector = axis_value(op_, values, "load_bytes", 0) / element;
  if (vector > 1) offsets.push_back(vector);
  for (const auto offset : offsets) {
    found.push_back(shape_);
    found.back().shape[0] = some_rows;
    found.back().offset = offset;
  }
  return found;
}

gate::outcome gate::run(buffer_set& buffers, const launch_plan& plan) {
  buffers.reset();
  if (auto failed = run_once(plan, run_); failed.state != status::ok) return {failed};
  if (auto damage = buffers.find_damage(); !damage.empty()) return {{status::wrong, damage}};
  if (auto hole = buffers.find_unwritten(); !hole.empty()) return {{status::wrong, hole}};
  return {{}, buffers.output_hash()};
}

verdict gate::compare(const problem& at, buffer_set& buffers, const config& values) {
  for (const auto& each :
       kernel_.check(at, buffers.data(), buffers.data(), values, where_.is_host())) {
    if (!each.passed()) return {status::wrong, describe(each)};
  }
  return {};
}

const gate::outcome& gate::run_time_path(const problem& at, buffer_set& buffers,
                                         const config& values, bool compared) {
  std::string key = problem_key(at) + (compared ? " compared" : "");
  for (const int value : part_of(op_, values, part::reduction)) key += "," + std::to_string(value);
  const auto known = references_.find(key);
  if (known != references_.end()) return known->second;
  auto found = run(buffers, kernel_.default_plan(at, buffers.data(), values, where_.limits));
  if (compared && found.result.state == status::ok) found.result = compare(at, buffers, values);
  return references_.emplace(key, std::move(found)).first->second;
}

buffer_set& gate::buffers_of(const problem& at) {
  const auto key = problem_key(at);
  const auto known = buffers_.find(key);
  if (known != buffers_.end()) return known->second;
  return buffers_.emplace(key, buffer_set(where_, kernel_.buffers(at), seed_)).first->second;
}

verdict gate::test_at(const problem& at, buffer_set& buffers, const config& values,
                      bool compared) {
  const auto place = "at " + problem_key(at) + ": ";
  const auto& expected = run_time_path(at, buffers, values, compared);
  if (expected.result.state != status::ok) {
    return {expected.result.state,
            place + "the default schedule of its reduction: " + expected.result.why};
  }
  const auto plan = kernel_.plan(at, buffers.data(), values, where_.limits);
  auto first = run(buffers, plan);
  if (first.result.state == status::ok) {
    if (first.hash == expected.hash) return {};
    first.result = compare(at, buffers, values);  // by how much
    if (first.result.state == status::ok) {
      first.result = {status::wrong, "differs in a bit from its reduction's default schedule"};
    }
  }
  if (first.result.state != status::wrong) return {first.result.state, place + first.result.why};
  // The same kernel again tells a race from an error.
  const auto second = run(buffers, plan);
  if (second.hash == first.hash) return {status::wrong, place + first.result.why};
  return {status::nondeterministic,
          place + "two runs on the same data differ; the first: " + first.result.why};
}

verdict gate::test(const config& values) {
  auto all = problems(values);
  all.push_back(all.back());  // right once may be luck
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto found = test_at(all[i], buffers_of(all[i]), values, i == 0);
    if (found.state != status::ok) return found;
  }
  return {};
}

}  // namespace capstone::tools
