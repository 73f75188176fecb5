// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/restamp.hpp"

#include <cstdio>

#include "autotune/compile.hpp"
#include "autotune/emit.hpp"
#include "autotune/inspect.hpp"
#include "core/fingerprint.hpp"

namespace capstone::tools {
namespace {

std::map<std::string, image> compile_from(const std::string& root, const std::string& header, int cc,
                                          const std::vector<std::string>& types, int jobs) {
  return compile_all({root, header, cc, "", "/proc/self/exe"}, types, jobs, deadline::max(), [] {});
}

}  // namespace

int restamp(const std::string& tree, const std::string& root, const std::string& from, int jobs) {
  int differing = 0;
  for (const auto& of : registry()) {
    const auto now = source_fingerprint(root, of.header);
    for (auto& [path, file] : read_configs(tree, of)) {
      if (file.source == now || file.device.id == "host") continue;
      const auto then = source_fingerprint(from, of.header);
      if (then != file.source) {
        std::printf("%s: was tuned with source %s, but %s has %s\n", path.c_str(), file.source.c_str(),
                    from.c_str(), then.c_str());
        ++differing;
        continue;
      }
      std::set<subject> kernels;
      add_frozen(of, file, {}, kernels);
      std::vector<std::string> types;
      for (const auto& each : kernels) types.push_back(each.kernel_type);
      const int cc = kernels.begin()->cc;
      const auto before = compile_from(from, of.header, cc, types, jobs);
      const auto after = compile_from(root, of.header, cc, types, jobs);
      int changed = 0;
      for (const auto& each : kernels) {
        const auto &old = before.at(each.kernel_type), &fresh = after.at(each.kernel_type);
        if (old.error.empty() && !old.cubin.empty() && old.cubin == fresh.cubin) continue;
        std::printf("%s: other machine code: %s\n", path.c_str(), each.label.c_str());
        ++changed;
      }
      differing += changed;
      if (changed > 0) continue;
      file.source = now;
      atomic_write(path, write_config(file));
      std::printf("%s: the machine code of its %zu kernels is unchanged; source is now %s\n",
                  path.c_str(), kernels.size(), now.c_str());
    }
  }
  return differing == 0 ? 0 : 2;
}

}  // namespace capstone::tools
