// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Fuzzes the readers of configs and journals with damaged committed files, under the sanitizers:
//
//   fuzz_records [--seconds S] [--seed N] [--only I]
//
// Whatever a file holds, it is read or refused with a record_error `file:line: ...`, within a second. What is
// read has a normal form (what is written of it) that is read and written as the same bytes, and that holds
// every scalar of the file: a duplicate key, or one that nobody reads, would be lost. Every input follows from
// the seed and its number alone, which are printed on a fault; --only repeats it and prints the input.
// Exit codes: 0 no fault; 1 a fault; 2 usage.
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "autotune/journal.hpp"
#include "autotune/journal_line.hpp"
#include "core/records.hpp"

using namespace capstone::tools;
namespace fs = std::filesystem;

namespace {

unsigned long long seed = 1, nth = 0;
std::string input;  // being read
bool print_input = false;

[[noreturn]] void fault(const std::string& sentence) {
  std::printf("fault: seed %llu, input %llu: %s\n", seed, nth, sentence.c_str());
  if (print_input) std::printf("%s\n", input.c_str());
  else std::printf("repeat it with --seed %llu --only %llu\n", seed, nth);
  std::fflush(stdout);
  std::_Exit(1);
}

// ---- the two formats -----------------------------------------------------------------------------

struct counter : YAML::EventHandler {
  using place = const YAML::Mark&;
  using text = const std::string&;
  void OnDocumentStart(place) override {}
  void OnDocumentEnd() override {}
  void OnNull(place, YAML::anchor_t) override { ++scalars; }
  void OnAlias(place, YAML::anchor_t) override {}
  void OnScalar(place, text, YAML::anchor_t, const std::string&) override { ++scalars; }
  void OnSequenceStart(place, text, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(place, text, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
  std::size_t scalars = 0;
};

struct config_format {
  static constexpr const char* name = "f.yaml";
  static std::string again(const std::string& text) { return write_config(parse_config(text, name)); }
  static std::size_t scalars(const std::string& text) {
    std::istringstream in{text};
    YAML::Parser parser(in);
    counter events;
    while (parser.HandleNextDocument(events)) {
    }
    return events.scalars;
  }
};

struct journal_format {
  static constexpr const char* name = "f.jsonl";
  static std::string again(const std::string& text) {
    std::string written;
    for (const auto& line : parse_journal(text, name).lines) written += journal_line_text(line) + "\n";
    return written;
  }
  static std::size_t scalars(const std::string& text) {
    const auto whole = text.substr(0, parse_journal(text, name).whole);
    std::size_t found = 0;
    std::istringstream lines{whole};
    for (std::string line; std::getline(lines, line);) {
      using at = nlohmann::json::parse_event_t;
      const auto ignored = nlohmann::json::parse(line, [&](int, at event, nlohmann::json&) {
        found += event == at::key || event == at::value;
        return true;
      });
    }
    return found;
  }
};

/// Whether the text was read.
template <class Format>
bool holds(const std::string& text) {
  input = text;
  const auto begin = std::clock();  // of this process: others may keep it waiting
  alarm(20);
  bool read = false;
  try {
    const auto normal = Format::again(text);
    read = true;
    const auto twice = Format::again(normal);
    if (twice != normal) fault("the normal form is not read and written as it is");
    if (const auto all = Format::scalars(text), kept = Format::scalars(normal); all != kept) {
      fault("of " + std::to_string(all) + " scalars that were accepted " + std::to_string(kept) + " were read");
    }
  } catch (const record_error& error) {
    const std::string words = error.what(), file = std::string(Format::name) + ":";
    if (read) fault("the normal form is refused: " + words);
    const auto digits = words.find_first_not_of("0123456789", file.size());
    if (!words.starts_with(file) || digits == file.size() || words.compare(digits, 2, ": ") != 0) {
      fault("the error names no file and line: " + words);
    }
  } catch (const std::exception& error) {
    fault(std::string("not a record_error: ") + error.what());
  }
  alarm(0);
  if (std::clock() - begin > CLOCKS_PER_SEC) fault("it took longer than a second");
  return read;
}

// ---- damage --------------------------------------------------------------------------------------

using random_bits = std::mt19937_64;

std::size_t below(random_bits& random, std::size_t end) { return end == 0 ? 0 : random() % end; }

/// Values that a person or another program might leave: right, of another type, or on the edge.
const std::vector<std::string> values = {
    "null", "true", "0", "1", "-1", "7", "-0.0", "1.5", "1e400", "0.30000000000000004", "18446744073709551615", "9223372036854775807",
    "007", "inf", "nan", "yes", "\"\"", "\"x\"", "\"a\\\\b\\\"c\"", "\"\\u0000\"", "\"caf\xc3\xa9\"", "[]", "{}", "[[]]", "[1]", "[1, 2, 3]",
    "[\"x\"]", "{\"a\":1}"};

/// What only a fuzzer leaves, or a merge.
const std::vector<std::string> words = {
    "~", ".inf", "0x10", "\\\\", "\\\"", "\\n", "\\x01", "\"\\ud800\"", "\"\\x80\"", "\"\\N\"", "{a: 1}", "&a ", "*a", "!!str ", "!", "? ", "- ", ": ", "#", " #", "'", "|\n",
    ">\n", "---\n", "...\n", "%YAML 1.2\n", "<<: ", "\r\n", "\t", "\n", "\n\n", ",", "}", "]", "\xef\xbb\xbf", "\xff\xfe", "\xc2\x85",
    "\xe2\x80\xa8", "\xed\xa0\x80", "\xf0\x9f\x98\x80", "<<<<<<< a\n", "=======\n"};

std::size_t line_begin(const std::string& text, std::size_t at) {
  const auto before = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
  return before == std::string::npos ? 0 : before + 1;
}

std::string line_at(const std::string& text, std::size_t at) {
  const auto begin = line_begin(text, at), end = text.find('\n', at);
  return text.substr(begin, end == std::string::npos ? end : end + 1 - begin);
}

/// The end of a string, of a collection in brackets or of a plain scalar.
std::size_t value_end(const std::string& text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < text.size() && text[at] != '\n'; ++at) {
    const char c = text[at];
    if (quoted && c == '\\') ++at;
    else if (c == '"') quoted = !quoted;
    else if (quoted) continue;
    else if (c == '{' || c == '[') ++depth;
    else if (depth == 0 && (c == ',' || c == '}' || c == ']')) break;
    else if (c == '}' || c == ']') --depth;
  }
  return std::min(at, text.size());
}

/// `key: value` or `"key":value`, the next from `at` on.
struct member {
  std::size_t begin = 0, value = 0, end = 0;
};

member member_near(const std::string& text, std::size_t at) {
  const auto colon = text.find(':', at);
  if (colon == std::string::npos) return {};
  auto begin = colon;
  while (begin > 0 && (std::isalnum(static_cast<unsigned char>(text[begin - 1])) != 0 || std::string("_.+-\"").find(text[begin - 1]) != std::string::npos)) --begin;
  const auto value = std::min(text.find_first_not_of(' ', colon + 1), text.size());
  return {begin, value, value_end(text, value)};
}

const std::string& any(const std::vector<std::string>& of, random_bits& random) { return of[below(random, of.size())]; }

void damage(std::string& text, const std::string& other, random_bits& random) {
  const auto at = below(random, text.size());
  const auto near = member_near(text, at);
  const bool in_line = text.find_first_of("{}", line_begin(text, near.begin)) < near.end;
  switch (random() % 18) {
    case 0: if (!text.empty()) text[at] = static_cast<char>(random()); break;
    case 1: if (!text.empty()) text[at] ^= static_cast<char>(1 << random() % 8); break;
    case 2: text.erase(at, 1 + random() % 30); break;
    case 3: text.insert(at, any(words, random)); break;
    case 4: text.resize(at); break;
    case 5: text.insert(line_begin(text, at), line_at(text, below(random, text.size()))); break;  // a line again, elsewhere
    case 6: text.erase(line_begin(text, at), line_at(text, at).size()); break;
    case 7: text.insert(at, other.substr(below(random, other.size()), random() % 60)); break;
    case 8: text.insert(at, std::string(1 + random() % 3000, "[{ \n\"-#"[random() % 7])); break;  // deep or long
    case 9:
    case 10: {  // a member again, beside itself
      const auto again = text.substr(near.begin, near.end - near.begin);
      text.insert(near.begin, again + (in_line ? "," : "\n" + std::string(near.begin - line_begin(text, near.begin), ' ')));
      break;
    }
    case 11: {  // a digit
      const auto digit = text.find_first_of("0123456789", at);
      if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random() % 10);
      break;
    }
    case 12: {  // one less in a list
      const auto begin = std::min(text.find('[', at), text.size());
      const auto end = value_end(text, std::min(begin + 1, text.size()));
      if (end < text.size() && text[end] == ',') text.erase(begin + 1, end - begin);
      break;
    }
    case 13: {  // a member less
      const auto comma = near.end < text.size() && text[near.end] == ',';
      text.erase(near.begin, near.end - near.begin + (comma ? 1 : 0));
      break;
    }
    default: text.replace(near.value, near.end - near.value, any(values, random)); break;
  }
}

// ---- corpus --------------------------------------------------------------------------------------

struct sample {
  bool is_journal;
  std::string text;
};

/// The committed files; of each config the first entries too, which are quicker to read.
std::vector<sample> corpus() {
  std::vector<sample> found;
  const fs::path root = CAPSTONE_SOURCE_DIR;
  for (const char* folder : {"configs", "tests/fuzz/journals"}) {
    std::vector<std::string> paths;
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      if (entry.path().extension() == ".yaml" || entry.path().extension() == ".jsonl") paths.push_back(entry.path().string());
    }
    std::sort(paths.begin(), paths.end());
    for (const auto& path : paths) {
      const bool is_journal = path.ends_with(".jsonl");
      found.push_back({is_journal, read_text(path)});
      if (is_journal) continue;
      auto config = parse_config(found.back().text, path);
      config.cols.resize(1);
      config.cols[0].merge_band = 1.02;
      config.cols[0].rows[0].merge_cost = 1.001;
      found.push_back({false, write_config(config)});
    }
  }
  return found;
}

