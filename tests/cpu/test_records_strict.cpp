// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// The readers of all that people or tools may edit, each held to the same: every key of a file is renamed,
// doubled, joined by an unknown one, given a value of another type and another value of its own type. What
// is wrong must be refused by file and line, and what is accepted must be written as it was read.

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>

#include "autotune/journal.hpp"
#include "autotune/journal_line.hpp"
#include "claims/ceilings.hpp"
#include "claims/profile_record.hpp"
#include "claims/trace.hpp"
#include "tests/cpu/faulty_scale.hpp"

using namespace capstone::claims;
using capstone::tests::fake::scratch_tree;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

// ---- the kinds of files ----------------------------------------------------------------------------

/// Reads a file and writes what was read.
using again = std::function<std::string(const std::string& path)>;

std::string config_again(const std::string& path) { return write_config(read_config(path)); }
std::string ceilings_again(const std::string& path) { return write_ceilings(read_ceilings(path)); }
std::string prediction_again(const std::string& path) { return write_prediction(parse_prediction(read_text(path), path)); }
std::string profile_again(const std::string& path) { return write_profile(read_profile(path)); }
std::string session_again(const std::string& path) { return write_session(read_session(path)); }
std::string verify_again(const std::string& path) { return write_verify(read_verify(path)); }
std::string journal_again(const std::string& path) {
  std::string text;
  for (const auto& line : read_journal(path)) text += journal_line_text(line) + "\n";
  return text;
}

const fs::path root = CAPSTONE_SOURCE_DIR;

/// Committed files whose path holds `part`, sorted.
std::vector<std::string> committed(const std::string& folder, const std::string& part) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (entry.is_regular_file() && entry.path().string().find(part) != std::string::npos) found.push_back(entry.path().string());
  }
  std::sort(found.begin(), found.end());
  REQUIRE_MESSAGE(!found.empty(), folder, " ", part);
  return found;
}

/// What reading `text` says, or what it is written as.
struct outcome {
  std::string error, written;
};

class reading {
 public:
  explicit reading(again how) : how_(std::move(how)), tree_("strict") {}
  outcome of(const std::string& text) const {
    std::ofstream(path(), std::ios::binary) << text;
    try {
      return {"", how_(path())};
    } catch (const record_error& error) {
      return {error.what(), ""};
    }
  }
  std::string path() const { return tree_.str() + "/a.yaml"; }

 private:
  again how_;
  scratch_tree tree_;
};

// ---- canonical YAML --------------------------------------------------------------------------------

/// A key of a file that the writer wrote, found without the reader.
struct member {
  std::string path, key;  ///< the path without indices
  std::size_t line = 1, begin = 0, column = 0, value = 0, end = 0;  ///< value == end: a block follows
  bool flow = false;
};

class scan {
 public:
  explicit scan(const std::string& text) : text_(text) {
    std::vector<std::pair<std::size_t, std::string>> open;  // columns and keys
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1, ++line_) {
      const auto start = at;
      at = text.find_first_not_of(' ', at);
      while (text.compare(at, 2, "- ") == 0) at += 2;
      const auto colon = end_of_name(at);
      std::string outer;
      while (!open.empty() && open.back().first >= at - start) open.pop_back();
      for (const auto& [column, key] : open) outer += key + ".";
      if (colon == at || text[colon] != ':') {
        value(at, outer);
        continue;
      }
      member m{outer + text.substr(at, colon - at), text.substr(at, colon - at), line_, at, at - start, colon + 1, colon + 1, false};
      open.emplace_back(at - start, m.key);
      if (text[colon + 1] == ' ') m.value = colon + 2, m.end = value(colon + 2, m.path + ".");
      members.push_back(m);
    }
    std::set<std::string> seen;  // one of each kind is enough
    std::erase_if(members, [&](const member& m) { return !seen.insert(m.path).second; });
  }
  std::vector<member> members;

 private:
  std::size_t end_of_name(std::size_t at) const {
    while (std::isalnum(static_cast<unsigned char>(text_[at])) != 0 || std::string("_.+-").find(text_[at]) != std::string::npos) ++at;
    return at;
  }
  /// The end of a scalar or of a flow collection.
  std::size_t value(std::size_t at, const std::string& outer) {
    if (text_[at] == '"') {
      for (++at; text_[at] != '"'; ++at) at += text_[at] == '\\';
      return at + 1;
    }
    if (text_[at] != '{' && text_[at] != '[') return text_.find_first_of(",]}\n", at);
    const bool map = text_[at++] == '{';
    while (text_[at] != '}' && text_[at] != ']') {
      const auto begin = at, colon = end_of_name(at);
      if (map) at = value(colon + 2, outer + text_.substr(begin, colon - begin) + ".");
      else at = value(at, outer);
      if (map) members.push_back({outer + text_.substr(begin, colon - begin), text_.substr(begin, colon - begin), line_, begin, 0, colon + 2, at, true});
      if (text_[at] == ',') at += 2;
    }
    return at + 1;
  }
  const std::string& text_;
  std::size_t line_ = 1;
};

