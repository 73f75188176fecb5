// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstone::tools {

/// Sizes of one problem, in the order of the spec's dims, e.g. {rows, cols}.
using dim_sizes = std::vector<std::int64_t>;

/// No command line enumerates more shapes than this.
inline constexpr std::size_t max_shapes = std::size_t{1} << 20;

/// Reads a command line's shapes: `4096x8192`, lists `1x8192,64x8192`, and in place of any size a
/// range with both ends included: `1:4096:x4` (times 4) or `128:1024:128` (plus 128). A list's
/// order is kept; within a shape the last dim runs fastest. Zero is a size; an element count above
/// int64 is not. Throws std::invalid_argument that quotes the text and says what was expected.
std::vector<dim_sizes> parse_shapes(std::string_view spec, std::size_t n_dims);

/// `4096x8192`: what parse_shapes reads back.
std::string format_shape(std::span<const std::int64_t> dims);

/// `rows=4096,cols=8192`, the spelling in files and reports. Sizes and names pair up in order.
std::string format_shape(std::span<const std::int64_t> dims, std::span<const std::string> names);

/// Reads one `rows=4096,cols=8192`, with exactly these names in this order.
dim_sizes parse_named_shape(std::string_view text, std::span<const std::string> names);

}  // namespace capstone::tools
