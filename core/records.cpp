// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
//
// The only user of yaml-cpp, and of its events only: its nodes lose duplicate keys (0.7 to 0.9) and
// its emitter writes 41.87 as 41.869999999999997.
#include "core/records.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <utility>

namespace capstone::tools {
namespace {

bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Letters, digits, _ and `extra`; a letter, digit or _ first.
bool is_name(std::string_view s, std::string_view extra) {
  return !s.empty() && (is_alpha(s[0]) || is_digit(s[0])) && std::ranges::all_of(s, [&](char c) {
    return is_alpha(c) || is_digit(c) || extra.find(c) != std::string_view::npos;
  });
}

// Only the spelling that we write: no plus, no leading zeros, which YAML 1.1 reads as octal.
bool parse_int(const std::string& s, std::int64_t& value) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), value);
  return error == std::errc{} && end == s.data() + s.size() && std::to_string(value) == s;
}

bool is_plain_token(const std::string& s) {
  std::int64_t ignored = 0;
  return s == "true" || s == "false" || parse_int(s, ignored);
}

// A word that YAML 1.1 readers do not take for a value.
bool is_key(std::string_view s) {
  return is_name(s, ".+-") && !is_digit(s[0]) && s != "true" && s != "false" && s != "null" &&
         s != "yes" && s != "no" && s != "on" && s != "off";
}

std::string at_line(const std::string& file, int line) {
  return file + ":" + std::to_string(line) + ": ";
}

[[noreturn]] void file_error(const std::string& path, const char* what, int error) {
  throw record_error(path + ": cannot be " + what + ": " + std::strerror(error));
}

}  // namespace

// ---- Files --------------------------------------------------------------------------------------

std::string read_text(const std::string& path) {
  std::error_code ignored;
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) file_error(path, "read", errno);
  if (std::filesystem::is_directory(path, ignored)) file_error(path, "read", EISDIR);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void atomic_write(const std::string& path, std::string_view text) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) file_error(path, "written", error.value());
  // In the same folder, since a rename is atomic within one file system only.
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkstemp(temporary.data());
  if (fd < 0) file_error(path, "written", errno);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  bool good = ::fchmod(fd, 0666 & ~mask) == 0;
  while (good && !text.empty()) {
    const auto written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    good = written > 0;
    if (good) text.remove_prefix(static_cast<std::size_t>(written));
  }
  good = good && ::fsync(fd) == 0;
  int cause = errno;
  if (::close(fd) != 0 && good) good = false, cause = errno;
  if (good && ::rename(temporary.c_str(), path.c_str()) != 0) good = false, cause = errno;
  if (good) return;
  ::unlink(temporary.c_str());
  file_error(path, "written", cause);
}

// ---- Writing ------------------------------------------------------------------------------------

std::string format_double(double value) {
  if (!std::isfinite(value)) {
    throw std::invalid_argument("value is " + std::to_string(value) + "; expected a finite number");
  }
  if (value == 0) return "0";  // and -0
  char buffer[64];
  const bool fixed = std::abs(value) >= 1 && std::abs(value) < 1e15;
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value,
                                 fixed ? std::chars_format::fixed : std::chars_format::general, 4);
  std::string text(buffer, end.ptr);
  const auto exponent = text.find('e');
  if (fixed) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  } else if (exponent != std::string::npos && text.find('.') == std::string::npos) {
    text.insert(exponent, ".0");  // YAML 1.1 readers take 1e-05 for a string
  }
  return text;
}

void yaml_writer::put_key(std::string_view key) {
  if (!is_key(key)) {
    throw std::invalid_argument("key is '" + std::string(key) + "'; expected a name");
  }
  start(true);
  (text_ += key) += ':';
}

yaml_writer& yaml_writer::tokens(std::string_view key, const config_values& values) {
  begin(key, yaml_style::flow_map);
  for (const auto& [name, token] : values) {
    put_key(name);
    text_ += " " + (is_plain_token(token) ? token : yaml_scalar(token).text());
  }
  return end();
}

// ---- Reading ------------------------------------------------------------------------------------

struct yaml_reader::node {
  enum { null, scalar, list, map } kind = null;
  int line = 1;
  bool quoted = false;
  std::string key, text;
  std::vector<node> children;
  mutable std::vector<std::string> asked;  // keys of a map that a caller knows

