// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "core/spec.hpp"

#include <dlfcn.h>

#include <charconv>
#include <filesystem>
#include <stdexcept>

namespace capstone::tools {
namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::size_t size_of(dtype type) { return type == dtype::f32 ? 4 : 2; }

const char* token(dtype type) {
  switch (type) {
    case dtype::f32: return "f32";
    case dtype::f16: return "f16";
    case dtype::bf16: return "bf16";
  }
  throw std::invalid_argument("dtype is " + std::to_string(static_cast<int>(type)) +
                              "; expected f32, f16 or bf16");
}

std::string axis::value_token(int value) const {
  if (names.empty()) return std::to_string(value);
  if (value < 0 || static_cast<std::size_t>(value) >= names.size()) {
    throw std::invalid_argument("axis " + name + " is " + std::to_string(value) +
                                "; expected one of " + joined(names));
  }
  return names[static_cast<std::size_t>(value)];
}

int axis::value_of(const std::string& token) const {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == token) return static_cast<int>(i);
  }
  if (names.empty()) {
    int value = 0;
    const char* end = token.data() + token.size();
    const auto [stop, error] = std::from_chars(token.data(), end, value);
    if (error == std::errc{} && stop == end && !token.empty()) return value;
  }
  throw std::invalid_argument("axis " + name + " is '" + token + "'; expected " +
                              (names.empty() ? "an int" : "one of " + joined(names)));
}

const std::vector<problem>& op::suite(const std::string& wanted) const {
  std::vector<std::string> known;
  for (const auto& [suite_name, problems] : suites) {
    if (suite_name == wanted) return problems;
    known.push_back(suite_name);
  }
  throw std::invalid_argument("suite is '" + wanted + "'; " + name + " has " + joined(known));
}

std::vector<op>& registry() {
  static std::vector<op> ops;  // made on first use: specs register before main runs
  return ops;
}

std::pair<const op*, const kernel_spec*> find_kernel(const std::string& name,
                                                     const std::string& dtype) {
  std::vector<std::string> names, dtypes;
  for (const auto& candidate : registry()) {
    for (const auto& kernel : candidate.kernels) {
      if (kernel.name() != name) {
        if (names.empty() || names.back() != kernel.name()) names.push_back(kernel.name());
        continue;
      }
      if (kernel.dtype == dtype) return {&candidate, &kernel};
      dtypes.push_back(kernel.dtype);
    }
  }
  if (!dtypes.empty()) {
    throw std::invalid_argument("dtype is '" + dtype + "'; " + name + " has " + joined(dtypes));
  }
  throw std::invalid_argument("kernel is '" + name + "'; known are " + joined(names));
}

pointers fake_pointers(const std::vector<buffer_desc>& buffers) {
  pointers found;
  std::uintptr_t at = 1 << 20;
  for (const auto& each : buffers) {
    if (each.alias_of >= 0) {
      found.push_back(found.at(static_cast<std::size_t>(each.alias_of)));
      continue;
    }
    const auto size = static_cast<std::int64_t>(size_of(each.type));
    found.push_back(reinterpret_cast<void*>(at + static_cast<std::uintptr_t>(each.offset * size)));
    const auto bytes = (each.offset + each.rows * each.stride) * size;
    at += (static_cast<std::uintptr_t>(bytes) / 256 + 2) * 256;
  }
  return found;
}

namespace {
std::vector<std::string>& loaded_plugins() {
  static std::vector<std::string> paths;
  return paths;
}
}  // namespace

std::vector<std::string> kernel_files() {
  std::vector<std::string> files = {"/proc/self/exe"};
  files.insert(files.end(), loaded_plugins().begin(), loaded_plugins().end());
  return files;
}

void load_plugin(const std::string& path) {
  // A bare name would be looked for among the system's libraries, not in this folder.
  const auto file = std::filesystem::absolute(path).string();
  const auto before = registry().size();
  if (dlopen(file.c_str(), RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    const char* why = dlerror();
    throw std::runtime_error("spec '" + path + "' cannot be loaded: " +
                             (why == nullptr ? "no reason given" : why));
  }
  if (registry().size() == before) {
    throw std::runtime_error("spec '" + path +
                             "' registered no op; expected a static capstone::tools::register_op");
  }
  loaded_plugins().push_back(file);
}

}  // namespace capstone::tools
