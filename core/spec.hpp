// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The interface between an op's spec (`specs/<op>.cu`) and the tools: all that `autotune` and
/// `claims` know about a kernel. Plain C++ on purpose: a translation unit that includes this file
/// needs no CUDA compiler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace capstone::tools {

/// Element types by their token in file names, tables and on the command line.
enum class dtype { f32, f16, bf16 };
std::size_t size_of(dtype type);
const char* token(dtype type);

/// One call in numbers: the shape, how its buffers lie in memory, what is in them.
struct problem {
  std::vector<std::int64_t> shape;  ///< in the order of `op::dims`, e.g. {rows, cols}
  std::int64_t offset = 0;          ///< elements by which every base pointer is off 256-byte alignment
  std::int64_t pad = 0;             ///< row stride = cols + pad, in elements
  bool in_place = false;            ///< outputs alias inputs wherever the op allows it
  std::string data = "normal";      ///< generator of the inputs: normal, large, tiny, constant, zero
  std::vector<std::pair<std::string, double>> options = {};  ///< of the op, e.g. {"eps", 1e-5}

  double option(const std::string& name, double otherwise) const {
    for (const auto& [key, value] : options)
      if (key == name) return value;
    return otherwise;
  }
};

enum class role { in, out };

/// A matrix in memory: `rows` rows of `cols` elements, `stride` elements apart.
struct buffer_desc {
  std::string name;
  role use = role::in;
  dtype type = dtype::f32;
  std::int64_t rows = 0, cols = 0, stride = 0;
  std::int64_t offset = 0;    ///< elements from 256-byte alignment to element 0
  int alias_of = -1;          ///< index of the input buffer whose memory this output shares
  std::string fill = "normal";
};

/// Element 0 of every buffer, in the order of `kernel_spec::buffers`; host or device memory.
using pointers = std::vector<void*>;

/// Axis values in the order of `op::axes`.
using config = std::vector<int>;

enum class part { reduction, schedule };

/// One tunable field of an op's config.
struct axis {
  std::string name;
  part belongs = part::schedule;
  std::vector<int> values;               ///< what the tuner tries
  std::vector<std::string> names = {};   ///< for enums: the token of value i is names[i]
  std::function<int(const void*)> get;   ///< reads the field of the op's config type
  std::function<void(void*, int)> set;
  std::string enum_type = {};            ///< for enums: C++ type, e.g. "row_hold", whose enumerators `names` are

  std::string value_token(int value) const;        ///< "registers" or "256"
  int value_of(const std::string& token) const;    ///< throws std::invalid_argument
};

/// Makes an axis from a pointer to member of one part of `Config`.
template <class Config, class Part, class Field>
axis make_axis(const char* name, part belongs, Part Config::* in, Field Part::* field,
               std::vector<int> values, std::vector<std::string> names = {}) {
  static_assert(sizeof(Field) == sizeof(int), "config fields are int or enums of int");
  return {name, belongs, std::move(values), std::move(names),
          [=](const void* c) { return static_cast<int>(static_cast<const Config*>(c)->*in.*field); },
          [=](void* c, int v) { static_cast<Config*>(c)->*in.*field = static_cast<Field>(v); },
          {}};
}

/// What rules and models know about the GPU; `host` has sms = 0.
struct device_limits {
  int cc = 0;  ///< 10 * major + minor; 0 for the host
  int sms = 0;
  std::int64_t l2_bytes = 0;
};

/// A predicate that must hold for a candidate; where it does not, the candidate is pruned.
struct rule {
  std::string reason;  ///< a sentence: why a config that breaks it is not tried
  std::function<bool(const config&, const problem&, const struct kernel_spec&, const device_limits&)>
      holds;
};

/// Bytes the kernel must move through device memory.
struct traffic_model {
  std::int64_t read_bytes = 0, written_bytes = 0;
  int read_streams = 0, written_streams = 0;  ///< big arrays only: the floor copies as many
  std::int64_t reused_bytes = 0;  ///< of the bytes read: what every SM fetches anew from L2, e.g. weights
};

/// Arithmetic of one call, by pipe.
struct work_model {
  double flops = 0;         ///< float32, a fused multiply-add counts 2
  double special = 0;       ///< results of the special-function unit, one per thread: rsqrt, exp
  double tensor_flops = 0;  ///< of the tensor cores, a multiply-add counts 2
};

/// What the shipped function launches: enough to recognise the kernel in a profile.
struct launch_identity {
  std::string symbol;  ///< mangled, as in the machine code
  unsigned grid = 0, block = 0, cluster = 1;
  unsigned dynamic_smem_bytes = 0;
  /// No block goes round its grid-stride loop twice, and every other loop is unrolled: the machine
  /// code shows how many instructions run.
  bool single_pass = false;
  double used = 1;  ///< share of the threads' places in a row that hold an element; the rest is skipped
};