  std::string describe() const {
    if (kind == null) return "null";
    if (kind == map) return "a map";
    std::string shown = text.size() > 60 ? text.substr(0, 60) + "..." : text;
    if (kind == scalar) return quoted ? '"' + shown + '"' : shown;
    const bool deep = std::ranges::any_of(children, [](const node& n) { return n.kind >= list; });
    if (deep || children.size() > 4) {
      return "a list of " + std::to_string(children.size());
    }
    for (const auto& c : children) shown += (shown.empty() ? "" : ", ") + c.describe();
    return "[" + shown + "]";
  }
};

struct yaml_reader::builder : YAML::EventHandler {
  builder(std::string name, node& top) : file(std::move(name)), root(top) {}

  [[noreturn]] void raise(int line, const std::string& sentence) const {
    throw record_error(at_line(file, line) + sentence);
  }
  node make(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    node n;
    n.line = std::max(1, mark.line + 1);
    if (anchor != 0) raise(n.line, "an anchor (&); expected YAML without anchors");
    if (!tag.empty() && tag != "?" && tag != "!") {
      raise(n.line, "tag '" + tag + "'; expected YAML without tags");
    }
    n.quoted = tag == "!";
    return n;
  }
  void attach(node n) {
    if (open.empty()) return static_cast<void>(root = std::move(n));
    auto& [parent, key, line] = open.back();
    if (parent.kind == node::map && key.empty()) {
      if (n.kind != node::scalar || n.text.empty()) {
        raise(n.line, "a key is " + n.describe() + "; expected a name");
      }
      line = n.line;
      return static_cast<void>(key = n.text);
    }
    if (parent.kind == node::map) {
      n.key = std::exchange(key, "");
      n.line = line;  // where the key is: a block begins on the next line
      const auto first = std::ranges::find(parent.children, n.key, &node::key);
      if (first != parent.children.end()) {
        raise(n.line, "duplicate key '" + n.key + "' with value " + n.describe() +
                          "; expected it once, as on line " + std::to_string(first->line));
      }
    }
    parent.children.push_back(std::move(n));
  }
  void begin(node n, decltype(node::kind) kind) {
    n.kind = kind, n.quoted = false;
    open.push_back({std::move(n), "", 0});
  }
  void close() {
    node n = std::move(open.back().collection);
    open.pop_back();
    attach(std::move(n));
  }

  using place = const YAML::Mark&;
  using text = const std::string&;
  void OnDocumentStart(place m) override {
    if (documents++ > 0) raise(m.line + 1, "a second document; expected one");
  }
  void OnDocumentEnd() override {}
  void OnNull(place m, YAML::anchor_t a) override { attach(make(m, "", a)); }
  void OnAlias(place m, YAML::anchor_t) override {
    raise(m.line + 1, "an alias (*); expected YAML without aliases");
  }
  void OnScalar(place m, text t, YAML::anchor_t a, const std::string& value) override {
    node n = make(m, t, a);
    n.kind = node::scalar, n.text = value;
    attach(std::move(n));
  }
  void OnSequenceStart(place m, text t, YAML::anchor_t a, YAML::EmitterStyle::value) override {
    begin(make(m, t, a), node::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(place m, text t, YAML::anchor_t a, YAML::EmitterStyle::value) override {
    begin(make(m, t, a), node::map);
  }
  void OnMapEnd() override { close(); }

  std::string file;
  node& root;
  int documents = 0;
  struct level {
    node collection;
    std::string key;  // of a map, that waits for its value, and its line
    int line;
  };
  std::vector<level> open;
};

yaml_reader yaml_reader::parse(std::string_view text, const std::string& file) {
  int line = 1;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c != '\n' && (byte < 0x20 || byte == 0x7f)) {
      throw record_error(at_line(file, line) + "control character " + std::to_string(byte) +
                         "; expected text with \\n line ends");
    }
    line += c == '\n';
  }
  if (!text.empty() && static_cast<unsigned char>(text[0]) >= 0x80) {
    throw record_error(at_line(file, 1) + "a byte-order mark; expected plain UTF-8");
  }
  auto root = std::make_shared<node>();
  builder events(file, *root);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(events)) {
    }
  } catch (const YAML::Exception& error) {
    events.raise(std::max(1, error.mark.line + 1), "not YAML: " + error.msg);
  }
  yaml_reader reader(root, root.get(), file, "");
  if (root->kind != node::map) reader.fail("a map of keys");
  return reader;
}

yaml_reader yaml_reader::load(const std::string& path) { return parse(read_text(path), path); }

yaml_reader::yaml_reader(std::shared_ptr<const node> root, const node* here, std::string file,
                         std::string path)
    : root_(std::move(root)), here_(here), file_(std::move(file)), path_(std::move(path)) {}

