// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/journal_line.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <stdexcept>
#include <vector>

#include "autotune/journal.hpp"
#include "autotune/status.hpp"
#include "core/records.hpp"

namespace capstone::tools {
namespace {

using nlohmann::json;

constexpr int deepest = 8;  // an arm's config in a run-off is at 4

std::string shown(const json& value) {
  const auto text = journal_line_text(value);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

/// A value and where it is.
struct place {
  const json& value;
  const std::string& where;
  std::string path;  ///< "" is the line itself

  std::string name() const { return path.empty() ? "the line" : path; }
  [[noreturn]] void raise(const std::string& sentence) const { throw record_error(where + ": " + sentence); }
  [[noreturn]] void fail(const std::string& expected) const { raise(name() + " is " + shown(value) + "; expected " + expected); }
  place at(const char* key) const { return {value.at(key), where, path.empty() ? key : path + "." + key}; }
  place at(std::size_t i) const { return {value.at(i), where, path + "[" + std::to_string(i) + "]"}; }
};

using check = void (*)(const place&);

struct member {
  const char* key;
  check is;
  bool needed = true;
};

/// An object of these members alone.
void members(const place& at, const std::vector<member>& known) {
  if (!at.value.is_object()) at.fail("an object");
  for (const auto& [key, value] : at.value.items()) {
    if (std::any_of(known.begin(), known.end(), [&key = key](const member& m) { return key == m.key; })) continue;
    std::string only;
    for (const auto& m : known) only += (only.empty() ? "" : ", ") + std::string(m.key);
    at.raise("unknown key '" + (at.path.empty() ? "" : at.path + ".") + key + "' with value " + shown(value) + "; expected only " + only);
  }
  for (const auto& m : known) {
    if (at.value.contains(m.key)) m.is(at.at(m.key));
    else if (m.needed) at.raise(at.name() + " has no key '" + m.key + "'; expected one");
  }
}

void each(const place& at, check is, std::size_t least = 0) {
  if (!at.value.is_array() || at.value.size() < least) at.fail(least == 0 ? "a list" : "a list of " + std::to_string(least) + " or more");
  for (std::size_t i = 0; i < at.value.size(); ++i) is(at.at(i));
}

// ---- values -------------------------------------------------------------------------------------

void text(const place& at) {
  if (!at.value.is_string()) at.fail("a string");
}

void flag(const place& at) {
  if (!at.value.is_boolean()) at.fail("true or false");
}

void integer(const place& at, std::int64_t low, std::int64_t high) {
  const bool fits = at.value.is_number_unsigned() ? at.value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high)
                                                  : at.value.is_number_integer() && at.value.get<std::int64_t>() <= high;
  if (!fits || at.value.get<std::int64_t>() < low) at.fail("an integer from " + std::to_string(low) + " up to " + std::to_string(high));
}

void count(const place& at) { integer(at, 0, std::numeric_limits<std::int64_t>::max()); }
void small_count(const place& at) { integer(at, 0, std::numeric_limits<int>::max()); }

void number(const place& at) {
  if (!at.value.is_number() || !std::isfinite(at.value.get<double>()) || at.value.get<double>() < 0) at.fail("a finite number from 0");
}

void texts(const place& at) { each(at, text); }
void numbers(const place& at) { each(at, number, 1); }
void shape(const place& at) { each(at, count, 1); }

void key(const place& at) {
  text(at);
  const auto& digits = at.value.get_ref<const std::string&>();
  if (digits.size() != 24 || digits.find_first_not_of("0123456789abcdef") != std::string::npos) at.fail("24 lowercase hex digits");
}

void state_word(const std::string& word, const place& at) {
  try {
    status_of(word);
  } catch (const std::invalid_argument& error) {
    at.raise(error.what());
  }
}

void state(const place& at) {
  text(at);
  state_word(at.value.get<std::string>(), at);
}

void config_of_names(const place& at) {
  if (!at.value.is_object()) at.fail("an object");
  for (const auto& [axis, value] : at.value.items()) text({value, at.where, at.path + "." + axis});
}

// ---- lines --------------------------------------------------------------------------------------

void counts_of_states(const place& at) {
  if (!at.value.is_object()) at.fail("an object");
  for (const auto& [word, value] : at.value.items()) {
    state_word(word, at);
    count({value, at.where, at.path + "." + word});
  }
}

void counts(const place& at) {
  members(at, {{"declared", count}, {"pruned", count}, {"compiled", count}, {"compile_error", count}, {"spilled", count},
               {"wrong", count}, {"crashed", count}, {"implausible", count}, {"timed", count}});
}

void arm(const place& at) {
  members(at, {{"config", config_of_names}, {"audited", flag}, {"threads", small_count}, {"us", numbers}});
}

/// What a rule kept out at a shape, or how the best of that raced.
void audited(const place& at) {
  if (at.value.is_object() && at.value.contains("run_off")) {
    members(at, {{"shape", shape}, {"rule", text}, {"run_off", text}, {"winner", text}, {"winner_lost", flag},
                 {"gain", [](const place& gain) {
                    numbers(gain);
                    if (gain.value.size() != 3) gain.fail("[ratio, low, high]");
                  }}});
  } else {
    members(at, {{"shape", shape}, {"rule", text}, {"pruned_alone", count}, {"tried", count}, {"failed", counts_of_states},
                 {"best", text, false}, {"best_ratio", number, false}});
  }
}

void raced(const place& at) {
  members(at, {{"key", key}, {"phase", text}, {"shape", shape}, {"timer", text}, {"default_us", numbers}, {"twin_us", numbers},
               {"arms", [](const place& arms) { each(arms, arm, 1); }}, {"incumbent", config_of_names, false}});
  // Rounds are compared in pairs.
  const auto rounds = at.value.at("default_us").size();
  const auto paired = [rounds](const place& us) {
    if (us.value.size() != rounds) us.fail(std::to_string(rounds) + " times, as many as default_us has");
  };
  paired(at.at("twin_us"));
  const auto arms = at.at("arms");
  for (std::size_t i = 0; i < arms.value.size(); ++i) paired(arms.at(i).at("us"));
}

void summed_up(const place& at) {
  members(at, {{"key", key}, {"phase", text}, {"cols", count}, {"run_offs", [](const place& keys) { each(keys, key); }},
               {"counts", counts}, {"audit", [](const place& list) { each(list, audited); }}, {"complete", flag}});
}

void candidate(const place& at, std::vector<member> more = {}) {
  std::vector<member> all = {{"key", key}, {"phase", text}, {"cols", count}, {"config", config_of_names}, {"state", state},
                             {"why", text, false}};
  all.insert(all.end(), more.begin(), more.end());
  members(at, all);
}

void screened(const place& at) {
  const bool timed = at.value.contains("state") && at.value["state"] == token(status::ok);
  candidate(at, {{"shape", shape}, {"us", number, timed}, {"ratio", number, timed}});
}

}  // namespace

json parse_journal_line(std::string_view text, const std::string& where) {
  std::vector<std::set<std::string>> open;  // keys of the objects that are not closed
  const json::parser_callback_t watch = [&](int depth, json::parse_event_t event, json& parsed) {
    using at = json::parse_event_t;
    // The library compares, copies and prints by recursion.
    if ((event == at::object_start || event == at::array_start) && depth >= deepest) {
      throw record_error(where + ": a value lies in " + std::to_string(depth) + " others; expected at most " + std::to_string(deepest));
    }
    if (event == at::object_start) open.emplace_back();
    if (event == at::object_end) open.pop_back();
    if (event == at::key && !open.back().insert(parsed.get<std::string>()).second) {
      throw record_error(where + ": duplicate key '" + parsed.get<std::string>() + "'; expected it once");
    }
    return true;
  };
  return json::parse(text.begin(), text.end(), watch, false);
}

std::string journal_line_text(const json& line) { return line.dump(-1, ' ', false, json::error_handler_t::replace); }

void expect_journal_header(const json& line, const std::string& where) {
  const place at{line, where, ""};
  if (!line.contains("schema")) at.raise("the line has no key 'schema'; expected one");
  if (line["schema"] != journal_schema) {
    at.at("schema").fail("\"" + std::string(journal_schema) + "\"; a run without --resume begins anew and keeps this one beside its own");
  }
  members(at, {{"schema", text}, {"kernel", text}, {"dtype", text}, {"source", text}, {"axes", text}, {"measuring", small_count},
               {"cols", [](const place& cols) { each(cols, count); }},
               {"device", [](const place& device) {
                  members(device, {{"id", text}, {"name", text}, {"cc", text}, {"sms", count}, {"l2_bytes", count}, {"driver", text}});
                }},
               {"toolchain", [](const place& toolchain) { members(toolchain, {{"cuda", text}, {"flags", texts}}); }},
               {"seed", count}, {"simulated", flag}, {"git", text}, {"dirty", flag},
               {"shard", [](const place& part) {
                  each(part, small_count);
                  if (part.value.size() != 2 || part.value[0] < 1 || part.value[1] < part.value[0]) part.fail("[I, N] with I from 1 to N");
                }, false}});
}

void expect_journal_line(const json& line, const std::string& where) {
  const place at{line, where, ""};
  if (!line.contains("phase")) at.raise("the line has no key 'phase'; expected one");
  const auto& phase = line["phase"];
  if (phase == "run_off") return raced(at);
  if (phase == "group") return summed_up(at);
  if (phase == "screen") return screened(at);
  if (phase == "compile" || phase == "gate" || phase == "check") return candidate(at);
  at.at("phase").fail("compile, gate, screen, check, run_off or group");
}

}  // namespace capstone::tools
