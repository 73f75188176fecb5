// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/inspect.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "autotune/check.hpp"
#include "autotune/compile.hpp"
#include "autotune/emit.hpp"
#include "autotune/space.hpp"
#include "autotune/tune.hpp"
#include "core/context.hpp"
#include "core/disassembler.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

bool rows_are_aligned(const std::vector<buffer_desc>& buffers) {
  return std::all_of(buffers.begin(), buffers.end(), [](const buffer_desc& b) {
    return b.cols * static_cast<std::int64_t>(size_of(b.type)) % 16 == 0;
  });
}

void add_defaults(const inspect_request& request, std::set<subject>& into) {
  for (const auto& of : registry()) {
    if (of.suites.empty() || of.suites.front().second.empty()) continue;
    const auto& at = of.suites.front().second.front();
    for (const auto& kernel : of.kernels) {
      if (!kernel.tuned) continue;
      const auto buffers = kernel.buffers(at);
      const auto plan = kernel.default_plan(at, fake_pointers(buffers), kernel.default_config(at),
                                            {90, 132, 60 << 20});
      for (const int cc : request.archs.empty() ? std::vector{80, 90, 100, 120} : request.archs) {
        into.insert({kernel.name() + " " + kernel.dtype + " default", of.header, plan.kernel_type,
                     cc, rows_are_aligned(buffers)});
      }
    }
  }
}

std::string disassemble(const std::string& tool, const image& from) {
  const bool is_nvdisasm = fs::path(tool).filename() == "nvdisasm";
  return output_of("'" + tool + "' " + (is_nvdisasm ? "-c" : "-sass") + " '" + from.file + "' 2>&1");
}

std::string widths_text(const std::map<int, int>& widths) {
  std::string text;
  for (auto at = widths.rbegin(); at != widths.rend(); ++at) {
    if (!text.empty()) text += " ";
    text += std::to_string(at->second) + "x" + std::to_string(at->first);
  }
  return text.empty() ? "none" : text;
}

}  // namespace

access_widths read_sass(const std::string& sass) {
  // "LDG.E.128.CONSTANT R4, [R2.64]": the width stands among the suffixes, 32 bits where none does.
  static const std::regex access("\\b(LDG|STG)((?:\\.[A-Z0-9_]+)*)[ \t]");
  access_widths found;
  std::istringstream lines(sass);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_search(line, match, access)) continue;
    const std::string suffixes = match[2].str() + ".";
    const auto has = [&](const char* suffix) { return suffixes.find(suffix) != std::string::npos; };
    const int bytes = has(".256.") ? 32
                      : has(".128.") ? 16
                      : has(".64.")  ? 8
                      : has(".U16.") || has(".S16.") || has(".16.") ? 2
                      : has(".U8.") || has(".S8.") || has(".8.")    ? 1
                                                                    : 4;
    ++(match[1].str()[0] == 'L' ? found.loads : found.stores)[bytes];
  }
  return found;
}

void add_frozen(const op& of, const frozen_config& file, std::vector<int> archs,
                std::set<subject>& into) {
  const auto* kernel = find_kernel(file.kernel, file.dtype).second;
  const auto limits = limits_of(file.device);
  if (archs.empty()) archs.push_back(limits.cc);
  for (const auto& cols : file.cols) {
    for (const auto& rows : cols.rows) {
      problem at;
      at.shape = {rows.measured_rows, cols.hi};
      const auto values = config_from(of, cols.reduction, rows.schedule);
      const auto buffers = kernel->buffers(at);
      const auto plan = kernel->plan(at, fake_pointers(buffers), values, limits);
      const bool wide = axis_value(of, values, "load_bytes", 16) >= 16;
      for (const int cc : archs) {
        into.insert({file.kernel + " " + file.dtype + " " + std::to_string(rows.measured_rows) +
                         "x" + std::to_string(cols.hi) + " (" + file.device.id + ")",
                     of.header, plan.kernel_type, cc, wide && rows_are_aligned(buffers)});
      }
    }
  }
}

int inspect(const inspect_request& request) {
  std::set<subject> subjects;
  for (const auto& of : registry()) {
    for (const auto& [path, file] : read_configs(request.tree, of)) {
      if (file.device.id != "host") add_frozen(of, file, request.archs, subjects);
    }
  }
  if (request.defaults) add_defaults(request, subjects);
  if (subjects.empty()) {
    std::printf("no frozen config below %s; nothing to inspect (--defaults: the untuned kernels)\n",
                request.tree.c_str());
    return 0;
  }
  const auto tool = find_disassembler({"nvdisasm", "cuobjdump"});
  if (tool.empty()) {
    const char* advice = "neither nvdisasm nor cuobjdump was found, so load widths are not read; "
                         "pip install nvidia-cuda-nvdisasm into build/venv, or add one to PATH\n";
    std::fputs(advice, stderr);
    if (request.require_width > 0) return 1;
  }

  const scratch_folder scratch(CAPSTONE_BINARY_DIR);
  std::map<std::pair<int, std::string>, image> images;
  std::map<std::pair<int, std::string>, std::vector<std::string>> groups;  // by arch and header
  for (const auto& each : subjects) groups[{each.cc, each.header}].push_back(each.kernel_type);
  progress compiling("compiling", subjects.size());
  for (const auto& [group, types] : groups) {
    const compile_settings settings{source_root(), group.second, group.first, scratch.path(),
                                    "/proc/self/exe"};
    for (auto& [type, made] : compile_all(settings, types, request.jobs, deadline::max(),
                                          [&] { compiling.step(1); })) {
      images[{group.first, type}] = std::move(made);
    }
  }
  compiling.finish();

  int failures = 0;
  std::printf("%-7s %5s %6s %-24s %-24s %s\n", "arch", "regs", "spill", "loads (count x bytes)",
              "stores", "kernel");
  for (const auto& each : subjects) {
    const auto& made = images.at({each.cc, each.kernel_type});
    const auto arch = "sm_" + std::to_string(each.cc);
    if (!made.error.empty()) {
      ++failures;
      std::printf("%-7s does not compile: %s: %s\n", arch.c_str(), each.label.c_str(),
                  made.error.c_str());
      continue;
    }
    access_widths widths;
    if (!tool.empty()) widths = read_sass(disassemble(tool, made));
    const auto loads = tool.empty() ? "not read" : widths_text(widths.loads);
    const auto stores = tool.empty() ? "not read" : widths_text(widths.stores);
    std::printf("%-7s %5d %6d %-24s %-24s %s\n", arch.c_str(), made.registers, made.spill_bytes,
                loads.c_str(), stores.c_str(), each.label.c_str());
    if (made.spill_bytes > 0) {
      ++failures;
      std::printf("        spills %d bytes: %s\n", made.spill_bytes, each.kernel_type.c_str());
    }
    const int widest = widths.loads.empty() ? 0 : widths.loads.rbegin()->first;
    if (request.require_width > 0 && each.aligned && widest < request.require_width) {
      ++failures;
      std::printf("        widest load is %d bytes, expected %d: %s\n", widest,
                  request.require_width, each.kernel_type.c_str());
    }
  }
  std::printf("%zu kernels, %d failures\n", subjects.size(), failures);
  return failures == 0 ? 0 : 2;
}

}  // namespace capstone::tools
