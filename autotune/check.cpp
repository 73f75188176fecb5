// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/check.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "autotune/emit.hpp"
#include "autotune/space.hpp"
#include "core/fingerprint.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

std::string major_of(const std::string& version) { return version.substr(0, version.find('.')); }

const op* op_of(const std::string& kernel) {
  for (const auto& each : registry()) {
    if (belongs_to(each, kernel)) return &each;
  }
  return nullptr;
}

void check_place(const std::string& path, const frozen_config& file, bool committed,
                 findings& into) {
  const auto folder = fs::path(path).parent_path().filename().string();
  const auto name = fs::path(path).filename().string();
  if (folder != file.device.id) {
    into.errors.push_back(path + ": is for device " + file.device.id + " but lies in configs/" +
                          folder + "; move it to " + config_path(file));
  }
  if (name != file.kernel + "." + file.dtype + ".yaml") {
    into.errors.push_back(path + ": is for " + file.kernel + " in " + file.dtype +
                          "; expected the name " + file.kernel + "." + file.dtype + ".yaml");
  }
  if (file.device.id == "host") {
    if (committed) {
      into.errors.push_back(path + ": configs of the host are a self-test and never kept here; "
                                   "remove it");
    }
  } else if (const auto id = device_id(file.device.name, limits_of(file.device));
             id != file.device.id) {
    into.errors.push_back(path + ": device.id is " + file.device.id + "; expected " + id +
                          " for the name and limits in the file; tune on that device: " +
                          tune_command(file));
  }
}

// What makes a file stale. Returns whether its axes are still the declared ones.
bool check_fingerprints(const std::string& path, const frozen_config& file, const op& of,
                        const std::string& root, findings& into) {
  const auto say = [&](const std::string& what, const std::string& then, const std::string& now) {
    into.errors.push_back(path + ": stale, " + what + " changed since it was tuned (then " + then +
                          ", now " + now + "); tune again: " + tune_command(file));
  };
  const auto source = source_fingerprint(root, of.header);
  if (source != file.source) say("the source of " + of.header, file.source, source);
  const auto axes = axes_fingerprint(of);
  if (axes != file.axes) say("the axes or rules of " + of.name, file.axes, axes);
  if (major_of(file.toolchain.cuda) != major_of(CAPSTONE_CUDA_VERSION)) {
    into.warnings.push_back(path + ": tuned with CUDA " + file.toolchain.cuda + ", this is " +
                            CAPSTONE_CUDA_VERSION + "; times may differ, results do not");
  }
  return axes == file.axes;
}

void check_entries(const std::string& path, const frozen_config& file, const op& of,
                   const kernel_spec& kernel, findings& into) {
  for (const auto& cols : file.cols) {
    for (const auto& rows : cols.rows) {
      ++into.entries;
      const auto where = path + ": cols " + std::to_string(cols.lo) + ", rows " +
                         std::to_string(rows.measured_rows) + ": ";
      try {
        const auto values = config_from(of, cols.reduction, rows.schedule);
        problem at;
        at.shape = {rows.measured_rows, cols.hi};
        const bool is_default = values == kernel.default_config(at);
        for (std::size_t i = 0; i < of.axes.size() && !is_default; ++i) {
          const auto& allowed = of.axes[i].values;
          if (std::find(allowed.begin(), allowed.end(), values[i]) == allowed.end()) {
            into.errors.push_back(where + of.axes[i].name + " is " +
                                  of.axes[i].value_token(values[i]) +
                                  ", which the axis does not list; tune again: " +
                                  tune_command(file));
          }
        }
        const auto* broken = broken_rule(of, kernel, values, at, limits_of(file.device));
        if (broken != nullptr && !is_default) {
          into.errors.push_back(where + "breaks the rule '" + broken->reason +
                                "'; tune again: " + tune_command(file));
        }
      } catch (const std::invalid_argument& error) {
        into.errors.push_back(where + error.what() + "; tune again: " + tune_command(file));
      }
    }
  }
}

void check_table(const op& of, const std::vector<config_file>& files, const std::string& tree,
                 findings& into) {
  const auto path = table_path(tree, of, "");
  const bool exists = fs::exists(path);
  if (files.empty() && !exists) return;  // a tree of the user's, or an op never tuned
  try {
    if (!exists || read_text(path) != emit_table(of, files, "")) {
      into.errors.push_back(path + (exists ? ": differs from what" : ": is missing, though") +
                            " configs/ gives; make it again: autotune emit --kernel " + of.name);
    }
  } catch (const std::invalid_argument&) {
    // A value that does not fit, reported with its file above.
  }
}

}  // namespace

device_limits limits_of(const frozen_device& from) {
  std::string digits = from.cc;
  digits.erase(std::remove(digits.begin(), digits.end(), '.'), digits.end());
  return {digits.empty() ? 0 : std::stoi(digits), static_cast<int>(from.sms), from.l2_bytes};
}

std::string tune_command(const frozen_config& file) {
  std::string shapes;
  for (const auto& cols : file.cols) {
    for (const auto& rows : cols.rows) {
      shapes += (shapes.empty() ? "" : ",") + std::to_string(rows.measured_rows) + "x" +
                std::to_string(cols.hi);
    }
  }
  return "autotune --kernel " + file.kernel + " --dtype " + file.dtype + " --shape " + shapes +
         (file.device.id == "host" ? " --device host" : "");
}

findings check_tree(const std::string& tree, const std::string& root) {
  findings found;
  std::error_code ignored;
  const bool committed = fs::equivalent(tree, root, ignored);
  std::vector<std::pair<const op*, config_file>> files;
  for (const auto& path : config_paths(tree)) {
    ++found.files;
    try {
      auto file = read_config(path);
      check_place(path, file, committed, found);
      const auto* of = op_of(file.kernel);
      if (of == nullptr) {
        found.errors.push_back(path + ": kernel.name is " + file.kernel +
                               ", which no spec declares; load it with --spec or remove the file");
        continue;
      }
      const auto [same, kernel] = find_kernel(file.kernel, file.dtype);
      check_fingerprints(path, file, *of, root, found);
      check_entries(path, file, *of, *kernel, found);
      files.emplace_back(same, config_file{path, std::move(file)});
    } catch (const record_error& error) {
      found.errors.push_back(error.what());
    } catch (const std::exception& error) {
      found.errors.push_back(path + ": " + error.what());
    }
  }
  for (const auto& each : registry()) {
    std::vector<config_file> mine;
    for (const auto& [of, file] : files) {
      if (of == &each) mine.push_back(file);
    }
    check_table(each, mine, tree, found);
  }
  return found;
}

}  // namespace capstone::tools
