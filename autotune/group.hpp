// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The unit of a tuning run: one kernel, one column count, all its row counts.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autotune/compile.hpp"
#include "autotune/freeze.hpp"
#include "autotune/journal.hpp"
#include "autotune/session.hpp"
#include "autotune/space.hpp"
#include "autotune/tune.hpp"
#include "core/records.hpp"

namespace capstone::tools {

/// One shape and what the rules leave there.
struct shape_work {
  problem at;
  std::vector<config> configs;
  std::size_t declared = 0;
  std::vector<std::pair<std::string, std::size_t>> pruned = {};  ///< by reason
  /// With --no-prune: configs that one rule alone keeps out. They are tried as all others, and never win.
  std::vector<pruned_alone> audited = {};

  bool has(const config& values) const;
  const pruned_alone* audit_of(const config& values) const;  ///< nullptr unless `values` is audited
};

/// A config that was frozen for a range of row counts; hi = 0: no upper bound.
struct incumbent {
  std::int64_t lo = 1, hi = 0;
  config values;
};

/// All shapes of one kernel and column count: they share candidates, compilations and a reduction.
struct group {
  const op* of = nullptr;
  const kernel_spec* kernel = nullptr;
  std::vector<shape_work> shapes;
  std::vector<candidate> candidates;  ///< the union over the shapes, default first, then shuffled
  std::vector<std::vector<std::string>> types;  ///< per candidate, every kernel type it is run as
  std::vector<incumbent> incumbents;  ///< frozen before: those of the space are in every run-off
  candidate_counts counts;
  nlohmann::json audit = nlohmann::json::array();  ///< per shape and rule: see audit_shape in tune_group.cpp

  std::int64_t cols() const { return shapes.front().at.shape.back(); }
  std::string name() const {
    return kernel->name() + " " + kernel->dtype + ", cols " + std::to_string(cols());
  }
};

/// The groups of a request, with their candidates and kernel types; prints what the rules left.
std::vector<group> make_groups(const tune_request& request, const device& where);

/// Every kernel type that a config is run as: gate and tuned shapes, its own and its reference.
std::vector<std::string> types_of(const group& work, const device& where, const config& values);

/// The kernel types of candidates without a status, by the header they need (one compilation includes
/// one), in the order to compile them: a candidate of every group in turn, so that a budget that ends
/// early leaves each a share.
std::map<std::string, std::vector<std::string>> types_by_header(const std::vector<group*>& groups);

/// The results of a group that an earlier run finished.
std::optional<std::vector<shape_result>> finished_group(group& work, const journal& log);

/// Gives candidates that failed to compile or at the gate, in an earlier run, their status: nothing of
/// them is done again.
void recall_failures(group& work, const journal& log);

std::string group_key(const group& work);
std::string gate_key(const group& work, const config& values);

/// Takes compile results into the candidates' states, and failures into the journal.
void note_compilation(group& work, const std::map<std::string, image>& images, journal& log);
std::string compile_key(const group& work, const config& values);

/// Gates, screens and races the candidates of a group, as far as the journal does not know the outcome.
/// Returns the run-offs of the shapes that have any; candidates carry their status and counts. Throws
/// device_failed and stopped.
/// \param end where `limited`, the screening stops in time for it
std::vector<shape_result> tune_group(group& work, worker_session& on, journal& log, const std::map<std::string, image>& images,
                                     deadline end, bool limited);

/// How many failed how, with an example.
void print_failures(const group& work);

// ---- lines of the journal ----------------------------------------------------------------------

/// {"lanes": "256", "hold": "packed"}
nlohmann::json config_json(const op& of, const config& values);
config config_from_json(const op& of, const nlohmann::json& text);
nlohmann::json to_json(const candidate_counts& from);
candidate_counts counts_from(const nlohmann::json& text);
shape_result shape_result_from(const op& of, const nlohmann::json& run_off);

}  // namespace capstone::tools
