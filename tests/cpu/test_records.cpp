// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/records.hpp"

using namespace capstone::tools;
namespace fs = std::filesystem;

namespace {

// What the writer makes of sample(), spelled out: the file format as a reviewer sees it.
const std::string sample_text = R"(schema: "capstone-config/1"
kernel: {name: "rms_norm+residual", source: "sha256:SSSS", axes: "sha256:AAAA"}
dtype: "bf16"
device: {id: "h200", name: "NVIDIA H200", cc: "9.0", sms: 132, l2_bytes: 62914560, )"
                            R"(driver: "580.159"}
toolchain: {cuda: "13.0.88", flags: ["-std=c++20", "-arch=sm_90"]}
cols:
  - cols: [1, 4096]
    reduction: {}
    invariance_cost: {worst: 0, at_rows: 0}
    rows:
      - rows: [1, null]
        schedule: {}
        measured_rows: 1
        run_off: {median_us: 0, ci_us: [0, 0], rounds: 0, vs_default: 0, ties: []}
  - cols: 8192
    reduction: {lanes: 256, elements: 8, cluster: 1}
    invariance_cost: {worst: 1.01, at_rows: 1}
    rows:
      - rows: [1, 64]
        schedule: {tile_rows: 1, hold: "packed", persistent: false}
        measured_rows: 64
        run_off: {median_us: 41.87, ci_us: [41.8, 41.95], rounds: 40, vs_default: 1.0625, )"
                            R"(ties: ["a", "b"]}
      - rows: [65, null]
        schedule: {tile_rows: -2, hold: "registers", persistent: true}
        measured_rows: 4096
        run_off: {median_us: 0.0001235, ci_us: [1.0e-05, 123456.7891], rounds: 40, )"
                            R"(vs_default: 1, ties: []}
provenance: {git: "a\"b\\c", dirty: false, seed: 1, candidates: {declared: 9, pruned: 8, )"
                            R"(compiled: 7, compile_error: 6, spilled: 5, wrong: 4, crashed: 3, )"
                            R"(implausible: 2, timed: 1}}
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

std::string valid_text() {
  const auto with_source = replaced(sample_text, "SSSS", std::string(64, '5'));
  return replaced(with_source, "AAAA", std::string(64, 'a'));
}

// The message of reading the valid file with one fault in it.
std::string fault(const std::string& from, const std::string& to) {
  try {
    parse_config(replaced(valid_text(), from, to), "f.yaml");
  } catch (const record_error& error) {
    return error.what();
  }
  return "accepted";
}

struct folder {
  folder() {
    std::string name = (fs::temp_directory_path() / "capstone_records_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~folder() { fs::remove_all(path); }
  fs::path path;
};

}  // namespace

TEST_CASE("a config that is read and written again is the same, byte for byte") {
  CHECK(write_config(parse_config(valid_text(), "f.yaml")) == valid_text());
}

TEST_CASE("a config's values are read as they stand") {
  const auto c = parse_config(valid_text(), "f.yaml");
  CHECK(config_path(c) == "configs/h200/rms_norm+residual.bf16.yaml");
  CHECK(c.source == "sha256:" + std::string(64, '5'));
  CHECK(c.device.l2_bytes == 62914560);
  CHECK(c.toolchain.flags == std::vector<std::string>{"-std=c++20", "-arch=sm_90"});
  REQUIRE(c.cols.size() == 2);
  CHECK(c.cols[0].hi == 4096);
  CHECK(c.cols[1].lo == c.cols[1].hi);
  CHECK(c.cols[1].reduction ==
        config_values{{"lanes", "256"}, {"elements", "8"}, {"cluster", "1"}});
  const auto& r = c.cols[1].rows;
  REQUIRE(r.size() == 2);
  CHECK(r[0].schedule ==
        config_values{{"tile_rows", "1"}, {"hold", "packed"}, {"persistent", "false"}});
  CHECK(r[0].evidence.median_us == 41.87);
  CHECK(r[0].evidence.ties == std::vector<std::string>{"a", "b"});
  CHECK(r[1].hi == 0);
  CHECK(c.provenance.git == "a\"b\\c");
  CHECK(c.provenance.candidates.implausible == 2);
}

TEST_CASE("what merging cost is read where it is on record, and written again") {
  const auto with = replaced(replaced(valid_text(), "measured_rows: 64\n", "measured_rows: 64\n        merge_cost: 1.0088\n"),
                             "at_rows: 0}\n", "at_rows: 0}\n    merge_band: 1.015\n");
  const auto c = parse_config(with, "f.yaml");
  CHECK(*c.cols[1].rows[0].merge_cost == 1.0088);
  CHECK_FALSE(c.cols[1].rows[1].merge_cost);
  CHECK(*c.cols[0].merge_band == 1.015);
  CHECK_FALSE(c.cols[1].merge_band);
  CHECK(write_config(c) == with);
  CHECK(fault("measured_rows: 64\n", "measured_rows: 64\n        merge_cost: 0.99\n") ==
        "f.yaml:22: cols[1].rows[0].merge_cost is 0.99; expected a finite number from 1");
  CHECK(fault("at_rows: 0}\n", "at_rows: 0}\n    merge_band: \"1\"\n") ==
        "f.yaml:10: cols[0].merge_band is \"1\"; expected a finite number from 1");
}

TEST_CASE("the writer sorts cols and rows") {
  auto c = parse_config(valid_text(), "f.yaml");
  std::swap(c.cols[0], c.cols[1]);
  std::swap(c.cols[0].rows[0], c.cols[0].rows[1]);
  CHECK(write_config(c) == valid_text());
}

TEST_CASE("the writer refuses what the reader would not accept") {
  auto c = parse_config(valid_text(), "f.yaml");
  c.cols[0].hi = 8192;
  CHECK_THROWS_WITH_AS(write_config(c), doctest::Contains("expected no overlap with [1, 8192]"),
                       record_error);
  c.cols[0].hi = 4096;
  c.kernel = "../rms_norm";
  CHECK_THROWS_WITH_AS(write_config(c), doctest::Contains("kernel.name is \"../rms_norm\""),
                       record_error);
  c = parse_config(valid_text(), "f.yaml");
  c.cols[1].reduction.emplace_back("lanes", "1");
  CHECK_THROWS_WITH_AS(write_config(c), doctest::Contains("duplicate key 'lanes'"), record_error);
  c = parse_config(valid_text(), "f.yaml");
  c.cols[1].rows[0].evidence.median_us = std::nan("");
  CHECK_THROWS_AS(write_config(c), std::invalid_argument);
}

TEST_CASE("each fault in a config is told with file, line, key, value and what was expected") {
  CHECK(fault("capstone-config/1", "capstone-config/2") ==
        "f.yaml:1: schema is \"capstone-config/2\"; expected \"capstone-config/1\"");
  CHECK(fault("schema: \"capstone-config/1\"\n", "") ==
        "f.yaml:1: the file has no key 'schema'; expected one");
  CHECK(fault(", axes: ", ", axis: ") == "f.yaml:2: kernel has no key 'axes'; expected one");
  CHECK(fault("sms: 132,", "sms: 132, cores: 3,") ==
        "f.yaml:4: unknown key 'device.cores' with value 3; expected only id, name, cc, sms, "
        "l2_bytes, driver");
  CHECK(fault("  - cols: 8192\n", "  - cols: 8192\n    note: \"x\"\n") ==
        "f.yaml:16: unknown key 'cols[1].note' with value \"x\"; expected only cols, reduction, "
        "invariance_cost, merge_band, rows");
  CHECK(fault("dtype: \"bf16\"\n", "dtype: \"bf16\"\ndtype: \"f32\"\n") ==
        "f.yaml:4: duplicate key 'dtype' with value \"f32\"; expected it once, as on line 3");
  CHECK(fault("lanes: 256,", "lanes: 256, lanes: 128,") ==
        "f.yaml:16: duplicate key 'lanes' with value 128; expected it once, as on line 16");
  CHECK(fault("sms: 132", "sms: \"132\"") ==
        "f.yaml:4: device.sms is \"132\"; expected an integer from 0");
  CHECK(fault("dtype: \"bf16\"", "dtype: bf16") ==
        "f.yaml:3: dtype is bf16; expected a string in quotes");
  CHECK(fault("dirty: false", "dirty: no") ==
        "f.yaml:27: provenance.dirty is no; expected true or false");
  CHECK(fault("worst: 1.01", "worst: fast") ==
        "f.yaml:17: cols[1].invariance_cost.worst is fast; expected a finite number from 0");
  CHECK(fault("sha256:" + std::string(64, '5'), "md5:5") ==
        "f.yaml:2: kernel.source is \"md5:5\"; expected \"sha256:\" and 64 lowercase hex digits");
  CHECK(fault("ties: []", "ties: {}") ==
        "f.yaml:14: cols[0].rows[0].run_off.ties is a map; expected a list");
  CHECK(fault("rounds: 40", "rounds: -1") ==
        "f.yaml:22: cols[1].rows[0].run_off.rounds is -1; expected an integer from 0");
}

TEST_CASE("a range that overlaps, is out of order or ends before it starts is told apart") {
  CHECK(fault("cols: [1, 4096]", "cols: [1, 8192]") ==
        "f.yaml:15: cols[1].cols is 8192; expected no overlap with [1, 8192]");
  CHECK(fault("cols: [1, 4096]", "cols: [8193, 9000]") ==
        "f.yaml:15: cols[1].cols is 8192; expected ranges in order, this one after [8193, 9000]");
  CHECK(fault("cols: [1, 4096]", "cols: [5, 4]") ==
        "f.yaml:7: cols[0].cols[1] is 4; expected a last bound from 5 up");
  CHECK(fault("cols: [1, 4096]", "cols: [5, 5]") ==
        "f.yaml:7: cols[0].cols is [5, 5]; expected 5 without brackets");
  CHECK(fault("[1, 4096]", "[5]") ==
        "f.yaml:7: cols[0].cols is [5]; expected two bounds, [first, last]");
  CHECK(fault("cols: [1, 4096]", "cols: [1, null]") ==
        "f.yaml:7: cols[0].cols[1] is null; expected an integer from 1");
  CHECK(fault("rows: [65, null]", "rows: [64, null]") ==
        "f.yaml:23: cols[1].rows[1].rows is [64, null]; expected no overlap with [1, 64]");
  CHECK(fault("rows: [1, 64]", "rows: [1, null]") ==
        "f.yaml:23: cols[1].rows[1].rows is [65, null]; expected no overlap with [1, null]");
  CHECK(fault("rows: [1, 64]", "rows: [64, 64]") == "accepted");
  CHECK(fault("measured_rows: 64", "measured_rows: 65") ==
        "f.yaml:21: cols[1].rows[0].measured_rows is 65; expected an integer from 1 up to 64");
  CHECK(fault("ci_us: [41.8, 41.95]", "ci_us: [41.96, 41.95]") ==
        "f.yaml:22: cols[1].rows[0].run_off.ci_us[1] is 41.95; expected a bound from 41.96");
  const auto head = valid_text().substr(0, valid_text().find("cols:"));
  CHECK_THROWS_WITH_AS(parse_config(head + "cols: []\n", "f"),
                       "f:6: cols is []; expected at least one entry", record_error);
}

TEST_CASE("a config's values are plain integers and flags or quoted names, nothing else") {
  for (const char* value : {"packed", "\"12\"", "\"true\"", "1.5", "007", "+1", "0x10", "[1]",
                            "null", "\"a b\"", "\"\"", "99999999999999999999"}) {
    CHECK(fault("hold: \"packed\"", std::string("hold: ") + value) ==
          "f.yaml:20: cols[1].rows[0].schedule.hold is " + std::string(value) +
              "; expected a plain integer, true or false, or a name in quotes");
  }
  CHECK(fault("hold:", "\"on\":") ==
        "f.yaml:20: key 'cols[1].rows[0].schedule.on'; expected a name");
}

TEST_CASE("YAML beyond plain maps, lists and scalars is refused") {
  const auto refuses = [](const std::string& text, const char* message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(yaml_reader::parse(text, "f"), doctest::Contains(message), record_error);
  };
  refuses("", "f:1: the file is null; expected a map of keys");
  refuses("[1]", "f:1: the file is [1]; expected a map of keys");
  refuses("a: 1\nb: &x 2\n", "f:2: an anchor (&)");
  refuses("a: &x 1\nb: *x\n", "an anchor (&)");
  refuses("a: !!int 1\n", "f:1: tag 'tag:yaml.org,2002:int'");
  refuses("a: 1\n---\nb: 1\n", "f:2: a second document");
  refuses("a: [1\n", "not YAML: ");
  refuses("a: 1\r\n", "f:1: control character 13");
  refuses(std::string("a: 1\nb: \0\n", 10), "f:2: control character 0");
  refuses("\xef\xbb\xbf" "a: 1\n", "a byte-order mark");
  refuses("null: 1\n", "f:1: a key is null; expected a name");
  refuses("? [1]\n: 2\n", "a key is [1]; expected a name");
  refuses("a: {b: 1, b: 1}\n", "duplicate key 'b'");
  CHECK_THROWS_AS(yaml_reader::parse("a: " + std::string(20000, '['), "f"), record_error);
}

TEST_CASE("a damaged file is either read or refused with a record_error, never worse") {
  const std::string valid = valid_text();
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string text = valid;
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const auto at = random() % text.size();
      const auto byte = static_cast<char>(random());
      const char structural[] = "\n:,[]{}\"'#&*!|>-? %@0";
      switch (random() % 5) {
        case 0: text[at] = byte; break;
        case 1: text[at] = structural[random() % (sizeof structural - 1)]; break;
        case 2: text.erase(at, 1 + random() % 20); break;
        case 3: text.insert(at, 1, structural[random() % (sizeof structural - 1)]); break;
        default: text.insert(at, text.substr(random() % text.size(), random() % 40)); break;
      }
    }
    try {
      const auto again = write_config(parse_config(text, "f"));  // accepted: has a canonical form
      CHECK(write_config(parse_config(again, "f")) == again);
    } catch (const record_error& error) {
      ++refused;
      CHECK(std::string(error.what()).starts_with("f:"));
    }
  }
  CHECK(refused > 1000);
  CHECK(refused < 2000);
}

TEST_CASE("a double survives writing and reading, in YAML 1.1 too") {
  CHECK(format_double(41.87) == "41.87");
  CHECK(format_double(0) == "0");
  CHECK(format_double(-0.0) == "0");
  CHECK(format_double(1.01) == "1.01");
  CHECK(format_double(123456.789012) == "123456.789");
  CHECK(format_double(-3.5) == "-3.5");
  CHECK(format_double(0.00012345678) == "0.0001235");
  CHECK(format_double(1e-5) == "1.0e-05");
  CHECK(format_double(1e300) == "1.0e+300");
  CHECK(format_double(100) == "100");
  CHECK(format_double(0.99999) == "1");
  CHECK_THROWS_AS(format_double(std::numeric_limits<double>::infinity()), std::invalid_argument);
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-30, 30);
  for (int i = 0; i < 5000; ++i) {
    const auto text = format_double(std::pow(10, exponent(random)));
    const double read = yaml_reader::parse("x: " + text + "\n", "f").get_double("x");
    CHECK(format_double(read) == text);
  }
}

