// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The candidates of one kernel at one shape: what the axes declare, less what the rules prune.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/status.hpp"
#include "core/records.hpp"
#include "core/spec.hpp"

namespace capstone::tools {

struct candidate {
  config values;
  status state = status::untried;
  std::string why = {};  ///< a sentence unless ok or untried
};

struct space {
  std::size_t declared = 0;
  std::vector<std::pair<std::string, std::size_t>> pruned;  ///< by reason, in the rules' order
  std::vector<candidate> candidates;                        ///< what is left, the default first
};

/// Calls `visit` for every combination of the axes' values, the last axis fastest. There are a few
/// hundred thousand, most of them pruned at once, so none is kept.
void enumerate(const std::vector<axis>& axes, const std::function<void(const config&)>& visit);

/// The space for one shape. The default config is in it even where the axes do not list it.
space make_space(const op& of, const kernel_spec& kernel, const problem& at,
                 const device_limits& limits);

/// What one rule alone keeps out at one shape: were it not for this rule, these would be tried.
struct pruned_alone {
  std::size_t rule = 0;   ///< index into op::rules
  std::size_t count = 0;
  std::vector<config> sample;
};

/// One for every rule that prunes something alone, with at most `each` of the configs, drawn at random.
std::vector<pruned_alone> sample_pruned(const op& of, const kernel_spec& kernel, const problem& at, const device_limits& limits,
                                        std::size_t each, std::uint64_t seed);

/// The first rule that `values` breaks at this shape, or nullptr.
const rule* broken_rule(const op& of, const kernel_spec& kernel, const config& values,
                        const problem& at, const device_limits& limits);

/// "sha256:…" of the declared axes and rules: another set of them makes frozen configs stale.
std::string axes_fingerprint(const op& of);

/// "lanes=256 elements=8 hold=packed"
std::string config_text(const op& of, const config& values);

/// The values of one part only; two configs with the same reduction give the same bits.
config part_of(const op& of, const config& values, part which);

/// Names and tokens of one part, as the records spell them.
config_values tokens_of(const op& of, const config& values, part which);

/// The way back. Throws std::invalid_argument naming the axis that is missing, foreign or off its
/// declared values.
config config_from(const op& of, const config_values& reduction, const config_values& schedule);

/// The value of the axis with this name, or `otherwise` where the op has none.
int axis_value(const op& of, const config& values, const std::string& name, int otherwise);

}  // namespace capstone::tools
