// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The records that `claims` writes and reads: what `verify` found for one kernel and dtype
/// (evidence/<device>/verify/<kernel>.<dtype>.yaml) and what one run of `bench` measured
/// (evidence/<device>/sessions/<session>.yaml).
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/context.hpp"
#include "core/records.hpp"
#include "core/spec.hpp"
#include "core/stats.hpp"

namespace capstone::claims {

using namespace tools;

inline constexpr const char* verify_schema = "capstone-verify/1";
inline constexpr const char* session_schema = "capstone-session/1";
inline constexpr const char* host_note = "self-test on the host: these times claim nothing";

struct record_device {
  std::string id, name, cc;
  std::int64_t sms = 0, l2_bytes = 0;
  std::string driver;
};

/// What every record begins with, from `schema` to `device`.
void write_run(yaml_writer& w, const char* schema, const run_context& run, const record_device& device);
void read_run(const yaml_reader& at, const char* schema, run_context& run, record_device& device);
/// `key: {median: 1, low: 0.9, high: 1.1}`
void write_band(yaml_writer& w, const char* key, const ratio_band& band);
ratio_band read_band(const yaml_reader& at);
/// A `note` that says what the writer writes: anything else would be lost when the record is written again.
void expect_note(const yaml_reader& at, const std::string& note);
/// A name in a list, which must not come twice.
std::string read_new_name(const yaml_reader& at, std::set<std::string>& seen);

/// The number as a record keeps it: rounded, finite. Verdicts are taken on these, so that whoever
/// reads the record comes to the same.
double recorded(double value);
ratio_band recorded(const ratio_band& band);
check_result recorded(check_result result);

/// What identifies a problem in a record: `rows=3,cols=17`, and what differs from a plain call,
/// `offset=1 pad=2 in_place data=large eps=1.0e-05` ("" for a plain one).
struct problem_id {
  std::string shape, layout;
  bool operator==(const problem_id&) const = default;
};
problem_id id_of(const op& of, const problem& what);

/// Axis names and value tokens of a config, in the order of the op's axes.
config_values tokens_of(const op& of, const config& values);
std::string text_of(const config_values& values);  ///< "lanes=256,hold=packed"

/// One problem as verified.
struct verified {
  std::string suite;
  problem_id what;
  std::string match;  ///< how the library found its config: exact, range, other_device, default
  bool fallback = false;
  config_values config;
  std::string fault;  ///< a sentence, "" where nothing but the numbers below speaks
  std::vector<check_result> outputs;

  bool passed() const;
  const check_result* worst() const;  ///< the output with the largest ratio; null without outputs
};

struct verify_record {
  run_context run;
  record_device device;
  std::string kernel, dtype, rounding;
  std::vector<verified> problems;
};

/// One arm of a comparison. `speedup` is the median of the per-round ratios arm / capstone, so
/// above 1 capstone is the faster; absent for capstone itself.
struct arm_row {
  std::string name, version;
  double ms = 0, low = 0, high = 0;
  std::optional<ratio_band> speedup;
  std::vector<double> spread = {};  ///< ms, of the rounds: 5, 25, 75 and 95 %; empty in older records
  std::vector<std::string> kernels = {};  ///< that ran, as the profiler names them; in races of `tools/race`
  double do_bench_ms = 0;                 ///< by Triton's do_bench, beside; 0: not measured
};

/// A peer that was not raced.
struct absent_peer {
  std::string name, version, reason;
};

inline constexpr const char* own_name = "capstone";
inline constexpr const char* twin_name = "capstone A/A twin";
inline constexpr const char* floor_name = "floor";

/// One kernel on one problem against its baselines, the floor and itself.
struct comparison {
  std::string kernel, dtype, rounding;
  problem_id what;
  std::string match;
  bool fallback = false;
  config_values config;
  std::int64_t bytes = 0;  ///< that the kernel must move
  std::string timer;
  std::int64_t rounds = 0, calls_per_sample = 0, sets = 0;
  bool flushed = false;
  std::vector<std::int64_t> sm_mhz;   ///< min, median, max; empty where not known
  double watts = 0;                   ///< median; 0 where not known
  std::int64_t other_processes = -1;  ///< -1: not known
  ratio_band floor_target;            ///< capstone / floor
  std::vector<arm_row> arms;
  std::string suite;                ///< of the op, "" where none; in races of `tools/race`
  std::vector<absent_peer> absent;  ///< in races of `tools/race`

  /// From `tools/race`: against other libraries, where `bench` races baselines of our own.
  bool is_race() const;
  const arm_row* find(const std::string& name) const;
  /// The A/A interval lies wholly outside 1 +- 0.5 %: nothing is claimed from it.
  bool is_void() const;
};

struct session_record {
  run_context run;
  record_device device;
  std::int64_t seed = 0;
  std::vector<comparison> comparisons;
};

std::string write_verify(const verify_record& record);
std::string write_session(const session_record& record);
verify_record read_verify(const std::string& path);    ///< strict; throws record_error
session_record read_session(const std::string& path);  ///< strict; throws record_error

}  // namespace capstone::claims