enum class type { block, text, flag, number, list, map, null };

type type_of(const std::string& value) {
  if (value.empty()) return type::block;
  if (value[0] == '"') return type::text;
  if (value[0] == '[') return type::list;
  if (value[0] == '{') return type::map;
  if (value == "null") return type::null;
  return value == "true" || value == "false" ? type::flag : type::number;
}

/// Another value of the same type.
std::string changed(std::string value) {
  switch (type_of(value)) {
    case type::text: return value.insert(1, "x");
    case type::flag: return value == "true" ? "false" : "true";
    case type::number: {
      auto& digit = value[(value.find('e') == std::string::npos ? value.size() : value.find('e')) - 1];
      digit = digit == '9' ? '8' : static_cast<char>(digit + 1);
      return value;
    }
    default: return "";
  }
}

/// Values that are none of this type.
std::vector<std::string> mistyped(type of) {
  switch (of) {
    case type::text: return {"7", "true", "[]", "null", "plain"};
    case type::flag: return {"7", "\"true\"", "yes", "null"};
    case type::number: return {"\"7\"", "true", "[7, 8, 9]", "{}", ".inf", "0x10", "fast"};
    case type::list: return {"\"x\"", "{}", "true"};
    case type::map: return {"\"x\"", "[]", "7"};
    case type::null: return {"\"x\"", "[]", "7"};
    default: return {};
  }
}

/// Axes are named by the spec, so any name may stand in these; `autotune check` compares them with the spec.
bool names_are_free(const std::string& path) {
  const auto dot = path.rfind('.');
  const auto parent = path.substr(0, dot == std::string::npos ? 0 : dot);
  for (const char* name : {"config", "reduction", "schedule"}) {
    if (parent == name || parent.ends_with(std::string(".") + name)) return true;
  }
  return false;
}

/// How many keys were tried.
std::size_t expect_strict(const std::string& text, const again& how) {
  const reading read(how);
  REQUIRE(read.of(text).written == text);
  const scan found(text);
  const auto with = [&](std::size_t begin, std::size_t end, const std::string& what) {
    auto other = text;
    return read.of(other.replace(begin, end - begin, what));
  };
  for (const auto& m : found.members) {
    CAPTURE(m.path);
    const auto at_line = [&](std::size_t line) { return read.path() + ":" + std::to_string(line) + ": "; };
    const auto gap = m.flow ? std::string(", ") : "\n" + std::string(m.column, ' ');
    const auto doubled = with(m.begin, m.begin, m.key + ": 7" + gap).error;
    CHECK_MESSAGE(doubled.starts_with(at_line(m.line + (m.flow ? 0 : 1)) + "duplicate key '" + m.key + "'"), doubled);
    const auto value = text.substr(m.value, m.end - m.value);
    const bool free = names_are_free(m.path);
    if (!free) {
      const auto joined = with(m.begin, m.begin, "zzz: 7" + gap).error;
      CHECK_MESSAGE(joined.starts_with(at_line(m.line) + "unknown key '"), joined);
      CHECK_MESSAGE(joined.find("zzz' with value 7; expected only ") != std::string::npos, joined);
      const auto renamed = with(m.begin, m.begin + m.key.size(), m.key + "_").error;
      const bool missing = renamed.find(" has no key '" + m.key + "'; expected one") != std::string::npos;
      const bool optional = renamed.find(": unknown key '") != std::string::npos && renamed.find(m.key + "_' with value ") != std::string::npos;
      const bool needed_here = renamed.starts_with(read.path() + ":") && renamed.find(m.key) != std::string::npos;
      CHECK_MESSAGE((missing || optional || needed_here), renamed);
      for (const auto& wrong : mistyped(type_of(value))) {
        CAPTURE(wrong);
        const auto refused = with(m.value, m.end, wrong).error;
        CHECK_MESSAGE(refused.starts_with(at_line(m.line)), refused);
        CHECK_MESSAGE(refused.find("; expected ") != std::string::npos, refused);
      }
    }
    if (changed(value).empty()) continue;
    const auto other = with(m.value, m.end, changed(value));
    auto as_changed = text;
    as_changed.replace(m.value, m.end - m.value, changed(value));
    CHECK_MESSAGE((other.error.starts_with(read.path() + ":") || other.written == as_changed), m.path, " is not kept as ", changed(value));
  }
  return found.members.size();
}