bool holds(const sample& one) { return one.is_journal ? holds<journal_format>(one.text) : holds<config_format>(one.text); }

/// The nth input.
sample made(const std::vector<sample>& from) {
  std::seed_seq both{seed, nth};
  random_bits random(both);
  auto chosen = from[below(random, from.size())];
  if (chosen.text.size() > 5500) chosen = from[below(random, from.size())];  // the long ones less often
  const auto& other = from[below(random, from.size())].text;
  for (auto times = 1 + random() % 5 / 3; times > 0; --times) damage(chosen.text, other, random);
  return chosen;
}

void on_signal(int which) { fault(which == SIGALRM ? "it hangs" : "signal " + std::to_string(which)); }

}  // namespace

int main(int argc, char** argv) {
  double seconds = 8;
  bool only = false;
  for (int i = 1; i < argc; i += 2) {
    const std::string option = argv[i];
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--seconds" && *value != 0) seconds = std::atof(value);
    else if (option == "--seed" && *value != 0) seed = std::strtoull(value, nullptr, 10);
    else if (option == "--only" && *value != 0) only = true, nth = std::strtoull(value, nullptr, 10);
    else {
      std::fprintf(stderr, "fuzz_records: '%s' '%s'; expected --seconds S, --seed N or --only I\n", option.c_str(), value);
      return 2;
    }
  }
  signal(SIGALRM, on_signal);
  signal(SIGABRT, on_signal);
  __sanitizer_set_death_callback([] { fault("a sanitizer ended it, its words are above"); });
  const auto samples = corpus();
  if (only) {
    const auto one = made(samples);
    print_input = true;
    std::printf("%s\n", one.text.c_str());
    std::printf("input %llu of seed %llu is %s\n", nth, seed, holds(one) ? "read" : "refused");
    return 0;
  }
  std::printf("seed %llu, %zu samples\n", seed, samples.size());
  for (const auto& each : samples) {
    if (!holds(each)) fault("a committed file is refused");
  }
  unsigned long long read[2] = {0, 0}, all[2] = {0, 0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (; std::chrono::steady_clock::now() < end; ++nth) {
    const auto one = made(samples);
    ++all[one.is_journal];
    read[one.is_journal] += holds(one);
  }
  std::printf("%llu inputs: %llu of %llu configs and %llu of %llu journals were read, the others refused\n", nth, read[0], all[0],
              read[1], all[1]);
  // Damage that is always refused, or never, tests nothing.
  for (const int kind : {0, 1}) {
    if (read[kind] == 0 || read[kind] == all[kind]) fault("the damage is of no use");
  }
  return 0;
}
