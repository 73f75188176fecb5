// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/machine_code.hpp"

#include <algorithm>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include "core/disassembler.hpp"
#include "core/spec.hpp"

namespace capstone::claims {
namespace {

struct instruction {
  std::uint64_t at = 0;
  std::string text;
};

std::vector<instruction> instructions_of(const std::string& sass, const std::string& symbol) {
  static const std::regex line_form("^\\s+/\\*([0-9a-f]{4,})\\*/\\s+(\\S[^;]*);");
  std::vector<instruction> all;
  std::istringstream lines(sass);
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (const auto name = line.find("Function : "); name != std::string::npos)
      inside = line.substr(name + 11) == symbol;
    std::smatch found;
    if (inside && std::regex_search(line, found, line_form))
      all.push_back({std::stoull(found[1].str(), nullptr, 16), found[2].str()});
  }
  return all;
}

bool has_opcode(const instruction& i, const std::string& opcode) {
  const std::size_t at = i.text.starts_with("@") ? i.text.find(' ') + 1 : 0;
  const std::size_t end = at + opcode.size();
  return i.text.compare(at, opcode.size(), opcode) == 0 &&
         (end >= i.text.size() || i.text[end] == ' ' || i.text[end] == '.');
}

/// Where the literal zero of an integer or an enumeration that begins at `at` ends ("Li0E",
/// "LN3foo3barE0E"), or 0 if there is none.
std::size_t end_of_zero(const std::string& name, std::size_t at) {
  const auto is_digit = [&](std::size_t i) { return i < name.size() && name[i] >= '0' && name[i] <= '9'; };
  if (name[at] != 'L') return 0;
  std::size_t i = at + 1;
  if (i < name.size() && name[i] >= 'a' && name[i] <= 'z') {
    ++i;
  } else if (i < name.size() && name[i] == 'N') {
    ++i;
    if (i < name.size() && name[i] == 'S') i = name.find('_', i) + 1;  // a substitution: S_, S0_
    while (is_digit(i)) {
      std::size_t length = 0;
      while (is_digit(i)) length = length * 10 + std::size_t(name[i++] - '0');
      i += length;
    }
    if (i >= name.size() || name[i++] != 'E') return 0;
  } else {
    return 0;
  }
  return name.compare(i, 2, "0E") == 0 ? i + 2 : 0;
}

std::int64_t usage_number(const std::string& line, const std::string& key) {
  const auto at = line.find(key + ":");
  if (at == std::string::npos)
    throw std::runtime_error("cuobjdump's resource usage is '" + line + "'; expected " + key);
  return std::stoll(line.substr(at + key.size() + 1));
}

}  // namespace

std::string canonical_symbol(std::string symbol) {
  for (std::size_t at = symbol.size(); at-- > 0;) {
    const std::size_t end = end_of_zero(symbol, at);
    // The last member of an aggregate; its fellows before it are looked at next.
    if (end != 0 && end < symbol.size() && symbol[end] == 'E') symbol.erase(at, end - at);
  }
  return symbol;
}

machine_code read_machine_code(const std::string& sass, const std::string& usage, const std::string& symbol) {
  machine_code code;
  code.symbol = symbol;
  const auto header = usage.find(" Function " + symbol + ":");
  if (header == std::string::npos) throw std::runtime_error("cuobjdump has no resource usage of " + symbol);
  const auto begin = usage.find('\n', header) + 1;
  const std::string line = usage.substr(begin, usage.find('\n', begin) - begin);
  code.registers = static_cast<int>(usage_number(line, "REG"));
  code.static_smem = usage_number(line, "SHARED");
  if (code.static_smem >= 1024) code.static_smem -= 1024;  // what the driver keeps from sm_90 on is counted in

  const std::vector<instruction> all = instructions_of(sass, symbol);
  const auto last = std::find_if(all.rbegin(), all.rend(), [](const instruction& i) { return has_opcode(i, "EXIT"); });
  if (last == all.rend()) throw std::runtime_error("cuobjdump has no instructions of " + symbol);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> loops;
  static const std::regex target("BRA(?:\\.\\S+)*\\s.*0x([0-9a-f]+)\\s*$");
  for (const instruction& i : all) {
    if (has_opcode(i, "LDL") || has_opcode(i, "STL")) ++code.spill_accesses;
    if (i.at > last->at) continue;
    ++code.straight;
    std::smatch found;
    if (has_opcode(i, "BRA") && std::regex_search(i.text, found, target)) {
      const std::uint64_t to = std::stoull(found[1].str(), nullptr, 16);
      if (to <= i.at) loops.emplace_back(to, i.at);
    }
  }
  code.loops = static_cast<int>(loops.size());
  for (const instruction& i : all)
    code.looped += std::any_of(loops.begin(), loops.end(), [&](const auto& loop) {
      return i.at >= loop.first && i.at <= loop.second;
    });
  return code;
}

machine_code machine_code_of(const std::string& symbol) {
  const std::string tool = tools::find_disassembler({"cuobjdump"});
  if (tool.empty())
    throw std::runtime_error("no cuobjdump, which predictions need for registers and instructions; "
                             "tools/install-deps installs it");
  const std::string wanted = canonical_symbol(symbol);
  for (const std::string& file : tools::kernel_files()) {
    // /proc/self/exe would be the shell's own: the name is resolved here.
    char resolved[4096];
    const std::string path = realpath(file.c_str(), resolved) != nullptr ? resolved : file;
    static std::map<std::string, std::string> usages;  // a file has many kernels, and this lists them all
    std::string& usage = usages[path];
    if (usage.empty()) usage = tools::output_of("'" + tool + "' -res-usage '" + path + "' 2>&1");
    std::istringstream lines(usage);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(" Function ") || !line.ends_with(":")) continue;
      const std::string name = line.substr(10, line.size() - 11);
      if (canonical_symbol(name) != wanted) continue;
      return read_machine_code(tools::output_of("'" + tool + "' -sass -fun '" + name + "' '" + path + "' 2>/dev/null"), usage, name);
    }
  }
  throw std::runtime_error("the kernel " + symbol + " is in no machine code of this program or its --spec files; "
                           "the op's `launched` names another kernel than it launches");
}

}  // namespace capstone::claims