TEST_CASE("the writer's text reads back, nested and with any characters") {
  const std::string odd = "tab\t quote\" back\\ newline\n del\x7f caf\xc3\xa9 # : - [";
  yaml_writer w;
  w.field("odd", odd).field("no_value", nullptr).field("flag", true).field("big", INT64_MIN);
  w.list("doubles", std::vector<double>{1.5, 2}).list("none", std::vector<int>{});
  w.begin("empty_map", yaml_style::block_map).end().begin("empty_list", yaml_style::block_list);
  w.end().begin("list", yaml_style::block_list).item("x").begin(yaml_style::flow_map);
  w.field("a", 1).end().begin(yaml_style::block_map).field("b", 2).field("c.d-e", 3).end();
  w.begin(yaml_style::block_map).end().end();
  w.begin("map", yaml_style::block_map).tokens("values", {{"n", "1"}, {"h", "packed"}}).end();
  const auto r = yaml_reader::parse(w.text(), "f");
  CHECK(r.get_string("odd") == odd);
  CHECK(r.at("no_value").is_null());
  CHECK(r.get_bool("flag"));
  CHECK(r.get_int("big") == INT64_MIN);
  CHECK(r.get_doubles("doubles") == std::vector<double>{1.5, 2});
  CHECK(r.get_ints("none").empty());
  CHECK(r.at("empty_map").keys().empty());
  CHECK(r.get_list("empty_list").empty());
  const auto list = r.get_list("list");
  REQUIRE(list.size() == 4);
  CHECK(list[0].as_string() == "x");
  CHECK(list[1].get_int("a") == 1);
  CHECK(list[2].get_int("c.d-e") == 3);
  CHECK_THROWS_WITH_AS(r.done(), doctest::Contains("unknown key 'list[2].b' with value 2"),
                       record_error);
  CHECK(list[2].has("b"));
  CHECK_FALSE(list[2].has("z"));
  CHECK(r.at("map").at("values").as_tokens() == config_values{{"n", "1"}, {"h", "packed"}});
  r.done();
}