/// How one output compared with its float64 reference.
struct check_result {
  std::string output;
  std::int64_t count = 0, failures = 0;
  double worst_ratio = 0;  ///< error / bound; above 1 is a failure, infinity for a NaN mismatch
  std::int64_t row = 0, col = 0;
  double actual = 0, expected = 0, error = 0, bound = 0;  ///< of the worst element
  double bias = 0, bias_limit = 0;  ///< mean of (|actual| - |expected|) in half ulps, and its limit
  bool passed() const {
    const double magnitude = bias < 0 ? -bias : bias;
    return failures == 0 && worst_ratio <= 1 && magnitude <= bias_limit;
  }
};

/// How to launch one config without the shipped dispatch.
struct launch_plan {
  std::string kernel_type;         ///< C++ type, e.g. "capstone::rms_norm_kernel<...>"
  std::vector<std::byte> params;   ///< bytes of kernel_type::params
  unsigned grid[3] = {1, 1, 1};
  unsigned block = 0, smem_bytes = 0, cluster = 1;
};

/// Which frozen entry the shipped function uses, as its own query answers.
struct choice_info {
  std::string match;  ///< "exact", "range", "other_device", "default"
  config values;
  bool fallback = false;  ///< the run-time path: alignment or the row count found no schedule
};

/// A rival implementation. `run` enqueues one call; it may use `workspace_bytes` of scratch.
struct baseline {
  std::string name;     ///< e.g. "unfused", "textbook"
  std::string version;  ///< of the library it stands for; never empty
  std::function<std::size_t(const problem&)> workspace_bytes;
  std::function<void(const problem&, const pointers&, void* workspace, void* stream)> run;
  std::function<bool(const problem&)> supports;
  bool on_host = false;  ///< runs on host memory as well (stream is then ignored)
  /// Bytes of all its kernels together, through device memory; unset where it is not known.
  std::function<traffic_model(const problem&)> traffic = {};
};

/// One op variant in one dtype: `rms_norm+residual` in `bf16`.
struct kernel_spec {
  std::string op, variant, dtype;
  std::string rounding;  ///< the rounding points in words, shown in every table
  bool tuned = false;    ///< has frozen configs and speed claims
  std::string configs_of = {};  ///< the kernel whose frozen configs this one uses; empty: its own
  std::string name() const { return op + variant; }
  std::string config_name() const { return configs_of.empty() ? name() : configs_of; }

  std::function<std::vector<buffer_desc>(const problem&)> buffers;
  /// Compares the outputs in `actual` with the float64 reference of the inputs in `inputs` (the
  /// same pointers unless an output aliases an input), under the tolerance derived for `values`.
  std::function<std::vector<check_result>(const problem&, const pointers& inputs,
                                          const pointers& actual, const config& values, bool on_host)>
      check;
  std::function<traffic_model(const problem&)> traffic;
  std::function<work_model(const problem&, const config&)> work;
  /// The shipped function, on the stream's device. Returns the sentence of a failure, else "".
  std::function<std::string(const problem&, const pointers&, void* stream)> call;
  /// The shipped path on the host team.
  std::function<std::string(const problem&, const pointers&)> call_host;
  std::function<choice_info(const problem&, const pointers&, const device_limits&)> choice;
  std::function<launch_plan(const problem&, const pointers&, const config&, const device_limits&)> plan;
  /// The plan of the run-time path with the same reduction: the default schedule.
  std::function<launch_plan(const problem&, const pointers&, const config&, const device_limits&)>
      default_plan;
  std::function<config(const problem&)> default_config;
  /// The one kernel that `call` launches. Reads no memory: any pointers of the right alignment do.
  std::function<launch_identity(const problem&, const pointers&, const device_limits&)> launched;
  std::vector<baseline> baselines = {};
};

/// All that the tools know about one fused op.
struct op {
  std::string name;                ///< "rms_norm"
  std::string header;              ///< "capstone/rms_norm.cuh", or a path for an op outside include/
  std::string config_type;         ///< "capstone::row_config"
  std::vector<std::string> dims;   ///< {"rows", "cols"}
  std::vector<axis> axes;
  std::vector<std::string> fixed_fields = {};  ///< config fields that no axis varies, on purpose
  std::size_t config_fields = 0;   ///< fields of the config type; a test compares
  std::vector<rule> rules;
  std::vector<std::pair<std::string, std::vector<problem>>> suites;  ///< llm, narrow, wide, odd, edge
  std::vector<kernel_spec> kernels;

  const std::vector<problem>& suite(const std::string& name) const;  ///< throws std::invalid_argument
};

/// The registry. A spec registers itself from a static initialiser; a plugin does so when loaded.
std::vector<op>& registry();
struct register_op {
  explicit register_op(op value) { registry().push_back(std::move(value)); }
};

/// Finds `rms_norm+residual` in `bf16`; throws std::invalid_argument with the known names.
std::pair<const op*, const kernel_spec*> find_kernel(const std::string& name, const std::string& dtype);

/// Addresses as aligned as real buffers' would be, for plans that are compiled but not run.
pointers fake_pointers(const std::vector<buffer_desc>& buffers);

/// Loads a shared object whose static initialisers register specs; throws std::runtime_error.
void load_plugin(const std::string& path);

/// The files whose machine code holds the registered kernels: this program, then the plugins.
std::vector<std::string> kernel_files();

}  // namespace capstone::tools