yaml_reader yaml_reader::child(std::size_t i) const {
  const node& n = here_->children[i];
  const bool list = here_->kind == node::list;
  const std::string step = list ? "[" + std::to_string(i) + "]" : n.key;
  return {root_, &n, file_, path_ + (list || path_.empty() ? "" : ".") + step};
}

void yaml_reader::raise(int line, const std::string& sentence) const {
  throw record_error(at_line(file_, line) + sentence);
}

std::string yaml_reader::name() const { return path_.empty() ? "the file" : path_; }

void yaml_reader::fail(std::string_view expected) const {
  raise(line(), name() + " is " + here_->describe() + "; expected " + std::string(expected));
}

int yaml_reader::line() const { return here_->line; }
bool yaml_reader::is_null() const { return here_->kind == node::null; }
bool yaml_reader::is_list() const { return here_->kind == node::list; }

bool yaml_reader::has(std::string_view key) const {
  if (here_->kind != node::map) fail("a map");
  auto& asked = here_->asked;
  if (std::ranges::find(asked, key) == asked.end()) asked.emplace_back(key);
  return std::ranges::find(here_->children, key, &node::key) != here_->children.end();
}

yaml_reader yaml_reader::at(std::string_view key) const {
  if (!has(key)) raise(line(), name() + " has no key '" + std::string(key) + "'; expected one");
  const auto found = std::ranges::find(here_->children, key, &node::key);
  return child(static_cast<std::size_t>(found - here_->children.begin()));
}

std::vector<yaml_reader> yaml_reader::items() const {
  if (!is_list()) fail("a list");
  std::vector<yaml_reader> all;
  for (std::size_t i = 0; i < here_->children.size(); ++i) all.push_back(child(i));
  return all;
}

std::vector<std::string> yaml_reader::keys() const {
  if (here_->kind != node::map) fail("a map");
  std::vector<std::string> all;
  for (const auto& n : here_->children) all.push_back(n.key);
  return all;
}

std::int64_t yaml_reader::as_int(std::int64_t min, std::int64_t max) const {
  std::int64_t v = 0;
  const bool good = here_->kind == node::scalar && !here_->quoted && parse_int(here_->text, v);
  if (good && v >= min && v <= max) return v;
  std::string range = min == int_min ? "" : " from " + std::to_string(min);
  if (max != int_max) range += " up to " + std::to_string(max);
  fail("an integer" + range);
}

double yaml_reader::as_double(double min) const {
  double v = 0;
  const auto& s = here_->text;
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  const bool number = here_->kind == node::scalar && !here_->quoted && error == std::errc{} &&
                      end == s.data() + s.size() && std::isfinite(v);
  if (number && v >= min) return v;
  fail(min == double_min ? "a finite number" : "a finite number from " + format_double(min));
}

bool yaml_reader::as_bool() const {
  const bool plain = here_->kind == node::scalar && !here_->quoted;
  if (!plain || (here_->text != "true" && here_->text != "false")) fail("true or false");
  return here_->text == "true";
}

std::string yaml_reader::as_string() const {
  if (here_->kind != node::scalar || !here_->quoted) fail("a string in quotes");
  return here_->text;
}

config_values yaml_reader::as_tokens() const {
  config_values values;
  for (const auto& key : keys()) {
    const auto value = at(key);
    const auto& n = *value.here_;
    if (!is_key(key)) value.raise(n.line, "key '" + value.path_ + "'; expected a name");
    const bool good = n.kind == node::scalar && n.quoted != is_plain_token(n.text) &&
                      (!n.quoted || is_name(n.text, ".+-"));
    if (!good) value.fail("a plain integer, true or false, or a name in quotes");
    values.emplace_back(key, n.text);
  }
  return values;
}

void yaml_reader::done() const {
  for (std::size_t i = 0; i < here_->children.size(); ++i) {
    const auto member = child(i);
    const auto& asked = here_->asked;
    if (here_->kind == node::map && std::ranges::find(asked, member.here_->key) == asked.end()) {
      std::string known;
      for (const auto& key : asked) known += (known.empty() ? "" : ", ") + key;
      raise(member.line(), "unknown key '" + member.path_ + "' with value " +
                               member.here_->describe() + "; expected only " + known);
    }
    member.done();
  }
}

