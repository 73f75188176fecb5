// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
//
// Records are YAML files that people review and programs compare byte by byte. So the writer is
// our own and canonical, and the reader is strict: what it does not know is an error with its line.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstone::tools {

/// A record that cannot be read or written. The text is `file:line: sentence`.
class record_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// ---- Frozen configs: configs/<device>/<kernel>.<dtype>.yaml -------------------------------------

inline constexpr const char* config_schema = "capstone-config/1";

/// Axis name and value token, in the order of the axes. Ints are decimal ("256"), flags "true" or
/// "false", enums their name ("packed"). In a file only the names are quoted.
using config_values = std::vector<std::pair<std::string, std::string>>;

/// What the run-off against the default and the runners-up measured.
struct run_off {
  double median_us = 0;
  double ci_low_us = 0, ci_high_us = 0;
  std::int64_t rounds = 0;
  double vs_default = 0;          ///< default's time / this one's: above 1 is faster
  std::vector<std::string> ties;  ///< others that were not proven slower than the fastest
  bool operator==(const run_off&) const = default;
};

/// The schedule for a range of row counts.
struct rows_entry {
  std::int64_t lo = 1, hi = 0;  ///< both included; hi = 0: no upper bound, `null` in the file
  config_values schedule;
  std::int64_t measured_rows = 0;  ///< the row count in [lo, hi] that the evidence was measured at
  run_off evidence;
  /// This schedule's time over that of the fastest with the same reduction here: what sharing a kernel
  /// with other row counts, or a tie, costs. Older files do not say.
  std::optional<double> merge_cost = {};
  bool operator==(const rows_entry&) const = default;
};

/// The reduction for one column count or a range of them, and the schedules within it.
struct cols_entry {
  std::int64_t lo = 1, hi = 1;  ///< both included; equal: exactly this column count
  config_values reduction;
  double invariance_worst = 0;  ///< time / best time of any reduction, at the worst row count
  std::int64_t invariance_at_rows = 0;
  std::vector<rows_entry> rows;
  std::optional<double> merge_band = {};  ///< where it was widened, so that the file has fewer configs
  bool operator==(const cols_entry&) const = default;
};

struct frozen_device {
  std::string id, name, cc;
  std::int64_t sms = 0, l2_bytes = 0;
  std::string driver;
  bool operator==(const frozen_device&) const = default;
};

struct frozen_toolchain {
  std::string cuda;
  std::vector<std::string> flags;
  bool operator==(const frozen_toolchain&) const = default;
};

/// How many candidates went where; failures are facts too.
struct candidate_counts {
  std::int64_t declared = 0, pruned = 0, compiled = 0, compile_error = 0, spilled = 0, wrong = 0,
               crashed = 0, implausible = 0, timed = 0;
  bool operator==(const candidate_counts&) const = default;
};

struct frozen_provenance {
  std::string git;
  bool dirty = false;
  std::int64_t seed = 0;
  candidate_counts candidates;
  bool operator==(const frozen_provenance&) const = default;
};

struct frozen_config {
  std::string kernel;  ///< op plus variant, e.g. "rms_norm+residual"
  std::string source;  ///< "sha256:…" of the kernel's source, see source_fingerprint
  std::string axes;    ///< "sha256:…" of the declared axes
  std::string dtype;   ///< "bf16", or x-weight-out: "bf16-f32-bf16"
  frozen_device device;
  frozen_toolchain toolchain;
  std::vector<cols_entry> cols;
  frozen_provenance provenance;
  bool operator==(const frozen_config&) const = default;
};

/// "configs/<device>/<kernel>.<dtype>.yaml"
std::string config_path(const frozen_config& config);

/// Reads one config; `file` names it in errors. Throws record_error.
frozen_config parse_config(std::string_view text, const std::string& file);
frozen_config read_config(const std::string& path);

/// The file's text, entries sorted. Throws record_error for what parse_config would not accept.
std::string write_config(const frozen_config& config);

// ---- Files --------------------------------------------------------------------------------------

/// Replaces a file as a whole or not at all; makes its folder. Throws record_error naming the file.
void atomic_write(const std::string& path, std::string_view text);

/// The whole file. Throws record_error naming it.
std::string read_text(const std::string& path);

