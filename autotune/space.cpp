// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/space.hpp"

#include <algorithm>
#include <random>
#include <stdexcept>

#include "core/fingerprint.hpp"

namespace capstone::tools {

void enumerate(const std::vector<axis>& axes, const std::function<void(const config&)>& visit) {
  std::vector<std::size_t> at(axes.size(), 0);
  config values;
  for (const auto& each : axes) {
    if (each.values.empty()) return;
    values.push_back(each.values.front());
  }
  for (;;) {
    visit(values);
    std::size_t i = axes.size();  // count up, the last axis first
    for (; i > 0; --i) {
      at[i - 1] = (at[i - 1] + 1) % axes[i - 1].values.size();
      values[i - 1] = axes[i - 1].values[at[i - 1]];
      if (at[i - 1] != 0) break;
    }
    if (i == 0) return;
  }
}

const rule* broken_rule(const op& of, const kernel_spec& kernel, const config& values,
                        const problem& at, const device_limits& limits) {
  for (const auto& each : of.rules) {
    if (!each.holds(values, at, kernel, limits)) return &each;
  }
  return nullptr;
}

space make_space(const op& of, const kernel_spec& kernel, const problem& at,
                 const device_limits& limits) {
  space made;
  for (const auto& each : of.rules) made.pruned.emplace_back(each.reason, 0);
  const auto first = kernel.default_config(at);
  made.candidates.push_back({first});
  bool listed = false;
  enumerate(of.axes, [&](const config& values) {
    ++made.declared;
    if (values == first) {
      listed = true;
    } else if (const auto* broken = broken_rule(of, kernel, values, at, limits)) {
      ++made.pruned[static_cast<std::size_t>(broken - of.rules.data())].second;
    } else {
      made.candidates.push_back({values});
    }
  });
  if (!listed) ++made.declared;
  return made;
}

std::vector<pruned_alone> sample_pruned(const op& of, const kernel_spec& kernel, const problem& at, const device_limits& limits,
                                        std::size_t each, std::uint64_t seed) {
  std::vector<pruned_alone> found(of.rules.size());
  std::mt19937_64 random(seed);
  enumerate(of.axes, [&](const config& values) {
    std::size_t broken = of.rules.size();
    for (std::size_t i = 0; i < of.rules.size(); ++i) {
      if (of.rules[i].holds(values, at, kernel, limits)) continue;
      if (broken != of.rules.size()) return;  // a second one
      broken = i;
    }
    if (broken == of.rules.size()) return;
    auto& mine = found[broken];
    mine.rule = broken;
    // Reservoir sampling: each has the same chance.
    if (mine.count++ < each) {
      mine.sample.push_back(values);
    } else if (const auto slot = random() % mine.count; slot < each) {
      mine.sample[slot] = values;
    }
  });
  std::erase_if(found, [](const auto& mine) { return mine.count == 0; });
  return found;
}

std::string axes_fingerprint(const op& of) {
  std::string text;
  for (const auto& each : of.axes) {
    text += each.name + (each.belongs == part::reduction ? " reduction" : " schedule");
    for (const int value : each.values) text += " " + each.value_token(value);
    text += '\n';
  }
  for (const auto& name : of.fixed_fields) text += "fixed " + name + '\n';
  for (const auto& each : of.rules) text += "rule " + each.reason + '\n';
  return "sha256:" + sha256_hex(text);
}

std::string config_text(const op& of, const config& values) {
  std::string text;
  for (std::size_t i = 0; i < of.axes.size(); ++i) {
    text += (i == 0 ? "" : " ") + of.axes[i].name + "=" + of.axes[i].value_token(values.at(i));
  }
  return text;
}

config part_of(const op& of, const config& values, part which) {
  config found;
  for (std::size_t i = 0; i < of.axes.size(); ++i) {
    if (of.axes[i].belongs == which) found.push_back(values.at(i));
  }
  return found;
}

config_values tokens_of(const op& of, const config& values, part which) {
  config_values found;
  for (std::size_t i = 0; i < of.axes.size(); ++i) {
    const auto& each = of.axes[i];
    if (each.belongs == which) found.emplace_back(each.name, each.value_token(values.at(i)));
  }
  return found;
}

config config_from(const op& of, const config_values& reduction, const config_values& schedule) {
  const auto named = [](const config_values& values, const std::string& name) {
    return std::find_if(values.begin(), values.end(),
                        [&](const auto& entry) { return entry.first == name; });
  };
  for (const auto which : {part::reduction, part::schedule}) {
    const auto& values = which == part::reduction ? reduction : schedule;
    for (const auto& [name, value] : values) {
      const bool known = std::any_of(of.axes.begin(), of.axes.end(), [&](const axis& each) {
        return each.name == name && each.belongs == which;
      });
      if (!known) {
        throw std::invalid_argument(
            std::string(which == part::reduction ? "reduction" : "schedule") + " names axis " +
            name + " (" + value + "), which " + of.name + " does not declare there");
      }
    }
  }
  config values;
  for (const auto& each : of.axes) {
    const auto& tokens = each.belongs == part::reduction ? reduction : schedule;
    const auto found = named(tokens, each.name);
    if (found == tokens.end()) {
      throw std::invalid_argument("axis " + each.name + " of " + of.name + " has no value");
    }
    values.push_back(each.value_of(found->second));
  }
  return values;
}

int axis_value(const op& of, const config& values, const std::string& name, int otherwise) {
  for (std::size_t i = 0; i < of.axes.size(); ++i) {
    if (of.axes[i].name == name) return values.at(i);
  }
  return otherwise;
}

}  // namespace capstone::tools
