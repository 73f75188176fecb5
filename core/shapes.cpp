// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "core/shapes.hpp"

#include <charconv>
#include <limits>
#include <stdexcept>

namespace capstone::tools {
namespace {

constexpr std::int64_t int64_max = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void fail(std::string_view text, const std::string& problem,
                       std::string_view whole) {
  std::string message = "shape text '" + std::string(text) + "' ";
  if (text != whole) message += "in '" + std::string(whole) + "' ";
  throw std::invalid_argument(message + problem);
}

std::int64_t parse_size(std::string_view text, const char* expected, std::string_view whole) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    fail(text, "is too large; expected a size that fits int64", whole);
  }
  if (error != std::errc{} || stop != end || value < 0) {
    fail(text, std::string("is not a size; expected ") + expected, whole);
  }
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    // The x of a range's factor (`1:64:x2`) is no separator.
    const bool factor = separator == 'x' && i > 0 && i < text.size() && text[i - 1] == ':';
    if (i == text.size() || (text[i] == separator && !factor)) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  return parts;
}

std::vector<std::int64_t> parse_dim(std::string_view text, std::string_view whole) {
  const auto parts = split(text, ':');
  if (parts.size() == 1) return {parse_size(text, "a whole number from 0 up", whole)};
  if (parts.size() != 3) {
    fail(text, "is not a range; expected first:last:step or first:last:xFACTOR", whole);
  }
  const auto first = parse_size(parts[0], "a range's first size, from 0 up", whole);
  const auto last = parse_size(parts[1], "a range's last size, from 0 up", whole);
  if (last < first) fail(text, "ends below its start; expected first <= last", whole);
  const bool geometric = parts[2].starts_with('x');
  const auto step = parse_size(parts[2].substr(geometric ? 1 : 0),
                               geometric ? "a whole factor from 2 up" : "a whole step from 1 up",
                               whole);
  if (geometric && step < 2) fail(text, "does not grow; expected a factor from 2 up", whole);
  if (geometric && first == 0) {
    fail(text, "multiplies 0; expected a range with a factor to start from 1 up", whole);
  }
  if (!geometric && step < 1) fail(text, "does not grow; expected a step from 1 up", whole);
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = first;;) {
    if (sizes.size() == max_shapes) {
      fail(text, "has too many sizes; expected at most " + std::to_string(max_shapes), whole);
    }
    sizes.push_back(size);
    const bool at_end = geometric ? size > last / step : size > last - step;
    if (at_end) return sizes;
    size = geometric ? size * step : size + step;
  }
}

void check_elements(const dim_sizes& dims, std::string_view text, std::string_view whole) {
  std::int64_t elements = 1;
  for (const auto size : dims) {
    if (size == 0) return;
  }
  for (const auto size : dims) {
    // Their bytes, strides and guards have to fit as well.
    if (elements > (std::int64_t{1} << 56) / size) {
      fail(text, "gives " + format_shape(dims) + "; expected at most 2^56 elements", whole);
    }
    elements *= size;
  }
}

}  // namespace

std::vector<dim_sizes> parse_shapes(std::string_view spec, std::size_t n_dims) {
  if (n_dims == 0) throw std::invalid_argument("n_dims is 0; expected at least 1");
  std::vector<dim_sizes> shapes;
  for (const auto text : split(spec, ',')) {
    const auto parts = split(text, 'x');
    if (parts.size() != n_dims) {
      fail(text, "has " + std::to_string(parts.size()) + " sizes; expected " +
                     std::to_string(n_dims) + " with an x between them",
           spec);
    }
    std::vector<dim_sizes> product = {{}};
    for (const auto part : parts) {
      const auto sizes = parse_dim(part, spec);
      if (sizes.size() > (max_shapes - shapes.size()) / product.size()) {
        fail(text, "gives too many shapes; expected at most " + std::to_string(max_shapes), spec);
      }
      std::vector<dim_sizes> wider;
      wider.reserve(product.size() * sizes.size());
      for (const auto& head : product) {
        for (const auto size : sizes) {
          wider.push_back(head);
          wider.back().push_back(size);
        }
      }
      product = std::move(wider);
    }
    for (auto& dims : product) {
      check_elements(dims, text, spec);
      shapes.push_back(std::move(dims));
    }
  }
  return shapes;
}

std::string format_shape(std::span<const std::int64_t> dims) {
  std::string text;
  for (const auto size : dims) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text;
}

std::string format_shape(std::span<const std::int64_t> dims, std::span<const std::string> names) {
  if (dims.size() != names.size()) {
    throw std::invalid_argument("names has " + std::to_string(names.size()) +
                                " entries; expected " + std::to_string(dims.size()) +
                                ", one for each of dims");
  }
  std::string text;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) text += ',';
    text += names[i] + "=" + std::to_string(dims[i]);
  }
  return text;
}

dim_sizes parse_named_shape(std::string_view text, std::span<const std::string> names) {
  const auto parts = split(text, ',');
  if (parts.size() != names.size()) {
    fail(text, "has " + std::to_string(parts.size()) + " sizes; expected " +
                   std::to_string(names.size()) + " of the form name=size",
         text);
  }
  dim_sizes dims;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string prefix = names[i] + "=";
    if (!parts[i].starts_with(prefix)) {
      fail(parts[i], "has another name; expected " + prefix + "size", text);
    }
    dims.push_back(parse_size(parts[i].substr(prefix.size()), "a whole number from 0 up", text));
  }
  check_elements(dims, text, text);
  return dims;
}

}  // namespace capstone::tools
