// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "core/fingerprint.hpp"
#include "core/records.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

/// The lines of `text`, and how many bytes of it are whole lines.
std::pair<std::vector<json>, std::size_t> parse(const std::string& text, const std::string& path) {
  std::vector<json> lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    auto line = json::parse(text.begin() + std::ptrdiff_t(begin), text.begin() + std::ptrdiff_t(end), nullptr, false);
    const bool last = end + 1 == text.size();
    if (!line.is_object()) {
      if (last) break;  // a file system may keep a torn line's length and not its bytes
      throw record_error(path + ":" + std::to_string(lines.size() + 1) + ": not a JSON object; expected a journal's line");
    }
    lines.push_back(std::move(line));
    begin = end + 1;
  }
  if (!lines.empty() && lines[0].value("schema", json()) != json(journal_schema)) {
    throw record_error(path + ":1: schema is " + lines[0].value("schema", json()).dump() + "; expected \"" + journal_schema +
                       "\"; a run without --resume begins anew and keeps this one beside its own");
  }
  return {std::move(lines), begin};
}

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

std::vector<json> read_journal(const std::string& path) { return parse(read_text(path), path).first; }

journal::journal(std::string path, json header, bool resume) : path_(std::move(path)) {
  header["schema"] = journal_schema;
  fs::create_directories(fs::path(path_).parent_path());
  if (!resume && fs::exists(path_) && !fs::is_empty(path_)) keep_beside(path_);
  file_ = open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file_ < 0) throw record_error(path_ + ": cannot be written: " + std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    close(file_);
    throw record_error(path_ + ": another run writes it; wait for that, or give this one another --out");
  }
  const auto text = read_text(path_);
  const auto [lines, whole] = parse(text, path_);
  if (whole < text.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0) {
    throw record_error(path_ + ": its torn last line cannot be cut off: " + std::strerror(errno));
  }
  json before;
  for (const auto& line : lines) {
    if (!line.contains("key")) before = line;  // a resumed run with other axes adds its own
  }
  if (!lines.empty()) {
    for (const char* field : {"kernel", "dtype", "device", "source", "toolchain", "measuring"}) {
      if (before.value(field, json()) == header.value(field, json())) continue;
      close(file_);
      throw record_error(path_ + ":1: " + field + " is " + before.value(field, json()).dump() + "; expected " +
                         header.value(field, json()).dump() + " to go on from it; run without --resume to begin anew");
    }
  }
  for (const auto& line : lines) {
    if (line.contains("key")) lines_[line["key"]] = line, ++resumed_;
  }
  if (before != header) append(header);
}

journal::~journal() {
  if (file_ >= 0) close(file_);
}

const json* journal::find(const std::string& key) const {
  const std::lock_guard lock(guard_);
  const auto found = lines_.find(key);
  return found == lines_.end() ? nullptr : &found->second;
}

void journal::append(const json& line) {
  const auto text = line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  // One write, so that a killed process leaves a whole line or a torn last one.
  const auto written = write(file_, text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size()) || fdatasync(file_) != 0) {
    throw record_error(path_ + ": cannot be written: " + std::strerror(errno));
  }
}

const json& journal::add(json line) {
  const std::lock_guard lock(guard_);
  append(line);
  const std::string key = line.at("key");
  const auto& kept = lines_[key] = std::move(line);
  if (on_line) on_line(kept);
  return kept;
}

}  // namespace capstone::tools
