// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What a tuning run has found out so far: one JSON object a line, appended and synced, so that nothing
/// measured is lost and nothing is measured twice.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace capstone::tools {

inline constexpr const char* journal_schema = "capstone-journal/2";

/// What a key stands for, in 24 hexadecimal digits: the same content has the same key in every run.
std::string content_key(const std::string& content);

/// A journal's lines, the first of which is a header and says what it is of.
struct journal_text {
  std::vector<nlohmann::json> lines;
  std::size_t whole = 0;  ///< bytes of these lines; what follows was torn off by a crash
};

/// Reads a journal; `file` names it in errors. Throws record_error `file:line: ...` for any line but a torn
/// last one that is not as it was written (journal_line.hpp), for headers of different things, for a key
/// that came before and for a group whose run-offs did not.
journal_text parse_journal(std::string_view text, const std::string& file);
std::vector<nlohmann::json> read_journal(const std::string& path);

/// The journal of one kernel and dtype on one device (and shard). Thread-safe; locked against other runs.
class journal {
 public:
  /// \param header what the journal is of. With `resume`, a journal that is there must be of the same
  ///   `kernel`, `dtype`, `device`, `source`, `toolchain` and `measuring`; without, it is kept beside
  ///   the new one, whatever it holds, as NAME.1.jsonl.old, NAME.2.jsonl.old and so on. Throws record_error.
  journal(std::string path, nlohmann::json header, bool resume);
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;

  /// The line with this key, or nullptr. Valid as long as the journal.
  const nlohmann::json* find(const std::string& key) const;

  /// Appends a line that has a `key` and returns it as kept. Throws record_error for one that could not be
  /// read again.
  const nlohmann::json& add(nlohmann::json line);

  const std::string& path() const { return path_; }
  std::size_t resumed() const { return resumed_; }  ///< lines that were there

  /// Called with every line that is added.
  std::function<void(const nlohmann::json&)> on_line;

 private:
  void append(const nlohmann::json& line);

  struct descriptor {
    int number = -1;
    ~descriptor();
  };

  std::string path_;
  descriptor file_;
  std::size_t resumed_ = 0;
  mutable std::mutex guard_;
  std::map<std::string, nlohmann::json> lines_;
};

}  // namespace capstone::tools
