// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "core/fingerprint.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/records.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\v' || c == '\f'; }

// A space beside one of these never separates two tokens.
bool stands_alone(char c) { return std::string_view("(){}[],;").find(c) != std::string_view::npos; }

// Joins continued lines and makes line ends uniform, as a compiler does first.
std::string splice_lines(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    if (source[i] == '\n' && !text.empty() && text.back() == '\\') {
      text.pop_back();
    } else {
      text += source[i];
    }
  }
  return text;
}

class normaliser {
 public:
  explicit normaliser(std::string_view source) : text_(splice_lines(source)) {}

  std::string run() {
    while (at_ < text_.size()) step();
    end_line();
    return std::move(out_);
  }

 private:
  void step() {
    const char c = text_[at_];
    const char next = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (c == '/' && next == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && next == '*') {
      const auto end = text_.find("*/", at_ + 2);
      at_ = end == std::string::npos ? text_.size() : end + 2;
      space_ = true;
    } else if (c == '\n') {
      end_line();
      ++at_;
    } else if (is_space(c)) {
      space_ = true;
      ++at_;
    } else if (c == '"' || (c == '\'' && !in_number())) {
      put_literal(c);
    } else {
      if (c == '#' && fresh_line_) start_directive();
      put(c);
      ++at_;
    }
  }

  void put(char c) {
    fresh_line_ = false;
    const bool at_start = out_.empty() || out_.back() == '\n';
    if (space_ && !at_start && (directive_ || !(stands_alone(out_.back()) || stands_alone(c)))) {
      out_ += ' ';
    }
    space_ = false;
    out_ += c;
  }

  void start_directive() {
    if (!out_.empty() && out_.back() != '\n') out_ += '\n';
    directive_ = true;
  }

  void end_line() {
    if (directive_) out_ += '\n';
    directive_ = false;
    fresh_line_ = true;
    space_ = true;
  }

  // The ' of 1'000 separates digits.
  bool in_number() const {
    std::size_t begin = at_;
    while (begin > 0 && (is_word(text_[begin - 1]) || text_[begin - 1] == '\'')) --begin;
    return begin < at_ && text_[begin] >= '0' && text_[begin] <= '9';
  }

  void put_literal(char quote) {
    std::size_t end = at_ + 1;
    if (quote == '"' && at_ > 0 && is_raw_prefix()) {
      const auto open = std::min(text_.find('(', at_), text_.size());
      const std::string close = ")" + text_.substr(at_ + 1, open - at_ - 1) + "\"";
      const auto found = text_.find(close, open);
      end = found == std::string::npos ? text_.size() : found + close.size();
    } else {
      // A literal ends with its line at the latest: an #error's text may hold a lone apostrophe.
      while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
        end += text_[end] == '\\' && end + 1 < text_.size() && text_[end + 1] != '\n' ? 2u : 1u;
      }
      if (end < text_.size() && text_[end] == quote) ++end;
    }
    put(quote);
    out_.append(text_, at_ + 1, end - at_ - 1);
    at_ = end;
  }

  bool is_raw_prefix() const {
    std::size_t begin = at_;
    while (begin > 0 && is_word(text_[begin - 1])) --begin;
    const auto prefix = std::string_view(text_).substr(begin, at_ - begin);
    return prefix == "R" || prefix == "LR" || prefix == "uR" || prefix == "UR" || prefix == "u8R";
  }

  std::string text_;
  std::size_t at_ = 0;
  std::string out_;
  bool directive_ = false;   // inside a directive's line
  bool fresh_line_ = true;   // nothing but white space and comments on this line so far
  bool space_ = false;       // white space or a comment since the last character
};

bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first ==
         folder.end();
}

struct include_line {
  std::string name;
  bool quoted;
};

std::vector<include_line> includes_of(const std::string& normalised, const fs::path& file) {
  std::vector<include_line> found;
  std::size_t begin = 0;
  while (begin < normalised.size()) {
    const auto end = std::min(normalised.find('\n', begin), normalised.size());
    std::string_view line(normalised.data() + begin, end - begin);
    begin = end + 1;
    if (!line.starts_with('#')) continue;
    line.remove_prefix(line.starts_with("# ") ? 2 : 1);
    if (!line.starts_with("include") || (line.size() > 7 && is_word(line[7]))) continue;
    line.remove_prefix(7);
    if (line.starts_with(' ')) line.remove_prefix(1);
    const bool quoted = line.starts_with('"');
    const auto close = line.find(quoted ? '"' : '>', 1);
    if ((!quoted && !line.starts_with('<')) || close == std::string_view::npos) {
      throw std::runtime_error(file.string() + ": '#include " + std::string(line) +
                               "' cannot be followed; expected \"file\" or <file>");
    }
    found.push_back({std::string(line.substr(1, close - 1)), quoted});
  }
  return found;
}

class closure {
 public:
  closure(const std::string& root, const std::string& header)
      : include_(fs::weakly_canonical(fs::path(root) / "include")),
        tuned_(include_ / "capstone" / "tuned") {
    const fs::path candidates[] = {include_ / header, fs::path(root) / header};
    for (const auto& candidate : candidates) {
      if (!fs::is_regular_file(candidate)) continue;
      const auto start = fs::weakly_canonical(candidate);
      own_folder_ = start.parent_path();
      add(start);
      return;
    }
    throw std::runtime_error(header + ": not found; expected a file at " + candidates[0].string() +
                             " or " + candidates[1].string());
  }

  std::string digest() {
    std::sort(files_.begin(), files_.end());
    std::string all;
    for (const auto& [name, text] : files_) {
      all += name + '\0' + std::to_string(text.size()) + '\0' + text;
    }
    return "sha256:" + sha256_hex(all);
  }

 private:
  void add(const fs::path& file) {
    if (!seen_.insert(file).second) return;
    const auto text = normalise_source(read_text(file));
    const auto& base = is_inside(file, include_) ? include_ : own_folder_;
    files_.emplace_back(file.lexically_relative(base).generic_string(), text);
    for (const auto& line : includes_of(text, file)) {
      if (line.quoted && follow(file.parent_path() / line.name)) continue;
      follow(include_ / line.name);
    }
  }

  // What lies elsewhere, a toolkit's header say, belongs to the toolchain and not to the kernel.
  bool follow(const fs::path& path) {
    if (!fs::is_regular_file(path)) return false;
    const auto file = fs::weakly_canonical(path);
    const bool ours = is_inside(file, include_) || is_inside(file, own_folder_);
    if (ours && !is_inside(file, tuned_)) add(file);
    return true;
  }

  fs::path include_;
  fs::path tuned_;
  fs::path own_folder_;
  std::set<fs::path> seen_;
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace

std::string sha256_hex(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("SHA-256 is not available from the installed OpenSSL");
  }
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

std::string file_sha256(const std::string& path) { return sha256_hex(read_text(path)); }

std::string normalise_source(std::string_view source) { return normaliser(source).run(); }

std::string source_fingerprint(const std::string& root, const std::string& header) {
  try {
    return closure(root, header).digest();
  } catch (const fs::filesystem_error& error) {
    throw std::runtime_error(header + ": its includes cannot be followed: " + error.what());
  }
}

}  // namespace capstone::tools
