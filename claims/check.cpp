// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "claims/check_understood.hpp"
#include "claims/table.hpp"
#include "core/shapes.hpp"

namespace capstone::claims {
namespace {

/// Whether every pair of `part` is among `values`.
bool holds(const config_values& values, const config_values& part) {
  return std::all_of(part.begin(), part.end(), [&](const auto& pair) {
    return std::find(values.begin(), values.end(), pair) != values.end();
  });
}

template <class Entry>
const Entry* entry_for(const std::vector<Entry>& entries, std::int64_t size) {
  const Entry* found = nullptr;
  for (const Entry& entry : entries) {
    if (size < entry.lo || (entry.hi != 0 && size > entry.hi)) continue;
    if (entry.lo == entry.hi) return &entry;  // exactly this size comes before a range
    if (found == nullptr) found = &entry;
  }
  return found;
}

/// "" unless the config that was measured is not the frozen one for these sizes.
template <class Item>
std::string why_not_frozen(const Item& item, const std::string& path) {
  if (item.match != "exact" && item.match != "range") return "";  // no frozen config was used
  if (!std::filesystem::exists(path)) return "there is no " + path;
  const frozen_config frozen = read_config(path);
  static const std::array<std::string, 2> names = {"rows", "cols"};
  const dim_sizes sizes = parse_named_shape(item.what.shape, names);
  const std::string measured = "; measured was " + text_of(item.config);
  const cols_entry* cols = entry_for(frozen.cols, sizes[1]);
  if (cols == nullptr) return path + " has no entry for these cols" + measured;
  if (!holds(item.config, cols->reduction))
    return path + " has " + text_of(cols->reduction) + " for these cols" + measured;
  if (item.fallback) return "";  // the run-time path: no frozen schedule
  const rows_entry* rows = entry_for(cols->rows, sizes[0]);
  if (rows == nullptr) return path + " has no entry for these rows" + measured;
  if (!holds(item.config, rows->schedule))
    return path + " has " + text_of(rows->schedule) + " for these rows" + measured;
  return "";
}

/// The kernel whose configs `kernel` uses; itself where this program does not know it.
std::string config_name(const std::string& kernel, const std::string& dtype) {
  for (const op& of : registry())
    for (const kernel_spec& k : of.kernels)
      if (k.name() == kernel && k.dtype == dtype) return k.config_name();
  return kernel;
}

/// Names what is wrong with one record and returns how much that is.
class checker {
 public:
  checker(const std::string& root) : root_(root) {}
  int problems() const { return problems_; }

  void complain(const std::string& sentence) {
    std::fprintf(stderr, "%s\n", sentence.c_str());
    ++problems_;
  }

  template <class Item>
  void compare(const std::string& record, const std::string& device, const std::string& kernel,
               const std::string& dtype, const Item& item) {
    const std::string path =
        root_ + "/configs/" + device + "/" + config_name(kernel, dtype) + "." + dtype + ".yaml";
    const std::string why = why_not_frozen(item, path);
    if (!why.empty())
      complain(record + " is stale: " + kernel + " " + dtype + " " + item.what.shape + ": " + why);
  }

  template <class Work>
  void guarded(Work work) {
    try {
      work();
    } catch (const std::exception& error) {  // the others are still worth reading
      complain(error.what());
    }
  }

 private:
  std::string root_;
  int problems_ = 0;
};

}  // namespace

int check(const std::string& root, const std::string& evidence) {
  checker found(root);
  int records = 0;
  for (const auto& [path, name] : record_files(evidence, "", "verify")) {
    found.guarded([&, &path = path, &name = name] {
      const verify_record record = read_verify(path);
      for (const verified& v : record.problems)
        found.compare(name, record.device.id, record.kernel, record.dtype, v);
    });
    ++records;
  }
  for (const auto& [path, name] : record_files(evidence, "", "sessions")) {
    found.guarded([&, &path = path, &name = name] {
      const session_record record = read_session(path);
      for (const comparison& c : record.comparisons)
        found.compare(name, record.device.id, c.kernel, c.dtype, c);
    });
    ++records;
  }
  const understood_check understood = check_understood(root, evidence);
  for (const std::string& sentence : understood.problems) found.complain(sentence);
  for (const std::string& note : understood.notes) std::printf("%s\n", note.c_str());
  records += understood.records;
  std::printf("claims check: %d records, %d problems\n", records, found.problems());
  return found.problems() == 0 ? 0 : 2;
}

}  // namespace capstone::claims