// ---- journals --------------------------------------------------------------------------------------

/// Calls `visit` with the place of every value below an object, outermost first.
void each_place(const json& value, const json::json_pointer& at, const std::function<void(const json::json_pointer&)>& visit) {
  for (const auto& [key, inner] : value.items()) {
    if (value.is_object()) visit(at / key);
    if (inner.is_structured()) each_place(inner, value.is_object() ? at / key : at / std::size_t(std::stoul(key)), visit);
  }
}

bool is_optional(const std::string& key, const json& line) {
  static const std::set<std::string> always = {"why", "shard", "incumbent", "best", "best_ratio"};
  return always.count(key) > 0 || ((key == "us" || key == "ratio") && line.value("state", "") != "ok" && line.value("phase", "") == "screen");
}

}  // namespace

TEST_CASE("strict: every committed record is written again as it is, byte for byte") {
  const std::tuple<const char*, const char*, again> kinds[] = {
      {"configs", ".yaml", config_again},           {"evidence", "/ceilings.yaml", ceilings_again}, {"evidence", "/predictions/", prediction_again},
      {"evidence", "/profiles/", profile_again},    {"evidence", "/sessions/", session_again},      {"evidence", "/verify/", verify_again},
      {"tests/fuzz/journals", ".jsonl", journal_again}};
  std::set<std::string> seen;
  for (const auto& [folder, part, how] : kinds) {
    for (const auto& path : committed(folder, part)) {
      CAPTURE(path);
      CHECK(how(path) == read_text(path));
      seen.insert(path);
    }
  }
  // Read and written elsewhere: do_bench.yaml by tools/do_bench_report.py; the timelines of the first schema
  // are read and no longer written.
  for (const auto& path : committed("evidence", "")) {
    const bool elsewhere = path.ends_with("/do_bench.yaml") || path.find("/timelines/") != std::string::npos;
    CHECK_MESSAGE((elsewhere || seen.count(path) > 0), path, " is of no kind that is read");
  }
  for (const auto& path : committed("evidence", "/timelines/")) {
    if (path.ends_with(".yaml")) CHECK_MESSAGE(read_text(path).starts_with("schema: \"capstone-timeline/1\""), path);
  }
}

TEST_CASE("strict: every key of a config") {
  auto config = read_config(committed("configs", ".yaml").front());
  config.cols.front().merge_band = 1.5;
  config.cols.front().rows.front().merge_cost = 1.25;
  CHECK(expect_strict(write_config(config), config_again) > 50);
}

TEST_CASE("strict: every key of the ceilings") {
  CHECK(expect_strict(read_text(committed("evidence", "/ceilings.yaml").front()), ceilings_again) > 60);
}

TEST_CASE("strict: every key of a prediction") {
  CHECK(expect_strict(read_text(committed("evidence", "/predictions/").back()), prediction_again) > 50);
}

TEST_CASE("strict: every key of a profile") {
  CHECK(expect_strict(read_text(committed("evidence", "/profiles/").front()), profile_again) > 50);
}

TEST_CASE("strict: every key of a session") {
  auto session = read_session(committed("evidence", "/sessions/").front());
  session.comparisons.resize(1);
  auto& race = session.comparisons.front();
  race.suite = "llm";
  race.absent = {{"apex", "", "not installed"}};
  for (auto& arm : race.arms) {
    if (arm.name != floor_name) arm.kernels = {"a_kernel"};
    arm.spread = {1, 2, 3, 4};
    arm.do_bench_ms = 5;
  }
  CHECK(expect_strict(write_session(session), session_again) > 60);
}