// ---- Writing ------------------------------------------------------------------------------------

/// A double as records spell it: from 1 up with 4 decimals, below 1 with 4 significant digits, no
/// trailing zeros. Read and spelled again it is the same text. Throws std::invalid_argument unless
/// finite.
std::string format_double(double value);

/// The text of a scalar: strings quoted, ints and bools plain, nullptr `null`.
class yaml_scalar {
 public:
  template <std::integral T>
  yaml_scalar(T value) {
    if constexpr (std::same_as<T, bool>) {
      text_ = value ? "true" : "false";
    } else if (std::in_range<std::int64_t>(value)) {
      text_ = std::to_string(value);
    } else {
      throw std::invalid_argument("value is " + std::to_string(value) + "; expected an int64");
    }
  }
  yaml_scalar(double value) : text_(format_double(value)) {}
  yaml_scalar(std::nullptr_t) : text_("null") {}
  yaml_scalar(std::string_view value);
  yaml_scalar(const std::string& value) : yaml_scalar(std::string_view(value)) {}
  yaml_scalar(const char* value) : yaml_scalar(std::string_view(value)) {}
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

inline yaml_scalar::yaml_scalar(std::string_view value) : text_("\"") {
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (text_ += '\\') += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      (text_ += "\\x") += "0123456789abcdef"[byte >> 4];
      text_ += "0123456789abcdef"[byte & 15];
    } else {
      text_ += c;
    }
  }
  text_ += '"';
}

enum class yaml_style { block_map, block_list, flow_map, flow_list };

/// Emits canonical YAML in the order it is called. Flow styles go on one line.
///   yaml_writer w;
///   w.field("schema", "x/1").begin("device", yaml_style::flow_map).field("sms", 132).end();
///   w.begin("rows", yaml_style::block_list).begin(yaml_style::flow_map).field("n", 1).end().end();
///   atomic_write(path, w.text());
class yaml_writer {
 public:
  /// In a map. Keys are names: letters, digits, `_.+-`, no word that YAML reads as a value.
  yaml_writer& field(std::string_view key, const yaml_scalar& value) {
    put_key(key);
    text_ += " " + value.text();
    return end_entry();
  }
  /// In a list.
  yaml_writer& item(const yaml_scalar& value) {
    start(false);
    text_ += value.text();
    return end_entry();
  }
  /// Opens a map's member.
  yaml_writer& begin(std::string_view key, yaml_style style) {
    put_key(key);
    if (is_flow(style)) text_ += ' ';
    return open(style);
  }
  /// Opens a list's entry.
  yaml_writer& begin(yaml_style style) {
    start(false);
    return open(style);
  }
  /// Closes what was opened last.
  yaml_writer& end() {
    if (levels_.size() < 2) throw std::logic_error("yaml_writer: end() without begin()");
    const level top = levels_.back();
    levels_.pop_back();
    if (is_flow(top.style)) return text_ += is_map(top.style) ? "}" : "]", end_entry();
    if (!top.empty) return *this;
    if (text_.back() == ':') text_ += ' ';
    return text_ += is_map(top.style) ? "{}" : "[]", end_entry();
  }
  /// `key: [a, b]`
  template <class Range>
  yaml_writer& list(std::string_view key, const Range& values) {
    begin(key, yaml_style::flow_list);
    for (const auto& value : values) item(value);
    return end();
  }
  /// `key: {lanes: 256, hold: "packed", persistent: false}`
  yaml_writer& tokens(std::string_view key, const config_values& values);
  /// The finished file.
  const std::string& text() const {
    if (levels_.size() > 1) throw std::logic_error("yaml_writer: begin() without end()");
    return text_;
  }

