// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "autotune/journal_line.hpp"
#include "core/fingerprint.hpp"
#include "core/records.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

/// The first field of a header in which a run differs that cannot go on from it, or nullptr.
const char* difference(const json& one, const json& other) {
  for (const char* field : journal_identity) {
    if (one.at(field) != other.at(field)) return field;
  }
  return nullptr;
}

/// A key stands once, but for a group that was summed up again when more of it had been tried.
bool may_come_again(const json& line) { return line.at("phase") == "group"; }

void keep_beside(const std::string& path) {
  const auto stem = fs::path(path).replace_extension().string();
  for (int i = 1;; ++i) {
    const auto place = stem + "." + std::to_string(i) + ".jsonl.old";
    if (fs::exists(place)) continue;
    fs::rename(path, place);
    return;
  }
}

}  // namespace

std::string content_key(const std::string& content) { return sha256_hex(content).substr(0, 24); }

journal_text parse_journal(std::string_view text, const std::string& file) {
  journal_text found;
  std::map<std::string, std::size_t> seen;  // keys and their lines
  std::set<std::string> run_offs;
  for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n', found.whole)) {
    const auto number = found.lines.size() + 1;
    const auto where = file + ":" + std::to_string(number);
    auto line = parse_journal_line(text.substr(found.whole, end - found.whole), where);
    if (!line.is_object()) {
      if (end + 1 == text.size()) break;  // a file system may keep a torn line's length and not its bytes
      throw record_error(where + ": not a JSON object; expected a journal's line");
    }
    if (number == 1 || !line.contains("key")) {
      expect_journal_header(line, where);
      const char* field = number == 1 ? nullptr : difference(line, found.lines.front());
      if (field != nullptr) {
        throw record_error(where + ": " + field + " is " + journal_line_text(line[field]) + "; expected " +
                           journal_line_text(found.lines.front()[field]) + ", as on line 1");
      }
    } else {
      expect_journal_line(line, where);
      const auto [first, is_new] = seen.emplace(line["key"], number);
      if (!is_new && !may_come_again(line)) {
        throw record_error(where + ": key is \"" + first->first + "\"; expected one that did not come before, as on line " +
                           std::to_string(first->second));
      }
      if (line["phase"] == "run_off") run_offs.insert(line["key"]);
      for (const auto& key : line.value("run_offs", json::array())) {
        if (run_offs.count(key) == 0) throw record_error(where + ": run_offs names " + key.dump() + "; expected the key of a run_off before it");
      }
    }
    found.lines.push_back(std::move(line));
    found.whole = end + 1;
  }
  return found;
}

std::vector<json> read_journal(const std::string& path) { return parse_journal(read_text(path), path).lines; }

journal::journal(std::string path, json header, bool resume) : path_(std::move(path)) {
  header["schema"] = journal_schema;
  fs::create_directories(fs::path(path_).parent_path());
  expect_journal_header(header, path_);
  // Unread: that it cannot be read may be why this run begins anew.
  if (std::error_code none; !resume && fs::exists(path_) && fs::file_size(path_, none) > 0) keep_beside(path_);
  file_.number = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_.number < 0) throw record_error(path_ + ": cannot be written: " + std::strerror(errno));
  if (flock(file_.number, LOCK_EX | LOCK_NB) != 0) {
    throw record_error(path_ + ": another run writes it; wait for that, or give this one another --out");
  }
  const auto text = read_text(path_);
  const auto [lines, whole] = parse_journal(text, path_);
  if (whole < text.size() && ftruncate(file_.number, static_cast<off_t>(whole)) != 0) {
    throw record_error(path_ + ": its torn last line cannot be cut off: " + std::strerror(errno));
  }
  json before;
  for (const auto& line : lines) {
    if (!line.contains("key")) before = line;  // a resumed run with other axes adds its own
  }
  if (const char* field = before.is_null() ? nullptr : difference(before, header)) {
    throw record_error(path_ + ":1: " + field + " is " + journal_line_text(before[field]) + "; expected " + journal_line_text(header[field]) +
                       " to go on from it; run without --resume to begin anew");
  }
  for (const auto& line : lines) {
    if (line.contains("key")) lines_[line["key"]] = line, ++resumed_;
  }
  if (before != header) append(header);
}

journal::descriptor::~descriptor() {
  if (number >= 0) close(number);
}

const json* journal::find(const std::string& key) const {
  const std::lock_guard lock(guard_);
  const auto found = lines_.find(key);
  return found == lines_.end() ? nullptr : &found->second;
}

void journal::append(const json& line) {
  const auto text = journal_line_text(line) + "\n";
  // One write, so that a killed process leaves a whole line or a torn last one.
  const auto written = write(file_.number, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || fdatasync(file_.number) != 0) {
    throw record_error(path_ + ": cannot be written: " + std::strerror(errno));
  }
}

const json& journal::add(json line) {
  const std::lock_guard lock(guard_);
  expect_journal_line(line, path_);
  const std::string key = line.at("key");
  if (lines_.count(key) > 0 && !may_come_again(line)) {
    throw record_error(path_ + ": key is \"" + key + "\"; expected one that is not in the journal");
  }
  append(line);
  const auto& kept = lines_[key] = std::move(line);
  if (on_line) on_line(kept);
  return kept;
}

}  // namespace capstone::tools
