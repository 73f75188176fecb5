// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/emit.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <tuple>

#include "autotune/space.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

// Types of a spec's are named from namespace capstone, where the library's own tables are.
std::string spelled(const std::string& type, bool in_library) {
  const std::string prefix = "capstone::";
  if (in_library) return type.starts_with(prefix) ? type.substr(prefix.size()) : type;
  return type.starts_with(prefix) || type.starts_with("::") ? type : prefix + type;
}

// ".reduction = {.lanes = 256, …}", wrapped below its brace where it grows too long.
std::string part_text(const op& of, const config& values, part which, bool in_library) {
  const std::string open = which == part::reduction ? ".reduction = {" : ".schedule = {";
  const std::string indent(18 + open.size(), ' ');
  std::string text = open;
  std::size_t column = indent.size();
  for (std::size_t i = 0; i < of.axes.size(); ++i) {
    const auto& each = of.axes[i];
    if (each.belongs != which) continue;
    const auto field =
        "." + each.name + " = " +
        (each.enum_type.empty() ? std::to_string(values[i])
                                : spelled(each.enum_type, in_library) + "::" +
                                      each.value_token(values[i]));
    if (text != open) {
      const bool wrap = column + field.size() + 5 > 100;
      text += wrap ? ",\n" + indent : ", ";
      column = wrap ? indent.size() : column + 2;
    }
    text += field;
    column += field.size();
  }
  return text + "}";
}

std::string compute_capability(const std::string& cc) {  // "9.0" as 90
  std::string digits = cc;
  digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
  return digits.empty() ? "0" : std::to_string(std::stoi(digits));
}

struct line {
  std::tuple<std::string, std::string, std::string, std::int64_t, std::int64_t> order;
  std::string text;
};

void add_lines(const op& of, const std::string& path, const frozen_config& file, bool in_library,
               std::vector<line>& lines) {
  const auto variant = file.kernel.substr(of.name.size());
  for (const auto& cols : file.cols) {
    for (const auto& rows : cols.rows) {
      config values;
      try {
        values = config_from(of, cols.reduction, rows.schedule);
      } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(path + ": " + error.what());
      }
      const auto number = [](std::int64_t n) { return std::to_string(n); };
      std::string text = "      {.device = {.cc = " + compute_capability(file.device.cc) +
                         ", .sms = " + number(file.device.sms) +
                         ", .l2_bytes = " + number(file.device.l2_bytes) + "},\n";
      text += "       .variant = \"" + variant + "\", .dtype = \"" + file.dtype + "\",\n";
      text += "       .cols_min = " + number(cols.lo) + ", .cols_max = " + number(cols.hi) +
              ", .rows_min = " + number(rows.lo) + ", .rows_max = " + number(rows.hi) +
              ", .rows_tuned = " + number(rows.measured_rows) + ",\n";
      text += "       .config = {" + part_text(of, values, part::reduction, in_library) + ",\n";
      text += std::string(18, ' ') + part_text(of, values, part::schedule, in_library) + "}},\n";
      lines.push_back({{file.device.id, variant, file.dtype, cols.lo, rows.lo}, std::move(text)});
    }
  }
}

}  // namespace

bool belongs_to(const op& of, const std::string& kernel) {
  return kernel.starts_with(of.name) &&
         (kernel.size() == of.name.size() || kernel[of.name.size()] == '+' ||
          kernel[of.name.size()] == '.');
}

std::vector<std::string> config_paths(const std::string& tree) {
  std::vector<std::string> found;
  const auto folder = fs::path(tree) / "configs";
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file() && entry.path().extension() == ".yaml") {
        found.push_back(entry.path().string());
      }
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<config_file> read_configs(const std::string& tree, const op& of) {
  std::vector<config_file> found;
  for (const auto& path : config_paths(tree)) {
    // By its name first, so that another op's broken file is not this op's failure.
    if (!belongs_to(of, fs::path(path).filename().string())) continue;
    auto file = read_config(path);
    if (belongs_to(of, file.kernel)) found.emplace_back(path, std::move(file));
  }
  return found;
}

std::string emit_table(const op& of, const std::vector<config_file>& configs,
                       const std::string& table) {
  const bool in_library = table.empty();
  std::vector<line> lines;
  for (const auto& [path, file] : configs) add_lines(of, path, file, in_library, lines);
  std::stable_sort(lines.begin(), lines.end(),
                   [](const line& a, const line& b) { return a.order < b.order; });

  const auto type = spelled(of.config_type, in_library);
  std::string text =
      "// SPDX-FileCopyrightText: The capstone authors\n"
      "// SPDX-License-Identifier: Apache-2.0\n"
      "//\n"
      "// Generated by `autotune` from configs/; do not edit. `autotune check` compares.\n"
      "#pragma once\n\n#include <capstone/detail/table.hpp>\n\n";
  if (in_library) text += "namespace capstone::tuned {\n\n";
  text += "struct " + (in_library ? of.name : table) + " {\n";
  text += "  static constexpr int count = " + std::to_string(lines.size()) + ";\n";
  text += std::string("  static constexpr ") + (in_library ? "" : "capstone::") +
          "detail::table_row<" + type + "> rows[] = {\n";
  // An array of no rows is not C++; `count` says that this one does not count.
  if (lines.empty()) text += "      {},\n";
  for (const auto& each : lines) text += each.text;
  text += "  };\n};\n";
  if (in_library) text += "\n}  // namespace capstone::tuned\n";
  return text;
}

std::string table_path(const std::string& tree, const op& of, const std::string& table) {
  if (!table.empty()) return (fs::path(tree) / (table + ".cuh")).string();
  return (fs::path(tree) / "include/capstone/tuned" / (of.name + ".cuh")).string();
}

}  // namespace capstone::tools