 private:
  struct level {
    yaml_style style;
    std::size_t indent;
    bool empty = true;
  };
  static bool is_flow(yaml_style s) { return s >= yaml_style::flow_map; }
  static bool is_map(yaml_style s) {
    return s == yaml_style::block_map || s == yaml_style::flow_map;
  }
  void put_key(std::string_view key);
  void start(bool in_map) {
    level& top = levels_.back();
    if (is_map(top.style) != in_map) {
      throw std::logic_error("yaml_writer: keys belong in maps, items in lists");
    }
    if (is_flow(top.style)) {
      if (!top.empty) text_ += ", ";
    } else {
      const bool after_dash = top.empty && text_.ends_with("- ");
      if (top.empty && !text_.empty() && !after_dash) text_ += '\n';
      if (!after_dash) text_.append(top.indent, ' ');
      if (!in_map) text_ += "- ";
    }
    top.empty = false;
  }
  yaml_writer& open(yaml_style style) {
    if (is_flow(levels_.back().style) && !is_flow(style)) {
      throw std::logic_error("yaml_writer: a block style cannot lie in a flow style");
    }
    levels_.push_back({style, levels_.back().indent + 2});
    if (is_flow(style)) text_ += is_map(style) ? '{' : '[';
    return *this;
  }
  yaml_writer& end_entry() {
    if (!is_flow(levels_.back().style)) text_ += '\n';
    return *this;
  }

  std::string text_;
  std::vector<level> levels_ = {{yaml_style::block_map, 0}};
};

// ---- Reading ------------------------------------------------------------------------------------

/// A place in a YAML file. Every failure is a record_error `file:line: key is value; expected …`.
/// Duplicate keys, anchors, tags and a second document are errors at once; keys that nobody asked
/// for are errors in done().
class yaml_reader {
 public:
  static constexpr std::int64_t int_min = std::numeric_limits<std::int64_t>::min();
  static constexpr std::int64_t int_max = std::numeric_limits<std::int64_t>::max();
  static constexpr double double_min = std::numeric_limits<double>::lowest();

  /// The root, which must be a map.
  static yaml_reader parse(std::string_view text, const std::string& file);
  static yaml_reader load(const std::string& path);

  bool has(std::string_view key) const;         ///< also counts as asking for the key
  yaml_reader at(std::string_view key) const;   ///< a map's member; an error where missing
  std::vector<std::string> keys() const;        ///< a map's, in the file's order
  std::vector<yaml_reader> items() const;       ///< a list's
  bool is_null() const;
  bool is_list() const;

  std::int64_t as_int(std::int64_t min = int_min, std::int64_t max = int_max) const;
  double as_double(double min = double_min) const;
  bool as_bool() const;
  std::string as_string() const;
  config_values as_tokens() const;              ///< a map of ints, bools and names

  std::int64_t get_int(std::string_view key, std::int64_t min = int_min,
                       std::int64_t max = int_max) const {
    return at(key).as_int(min, max);
  }
  double get_double(std::string_view key, double min = double_min) const {
    return at(key).as_double(min);
  }
  bool get_bool(std::string_view key) const { return at(key).as_bool(); }
  std::string get_string(std::string_view key) const { return at(key).as_string(); }
  std::vector<yaml_reader> get_list(std::string_view key) const { return at(key).items(); }
  std::vector<std::string> get_strings(std::string_view key) const {
    return each<std::string>(key, [](const yaml_reader& r) { return r.as_string(); });
  }
  std::vector<double> get_doubles(std::string_view key) const {
    return each<double>(key, [](const yaml_reader& r) { return r.as_double(); });
  }
  std::vector<std::int64_t> get_ints(std::string_view key) const {
    return each<std::int64_t>(key, [](const yaml_reader& r) { return r.as_int(); });
  }

  /// Throws for the first key, here or below, that was not asked for. Call it last, on the root.
  void done() const;

  /// `file:line: <key> is <value>; expected <expected>`
  [[noreturn]] void fail(std::string_view expected) const;

  int line() const;

 private:
  struct node;
  struct builder;
  yaml_reader(std::shared_ptr<const node> root, const node* here, std::string file,
              std::string path);
  template <class T, class Read>
  std::vector<T> each(std::string_view key, Read read) const {
    std::vector<T> values;
    for (const auto& item : get_list(key)) values.push_back(read(item));
    return values;
  }
  yaml_reader child(std::size_t index) const;
  std::string name() const;
  [[noreturn]] void raise(int line, const std::string& sentence) const;

  std::shared_ptr<const node> root_;  ///< keeps the tree alive
  const node* here_;
  std::string file_, path_;
};

}  // namespace capstone::tools