TEST_CASE("the writer refuses calls that would not make YAML") {
  CHECK_THROWS_AS(yaml_writer().item(1), std::logic_error);
  CHECK_THROWS_AS(yaml_writer().begin("a", yaml_style::flow_map).text(), std::logic_error);
  CHECK_THROWS_AS(yaml_writer().begin("a", yaml_style::flow_list).field("b", 1), std::logic_error);
  CHECK_THROWS_AS(yaml_writer().field("two words", 1), std::invalid_argument);
  CHECK_THROWS_AS(yaml_writer().field("on", 1), std::invalid_argument);
  CHECK_THROWS_AS(yaml_writer().field("x", UINT64_MAX), std::invalid_argument);
}

TEST_CASE("a file is replaced as a whole, in a folder made for it, with nothing left beside it") {
  folder f;
  const auto path = (f.path / "new/folder/x.yaml").string();
  atomic_write(path, "one\n");
  atomic_write(path, "two\n");
  CHECK(read_text(path) == "two\n");
  CHECK(std::distance(fs::directory_iterator(f.path / "new/folder"), {}) == 1);
  std::ofstream(f.path / "usual") << "x";
  CHECK(fs::status(path).permissions() == fs::status(f.path / "usual").permissions());
}

TEST_CASE("a file that cannot be read or written is named, and what was there stays") {
  folder f;
  const auto path = (f.path / "x").string();
  atomic_write(path, "one\n");
  CHECK_THROWS_WITH_AS(atomic_write(path + "/y", "two\n"), doctest::Contains("/y: cannot be "),
                       record_error);
  fs::create_directory(f.path / "taken");
  CHECK_THROWS_WITH_AS(atomic_write((f.path / "taken").string(), "two\n"),
                       doctest::Contains("taken: cannot be written: "), record_error);
  CHECK(read_text(path) == "one\n");
  CHECK(std::distance(fs::directory_iterator(f.path), {}) == 2);
  CHECK_THROWS_WITH_AS(read_config("/nowhere/x"),
                       doctest::Contains("/nowhere/x: cannot be read: No such file"), record_error);
  CHECK_THROWS_AS(read_text(f.path.string()), record_error);
}
