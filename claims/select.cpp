// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/select.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <stdexcept>

#include "core/shapes.hpp"

namespace capstone::claims {
namespace {

constexpr std::int64_t moment_elements = std::int64_t{1} << 18;  // on the host, by default

bool wants(const std::vector<std::string>& list, const std::string& name) {
  return list.empty() || std::find(list.begin(), list.end(), name) != list.end();
}

void expect_known(const char* what, const std::vector<std::string>& wanted,
                  const std::set<std::string>& known) {
  std::string names;
  for (const std::string& name : known) names += (names.empty() ? "" : ", ") + name;
  for (const std::string& name : wanted)
    if (known.count(name) == 0)
      throw std::invalid_argument(std::string(what) + " is '" + name + "'; expected one of " +
                                  names);
}

std::int64_t elements(const problem& what) {
  std::int64_t count = 1;
  for (const std::int64_t size : what.shape) count *= size;
  return count;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ",") + word;
  return text;
}

std::vector<suite_problem> problems_of(const op& of, const selection& wanted, const device& where) {
  std::vector<suite_problem> list;
  for (const std::string& text : wanted.shapes)
    for (const dim_sizes& shape : parse_shapes(text, of.dims.size())) {
      problem what;
      what.shape = shape;
      list.push_back({"shape", what});
    }
  if (!wanted.shapes.empty()) return list;
  const bool asked = !wanted.suites.empty();
  for (const auto& [suite, problems] : of.suites) {
    if (!wants(asked ? wanted.suites : wanted.default_suites, suite)) continue;
    for (const problem& what : problems)
      if (!where.is_host() || asked || suite == "edge" || elements(what) <= moment_elements)
        list.push_back({suite, what});
  }
  return list;
}

}  // namespace

std::vector<chosen> choose(const selection& wanted, const device& where) {
  std::set<std::string> kernels, dtypes, suites;
  for (const op& of : registry()) {
    for (const auto& [suite, problems] : of.suites) suites.insert(suite);
    for (const kernel_spec& kernel : of.kernels) {
      kernels.insert(kernel.name());
      dtypes.insert(kernel.dtype);
    }
  }
  expect_known("kernel", wanted.kernels, kernels);
  expect_known("dtype", wanted.dtypes, dtypes);
  expect_known("suite", wanted.suites, suites);
  std::vector<chosen> list;
  for (const op& of : registry())
    for (const kernel_spec& kernel : of.kernels)
      if (wants(wanted.kernels, kernel.name()) && wants(wanted.dtypes, kernel.dtype))
        list.push_back({&of, &kernel, problems_of(of, wanted, where)});
  const auto is_tuned = [](const chosen& c) { return c.kernel->tuned; };
  if (wanted.tuned_only && std::any_of(list.begin(), list.end(), is_tuned))
    std::erase_if(list, std::not_fn(is_tuned));
  if (list.empty())
    throw std::invalid_argument(
        "no kernel has this pair of --kernel and --dtype; expected one that "
        "its spec declares");
  return list;
}

std::vector<std::string> this_program_again(const std::vector<std::string>& command, const selection& wanted,
                                            const std::vector<std::string>& plugins, const device& where) {
  namespace fs = std::filesystem;
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string()};
  words.insert(words.end(), command.begin(), command.end());
  words.insert(words.end(), {"--device", std::to_string(where.ordinal), "--seed", std::to_string(wanted.seed)});
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--kernel", joined(wanted.kernels));
  add("--dtype", joined(wanted.dtypes));
  for (const std::string& shape : wanted.shapes) add("--shape", shape);
  if (wanted.shapes.empty()) add("--suite", joined(wanted.suites.empty() ? wanted.default_suites : wanted.suites));
  for (const std::string& plugin : plugins) add("--spec", fs::absolute(plugin).string());
  return words;
}

std::string out_root(const selection& wanted, const device& where) {
  namespace fs = std::filesystem;
  const fs::path root = source_root();
  if (wanted.out.empty())
    return where.is_host() ? (root / "build" / "host").string() : root.string();
  std::error_code ignored;
  if (where.is_host() && fs::equivalent(wanted.out, root, ignored))
    throw std::invalid_argument("out is " + wanted.out +
                                "; expected another folder than the source "
                                "tree, for what the host measures is no evidence");
  return wanted.out;
}

std::string verify_path(const std::string& out, const std::string& device,
                        const kernel_spec& kernel) {
  return out + "/evidence/" + device + "/verify/" + kernel.name() + "." + kernel.dtype + ".yaml";
}

std::string session_path(const std::string& out, const std::string& device,
                         const std::string& session) {
  return out + "/evidence/" + device + "/sessions/" + session + ".yaml";
}

record_device describe(const device& where) {
  const std::string cc =
      std::to_string(where.limits.cc / 10) + "." + std::to_string(where.limits.cc % 10);
  return {
      where.id,    where.name, where.is_host() ? "" : cc, where.limits.sms, where.limits.l2_bytes,
      where.driver};
}

void advise_tuning(const kernel_names& untuned, const device& where) {
  if (untuned.empty()) return;
  const auto& [kernel, dtype] = *untuned.begin();
  std::printf(
      "no frozen config for some problems of %zu kernels on %s: they ran with the default; "
      "tune with: autotune%s --kernel %s --dtype %s --shape ROWSxCOLS\n",
      untuned.size(), where.id.c_str(), where.is_host() ? " --device host" : "", kernel.c_str(),
      dtype.c_str());
}

}  // namespace capstone::claims