TEST_CASE("strict: every key of a verify record") {
  auto record = read_verify(committed("evidence", "/verify/").front());
  record.problems.resize(2);
  CHECK(expect_strict(write_verify(record), verify_again) > 40);
}

TEST_CASE("strict: what would be lost or stand twice is refused") {
  const auto ceilings_text = read_text(committed("evidence", "/ceilings.yaml").front());
  const auto session_text = read_text(committed("evidence", "/sessions/").front());
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    REQUIRE(text.find(from) != std::string::npos);
    return text.replace(text.find(from), from.size(), to);
  };
  const reading ceilings(ceilings_again), session(session_again);
  CHECK(ceilings.of(replaced(ceilings_text, "note: \"\"", "note: \"by hand\"")).error == ceilings.path() + ":9: note is \"by hand\"; expected \"\"");
  CHECK(session.of(replaced(session_text, "note: \"\"", "note: \"by hand\"")).error == session.path() + ":9: note is \"by hand\"; expected \"\"");
  for (const char* nothing : {"suite: \"\"", "absent: []"}) {
    const auto refused = session.of(session_text + "    " + nothing + "\n").error;
    CHECK_MESSAGE(refused.find(std::string(nothing).substr(0, 5)) != std::string::npos, refused);
  }
  const auto twice = session.of(replaced(session_text, "name: \"capstone A/A twin\"", "name: \"floor\"")).error;
  CHECK_MESSAGE(twice.find(".name is \"floor\"; expected a name that did not come before") != std::string::npos, twice);
}

TEST_CASE("strict: ceilings whose floors no line fits are refused by file and line, not by the fit") {
  auto text = read_text(committed("evidence", "/ceilings.yaml").front());
  auto c = read_ceilings(committed("evidence", "/ceilings.yaml").front());
  for (auto& point : c.floors) point.us = point.low = point.high = 1;  // no longer for more bytes
  const reading read(ceilings_again);
  const auto refused = read.of(write_ceilings(c)).error;
  CHECK_MESSAGE(refused.starts_with(read.path() + ":"), refused);
  CHECK_MESSAGE(refused.find("floors that a line fits") != std::string::npos, refused);
}

