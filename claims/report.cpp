// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/report.hpp"

#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

#include "claims/table.hpp"
#include "core/context.hpp"
#include "core/records.hpp"

namespace capstone::claims {
namespace {

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

int run(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/// A Python that has what the report needs: that of tools/install-deps, else the system's.
std::string find_python() {
  for (const std::string& python : {std::string(CAPSTONE_BINARY_DIR) + "/venv/bin/python3", std::string("python3")})
    if (run(in_quotes(python) + " -c 'import jinja2, matplotlib, yaml' >/dev/null 2>&1") == 0) return python;
  return "";
}

}  // namespace

int report(const std::string& evidence, std::string folder) {
  const std::string python = find_python();
  if (python.empty()) {
    std::fprintf(stderr, "claims report: no Python with PyYAML, matplotlib and Jinja2; tools/install-deps installs them\n");
    return 1;
  }
  if (folder.empty()) folder = std::string(CAPSTONE_BINARY_DIR) + "/report";
  std::filesystem::create_directories(folder);
  const std::string sentences = folder + "/sentences.tsv";
  atomic_write(sentences, table_text(evidence, "", table_form::sentences));
  const int code = run(in_quotes(python) + " " + in_quotes(source_root() + "/claims/report") + " --evidence " + in_quotes(evidence) + " --out " +
                       in_quotes(folder) + " --root " + in_quotes(source_root()) + " --sentences " + in_quotes(sentences));
  if (code == 0) std::printf("claims report: %s/index.html\n", folder.c_str());
  return code;
}

}  // namespace capstone::claims