// ---- Frozen configs -----------------------------------------------------------------------------
namespace {

// One list of keys per struct, so that the reader and the writer cannot drift apart.
template <class Io, class T>
void device_fields(const Io& io, T& d) {
  io("id", d.id), io("name", d.name), io("cc", d.cc);
  io("sms", d.sms), io("l2_bytes", d.l2_bytes), io("driver", d.driver);
}

template <class Io, class T>
void candidate_fields(const Io& io, T& c) {
  io("declared", c.declared), io("pruned", c.pruned), io("compiled", c.compiled);
  io("compile_error", c.compile_error), io("spilled", c.spilled), io("wrong", c.wrong);
  io("crashed", c.crashed), io("implausible", c.implausible), io("timed", c.timed);
}

struct read_field {
  const yaml_reader& from;
  void operator()(const char* key, std::string& s) const { s = from.get_string(key); }
  void operator()(const char* key, std::int64_t& n) const { n = from.get_int(key, 0); }
};

struct write_field {
  yaml_writer& to;
  void operator()(const char* key, const auto& value) const { to.field(key, value); }
};

// These make a file's path, so they hold no slash and start with a letter or digit.
std::string read_name(const yaml_reader& at) {
  const auto name = at.as_string();
  if (!is_name(name, "+-.")) at.fail("a name of letters, digits and _+-.");
  return name;
}

std::string read_hash(const yaml_reader& at) {
  const auto hash = at.as_string();
  const bool hex = hash.find_first_not_of("0123456789abcdef", 7) == std::string::npos;
  if (!hash.starts_with("sha256:") || hash.size() != 71 || !hex) {
    at.fail("\"sha256:\" and 64 lowercase hex digits");
  }
  return hash;
}

struct bounds {
  std::int64_t lo, hi;  // hi = 0: open
  std::string text() const {
    return "[" + std::to_string(lo) + ", " + (hi == 0 ? "null" : std::to_string(hi)) + "]";
  }
};

bounds read_bounds(const yaml_reader& at, bool is_cols, const bounds* before) {
  bounds b{};
  if (is_cols && !at.is_list()) {
    b.lo = b.hi = at.as_int(1);
  } else {
    const auto ends = at.items();
    if (ends.size() != 2) at.fail("two bounds, [first, last]");
    b.lo = ends[0].as_int(1);
    b.hi = !is_cols && ends[1].is_null() ? 0 : ends[1].as_int(1);
    if (b.hi != 0 && b.hi < b.lo) ends[1].fail("a last bound from " + std::to_string(b.lo) + " up");
    if (is_cols && b.lo == b.hi) at.fail(std::to_string(b.lo) + " without brackets");
  }
  if (before == nullptr) return b;
  if (b.lo < before->lo) at.fail("ranges in order, this one after " + before->text());
  if (before->hi == 0 || b.lo <= before->hi) at.fail("no overlap with " + before->text());
  return b;
}

run_off read_run_off(const yaml_reader& at) {
  run_off r;
  r.median_us = at.get_double("median_us", 0);
  const auto ends = at.get_list("ci_us");
  if (ends.size() != 2) at.at("ci_us").fail("two bounds, [low, high]");
  r.ci_low_us = ends[0].as_double(0);
  r.ci_high_us = ends[1].as_double(0);
  if (r.ci_high_us < r.ci_low_us) ends[1].fail("a bound from " + format_double(r.ci_low_us));
  r.rounds = at.get_int("rounds", 0);
  r.vs_default = at.get_double("vs_default", 0);
  r.ties = at.get_strings("ties");
  return r;
}

std::vector<yaml_reader> read_entries(const yaml_reader& at) {
  auto entries = at.items();
  if (entries.empty()) at.fail("at least one entry");
  return entries;
}

cols_entry read_cols(const yaml_reader& at, const bounds* before) {
  cols_entry c;
  const auto range = read_bounds(at.at("cols"), true, before);
  c.lo = range.lo, c.hi = range.hi;
  c.reduction = at.at("reduction").as_tokens();
  const auto cost = at.at("invariance_cost");
  c.invariance_worst = cost.get_double("worst", 0);
  c.invariance_at_rows = cost.get_int("at_rows", 0);
  if (at.has("merge_band")) c.merge_band = at.get_double("merge_band", 1);
  bounds last{};
  for (const auto& entry : read_entries(at.at("rows"))) {
    last = read_bounds(entry.at("rows"), false, c.rows.empty() ? nullptr : &last);
    const auto most = last.hi == 0 ? yaml_reader::int_max : last.hi;
    c.rows.push_back({last.lo, last.hi, entry.at("schedule").as_tokens(),
                      entry.get_int("measured_rows", last.lo, most),
                      read_run_off(entry.at("run_off"))});
    if (entry.has("merge_cost")) c.rows.back().merge_cost = entry.get_double("merge_cost", 1);
  }
  return c;
}

void write_cols(yaml_writer& w, const cols_entry& c) {
  w.begin(yaml_style::block_map);
  if (c.lo == c.hi) {
    w.field("cols", c.lo);
  } else {
    w.list("cols", std::vector<std::int64_t>{c.lo, c.hi});
  }
  w.tokens("reduction", c.reduction);
  w.begin("invariance_cost", yaml_style::flow_map).field("worst", c.invariance_worst);
  w.field("at_rows", c.invariance_at_rows).end();
  if (c.merge_band) w.field("merge_band", *c.merge_band);
  w.begin("rows", yaml_style::block_list);
  auto rows = c.rows;
  std::ranges::stable_sort(rows, {}, &rows_entry::lo);
  for (const auto& r : rows) {
    w.begin(yaml_style::block_map);
    w.begin("rows", yaml_style::flow_list).item(r.lo);
    w.item(r.hi == 0 ? yaml_scalar(nullptr) : yaml_scalar(r.hi)).end();
    w.tokens("schedule", r.schedule).field("measured_rows", r.measured_rows);
    if (r.merge_cost) w.field("merge_cost", *r.merge_cost);
    w.begin("run_off", yaml_style::flow_map).field("median_us", r.evidence.median_us);
    w.list("ci_us", std::vector<double>{r.evidence.ci_low_us, r.evidence.ci_high_us});
    w.field("rounds", r.evidence.rounds).field("vs_default", r.evidence.vs_default);
    w.list("ties", r.evidence.ties).end().end();
  }
  w.end().end();
}

}  // namespace

