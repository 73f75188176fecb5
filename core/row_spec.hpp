// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What the specs of all row kernels share: the axes of `row_config`, the rules that prune them,
/// and the conversions between a config and its axis values. Names no kernel.
#pragma once

#include <cstring>
#include <string>
#include <type_traits>
#include <typeinfo>

#include "capstone/detail/launch.cuh"
#include "core/spec.hpp"

namespace capstone::detail {
template <class Kernel>
struct enter {};
}  // namespace capstone::detail

namespace capstone::tools {

/// The axes of row_config, in the order of `config`.
std::vector<axis> row_axes();
/// Why a row_config is not tried; each sentence has the number it rests on.
std::vector<rule> row_rules();

row_config to_row_config(const config& values);
config from_row_config(const row_config& c);
/// `capstone::row_config{.reduction = {...}, .schedule = {...}}`
std::string row_config_text(const row_config& c);

/// An op on rows with the axes and rules of `row_config`; suites and kernels are the spec's to add.
op make_row_op(std::string name, std::string header);

/// Roundings between an element and the sum of its row, the d of `gamma_bound`.
double row_tree_depth(const row_reduction& r, std::int64_t cols);

/// The axis values of the run-time path for a reduction.
config default_values(const row_reduction& r, int load_bytes);

template <class Params>
launch_plan make_launch_plan(std::string kernel_type, const Params& params, const detail::launch_size& size) {
  static_assert(std::is_trivially_copyable_v<Params>);
  launch_plan plan;
  plan.kernel_type = std::move(kernel_type);
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.grid[0] = unsigned(size.blocks);
  plan.block = unsigned(size.threads);
  plan.cluster = unsigned(size.cluster);
  return plan;
}

/// The mangled name of the kernel `entry<Kernel>`. A function template's name cannot be asked for without
/// a GPU; that of a class template with as long a name beside it can, and differs in these letters alone.
template <class Kernel>
std::string entry_symbol() {
  std::string name = typeid(detail::enter<Kernel>).name();
  name.replace(name.find("5enter"), 6, "5entry");
  return "_Z" + name + "vNT_6paramsE";
}

/// Params of a call, and the widest access its pointers allow.
template <class Op>
struct prepared_call {
  typename Op::params params;
  int vector = 1;
};

/// Fills what follows from the op's types: variant, dtype, choice, plans and the default config.
/// \param type_prefix the kernel class up to its config: "my::kernel<float"
/// \param prepare (problem, pointers) -> prepared_call<Op>; throws std::invalid_argument
template <class Op, class Table, class Prepare>
void add_row_plans(kernel_spec& k, const std::string& type_prefix, Prepare prepare) {
  const auto type_name = [type_prefix](const row_config& c, std::int64_t steps) {
    return type_prefix + ", " + row_config_text(c) + ", " + std::to_string(steps) + ">";
  };
  k.variant = Op::variant;
  k.dtype = Op::dtype;
  k.choice = [prepare](const problem& p, const pointers& at, const device_limits& d) {
    const auto call = prepare(p, at);
    const config_choice c = detail::query_row_kernel<Op, Table>({d.cc, d.sms, d.l2_bytes}, call.params.rows,
                                                                call.params.cols, call.vector);
    const char* const words[] = {"exact", "range", "other_device", "default"};
    return choice_info{words[int(c.match)], from_row_config(c.config), c.fallback};
  };
  k.launched = [prepare](const problem& p, const pointers& at, const device_limits& d) {
    auto call = prepare(p, at);
    const detail::row_selection s = detail::select_row_kernel<Op, Table>({d.cc, d.sms, d.l2_bytes}, call.params.rows,
                                                                         call.params.cols, call.vector);
    const bool once = s.choice.row < 0 || Table::rows[s.choice.row].config.schedule.persistent == 0;
    return detail::visit_row_kernel<Op, Table>(
        s, call.params, d.sms, [&]<class Kernel>(const detail::launch_size& size) {
          const double places = double(detail::row_steps(s.choice.reduction, call.params.cols)) *
                                s.choice.reduction.lanes * s.choice.reduction.elements * s.choice.reduction.cluster;
          return launch_identity{entry_symbol<Kernel>(), unsigned(size.blocks), unsigned(size.threads),
                                 unsigned(size.cluster), 0, once, double(call.params.cols) / places};
        });
  };
  k.default_plan = [prepare, type_name](const problem& p, const pointers& at, const config& values,
                                        const device_limits&) {
    auto call = prepare(p, at);
    const row_reduction r = to_row_config(values).reduction;
    const int vector = call.vector < r.elements ? call.vector : r.elements;
    const detail::launch_size size = detail::runtime_launch(call.params, r);
    return make_launch_plan(type_name(detail::runtime_config(vector * Op::element_bytes), 0), call.params, size);
  };
  k.plan = [prepare, type_name, otherwise = k.default_plan](const problem& p, const pointers& at,
                                                            const config& values, const device_limits& d) {
    const auto call = prepare(p, at);
    const row_config c = to_row_config(values);
    if (c.schedule.load_bytes > call.vector * Op::element_bytes) return otherwise(p, at, values, d);
    return make_launch_plan(
        type_name(detail::compiled_part(c), detail::row_steps(c.reduction, call.params.cols)), call.params,
        {detail::row_grid(c, call.params.rows, d.sms), detail::block_threads(c), c.reduction.cluster});
  };
  k.default_config = [](const problem& p) {
    return default_values(detail::default_reduction(p.shape.at(1), Op::element_bytes), 16);
  };
}

#if defined(__CUDACC__)
/// `call` and `call_host` for a kernel without a public function of its own.
template <class Op, class Table, class Prepare>
void add_row_calls(kernel_spec& k, Prepare prepare) {
  k.call = [prepare](const problem& p, const pointers& at, void* stream) -> std::string {
    if (p.shape.at(0) == 0) return "";
    const auto call = prepare(p, at);
    const status s = detail::launch_rows<Op, Table>(call.params, call.vector, static_cast<cudaStream_t>(stream));
    return s.ok() ? "" : s.sentence().c_str();
  };
  k.call_host = [prepare](const problem& p, const pointers& at) -> std::string {
    if (p.shape.at(0) == 0) return "";
    const auto call = prepare(p, at);
    detail::run_rows_on_host<Op, Table>(call.params, call.vector);
    return "";
  };
}
#endif

}  // namespace capstone::tools