TEST_CASE("strict: every key of a journal") {
  const reading read(journal_again);
  std::set<std::string> seen;  // one place of each kind is enough
  for (const auto& path : committed("tests/fuzz/journals", ".jsonl")) {
    const auto lines = read_journal(path);
    const auto run_off = std::find_if(lines.begin(), lines.end(), [](const json& line) { return line.value("phase", "") == "run_off"; });
    for (std::size_t n = 0; n < lines.size(); ++n) {
      const auto phase = lines[n].value("phase", ""), state = lines[n].value("state", "");
      std::string before = n > 0 ? journal_line_text(lines[0]) + "\n" : "";
      if (phase == "group") before += journal_line_text(*run_off) + "\n";
      const auto where = read.path() + ":" + std::to_string(1 + std::count(before.begin(), before.end(), '\n')) + ": ";
      // With another line behind it: the last may be torn.
      const auto with = [&](const std::string& line) { return read.of(before + line + "\n\n").error; };
      CHECK(with(journal_line_text(lines[n])).empty());
      each_place(lines[n], json::json_pointer(), [&](const json::json_pointer& at) {
        auto kind = phase + (state == "ok" ? state : "") + at.to_string();
        std::erase_if(kind, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
        if (!seen.insert(kind).second) return;
        CAPTURE(where);
        CAPTURE(at.to_string());
        const auto key = at.back();
        const auto parent = at.parent_pointer();
        auto doubled = lines[n];
        doubled[parent]["zzz"] = 7;
        auto text = journal_line_text(doubled);
        text.replace(text.find("\"zzz\""), 5, json(key).dump());
        CHECK(with(text) == where + "duplicate key '" + key + "'; expected it once");
        const bool free = parent.to_string().ends_with("/config") || parent.to_string() == "/incumbent" || parent.to_string().ends_with("/failed");
        if (!free) {
          CHECK_MESSAGE(with(journal_line_text(doubled)).find("zzz' with value 7; expected only ") != std::string::npos, with(journal_line_text(doubled)));
          auto missing = lines[n];
          missing[parent].erase(key);
          const auto refused = with(journal_line_text(missing));
          if (!is_optional(key, lines[n])) CHECK_MESSAGE(refused.starts_with(where), key, " may be missing: ", refused);
        }
        const auto& value = lines[n][at];
        for (const json& wrong : {json(7.5), json("x"), json(true), json(), json::array(), json::array({json()}), json::object({{"x", 1}})}) {
          if (wrong.type() == value.type() && !wrong.is_structured()) continue;  // another string or flag
          if (wrong.is_number() && value.is_number_float()) continue;
          if (wrong.empty() && wrong.is_array() && (key == "audit" || key == "run_offs" || key == "flags" || (key == "cols" && n == 0))) continue;  // may be none
          auto mistyped = lines[n];
          mistyped[at] = wrong;
          const auto refused = with(journal_line_text(mistyped));
          CHECK_MESSAGE(refused.starts_with(where), wrong.dump(), " is accepted: ", refused);
          CHECK_MESSAGE(refused.find("expected ") != std::string::npos, refused);
        }
      });
    }
  }
  CHECK(seen.size() > 100);
}

TEST_CASE("strict: a journal's lines hang together") {
  const auto text = read_text(committed("tests/fuzz/journals", "planted").front());
  const reading read(journal_again);
  const auto line = [&](std::size_t n) {
    std::size_t begin = 0;
    for (; n > 1; --n) begin = text.find('\n', begin) + 1;
    return text.substr(begin, text.find('\n', begin) - begin + 1);
  };
  const auto with = [&](const std::string& more) { return read.of(text + more + "\n\n").error; };
  CHECK(with(line(3)) == read.path() + ":15: key is \"" + json::parse(line(3))["key"].get<std::string>() +
                             "\"; expected one that did not come before, as on line 3");
  auto group = json::parse(line(14));
  CHECK(with(group.dump()).empty());  // it may be summed up again
  group["run_offs"] = {json::parse(line(3))["key"]};
  CHECK(with(group.dump()).ends_with("; expected the key of a run_off before it"));
  auto header = json::parse(line(1));
  header["axes"] = "sha256:other";
  CHECK(with(header.dump()).empty());  // a run of other axes may go on
  header["source"] = "sha256:other";
  CHECK(with(header.dump()).starts_with(read.path() + ":15: source is \"sha256:other\"; expected \"sha256:"));
  CHECK(read.of(line(2) + "\n\n").error == read.path() + ":1: the line has no key 'schema'; expected one");
  auto phase = json::parse(line(3));
  phase["phase"] = "guess", phase["key"] = std::string(24, 'a');
  CHECK(with(phase.dump()) == read.path() + ":15: phase is \"guess\"; expected compile, gate, screen, check, run_off or group");
  phase["phase"] = "gate", phase["state"] = "fine";
  CHECK(with(phase.dump()).starts_with(read.path() + ":15: state is 'fine'; expected one of ok, untried, "));
  CHECK(with(std::string(2000000, '[')) == read.path() + ":15: a value lies in 8 others; expected at most 8");
}

TEST_CASE("strict: a journal takes no line that could not be read again, and makes way for a new one unread") {
  const scratch_tree tree("strict");
  const auto path = tree.str() + "/a.jsonl";
  const auto lines = read_journal(committed("tests/fuzz/journals", "planted").front());
  {
    capstone::tools::journal log(path, lines.front(), false);
    log.add(lines[2]);
    auto other = lines[3];
    other["cols"] = -1;
    CHECK_THROWS_WITH_AS(log.add(other), doctest::Contains("cols is -1; expected an integer from 0"), record_error);
    CHECK_THROWS_WITH_AS(log.add(lines[2]), doctest::Contains("expected one that is not in the journal"), record_error);
  }
  CHECK(read_journal(path).size() == 2);
  std::ofstream(path, std::ios::app) << "by hand\n\n";
  CHECK_THROWS_AS(capstone::tools::journal(path, lines.front(), true), record_error);
  CHECK_THROWS_AS(capstone::tools::journal(path, lines.front(), true), record_error);  // and not "another run writes it"
  CHECK(capstone::tools::journal(path, lines.front(), false).resumed() == 0);
  CHECK(read_text(tree.str() + "/a.1.jsonl.old").ends_with("by hand\n\n"));
}