std::string config_path(const frozen_config& c) {
  return "configs/" + c.device.id + "/" + c.kernel + "." + c.dtype + ".yaml";
}

frozen_config parse_config(std::string_view text, const std::string& file) {
  const auto root = yaml_reader::parse(text, file);
  if (root.get_string("schema") != config_schema) {
    root.at("schema").fail("\"" + std::string(config_schema) + "\"");
  }
  frozen_config c;
  const auto kernel = root.at("kernel");
  c.kernel = read_name(kernel.at("name"));
  c.source = read_hash(kernel.at("source"));
  c.axes = read_hash(kernel.at("axes"));
  c.dtype = read_name(root.at("dtype"));
  const auto device = root.at("device");
  device_fields(read_field{device}, c.device);
  read_name(device.at("id"));
  const auto toolchain = root.at("toolchain");
  c.toolchain = {toolchain.get_string("cuda"), toolchain.get_strings("flags")};
  bounds last{};
  for (const auto& entry : read_entries(root.at("cols"))) {
    c.cols.push_back(read_cols(entry, c.cols.empty() ? nullptr : &last));
    last = {c.cols.back().lo, c.cols.back().hi};
  }
  const auto provenance = root.at("provenance");
  c.provenance.git = provenance.get_string("git");
  c.provenance.dirty = provenance.get_bool("dirty");
  c.provenance.seed = provenance.get_int("seed", 0);
  const auto candidates = provenance.at("candidates");
  candidate_fields(read_field{candidates}, c.provenance.candidates);
  root.done();
  return c;
}

frozen_config read_config(const std::string& path) { return parse_config(read_text(path), path); }

std::string write_config(const frozen_config& c) {
  yaml_writer w;
  w.field("schema", config_schema);
  w.begin("kernel", yaml_style::flow_map).field("name", c.kernel).field("source", c.source);
  w.field("axes", c.axes).end().field("dtype", c.dtype);
  w.begin("device", yaml_style::flow_map);
  device_fields(write_field{w}, c.device);
  w.end().begin("toolchain", yaml_style::flow_map).field("cuda", c.toolchain.cuda);
  w.list("flags", c.toolchain.flags).end();
  w.begin("cols", yaml_style::block_list);
  auto cols = c.cols;
  std::ranges::stable_sort(cols, {}, &cols_entry::lo);
  for (const auto& entry : cols) write_cols(w, entry);
  w.end().begin("provenance", yaml_style::flow_map).field("git", c.provenance.git);
  w.field("dirty", c.provenance.dirty).field("seed", c.provenance.seed);
  w.begin("candidates", yaml_style::flow_map);
  candidate_fields(write_field{w}, c.provenance.candidates);
  w.end().end();
  parse_config(w.text(), config_path(c));  // nothing leaves here that could not be read
  return w.text();
}

}  // namespace capstone::tools
