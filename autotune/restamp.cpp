// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/restamp.hpp"

#include <elf.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "autotune/compile.hpp"
#include "autotune/emit.hpp"
#include "autotune/inspect.hpp"
#include "core/fingerprint.hpp"

namespace capstone::tools {
namespace {

std::map<std::string, image> compile_from(const std::string& root, const std::string& header, int cc,
                                          const std::vector<std::string>& types, int jobs,
                                          const std::string& scratch) {
  return compile_all({root, header, cc, scratch, "/proc/self/exe"}, types, jobs, deadline::max(), [] {});
}

/// The bytes of the kernel's own section. The rest of a cubin names things that change without it.
std::string machine_code(const image& from) {
  if (!from.error.empty()) return {};
  const std::string file = read_text(from.file);
  const auto at = [&]<class T>(T, std::size_t offset) {
    T value;
    if (offset + sizeof value > file.size()) throw std::runtime_error("NVRTC gave a cubin that ends early");
    std::memcpy(&value, file.data() + offset, sizeof value);
    return value;
  };
  const auto header = at(Elf64_Ehdr{}, 0);
  const auto section = [&](std::size_t i) { return at(Elf64_Shdr{}, header.e_shoff + i * header.e_shentsize); };
  const auto names = section(header.e_shstrndx);
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    const auto each = section(i);
    if (file.data() + names.sh_offset + each.sh_name == ".text." + from.entry) {
      return file.substr(each.sh_offset, each.sh_size);
    }
  }
  return {};
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
      const scratch_folder scratch_before(CAPSTONE_BINARY_DIR), scratch_after(CAPSTONE_BINARY_DIR);
      const auto before = compile_from(from, of.header, cc, types, jobs, scratch_before.path());
      const auto after = compile_from(root, of.header, cc, types, jobs, scratch_after.path());
      int changed = 0;
      for (const auto& each : kernels) {
        const auto old = machine_code(before.at(each.kernel_type));
        if (!old.empty() && old == machine_code(after.at(each.kernel_type))) continue;
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
