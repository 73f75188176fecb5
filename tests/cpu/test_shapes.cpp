// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "core/shapes.hpp"

using namespace capstone::tools;
using shapes = std::vector<dim_sizes>;

TEST_CASE("a shape is its sizes with an x between them") {
  CHECK(parse_shapes("4096x8192", 2) == shapes{{4096, 8192}});
  CHECK(parse_shapes("7", 1) == shapes{{7}});
  CHECK(parse_shapes("1x2x3", 3) == shapes{{1, 2, 3}});
}

TEST_CASE("a list of shapes keeps its order") {
  CHECK(parse_shapes("64x128,1x8192", 2) == shapes{{64, 128}, {1, 8192}});
}

TEST_CASE("a range multiplies or steps, with both ends included") {
  CHECK(parse_shapes("1:64:x4", 1) == shapes{{1}, {4}, {16}, {64}});
  CHECK(parse_shapes("1:63:x4", 1) == shapes{{1}, {4}, {16}});
  CHECK(parse_shapes("128:512:128", 1) == shapes{{128}, {256}, {384}, {512}});
  CHECK(parse_shapes("0:5:2", 1) == shapes{{0}, {2}, {4}});
  CHECK(parse_shapes("5:5:x2", 1) == shapes{{5}});
}

TEST_CASE("ranges in several dims are enumerated, the last dim fastest") {
  CHECK(parse_shapes("1:2:x2x10:30:10", 2) ==
        shapes{{1, 10}, {1, 20}, {1, 30}, {2, 10}, {2, 20}, {2, 30}});
  CHECK(parse_shapes("1:4096:x64x8192,3x5", 2) ==
        shapes{{1, 8192}, {64, 8192}, {4096, 8192}, {3, 5}});
}

TEST_CASE("zero rows are a shape") { CHECK(parse_shapes("0x8192", 2) == shapes{{0, 8192}}); }

TEST_CASE("a range that ends at the largest size ends there, and one beyond it is refused") {
  CHECK(parse_shapes("72057594037927935:72057594037927936:1", 1).size() == 2);
  CHECK(parse_shapes("36028797018963968:72057594037927936:x2", 1).size() == 2);
  CHECK_THROWS_WITH_AS(parse_shapes("72057594037927937", 1), doctest::Contains("expected at most 2^56 elements"), std::invalid_argument);
}

TEST_CASE("a text that is no shape is quoted, with what was expected") {
  const auto refuses = [](const char* text, const char* message, std::size_t dims = 2) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_shapes(text, dims), doctest::Contains(message),
                         std::invalid_argument);
  };
  refuses("", "shape text '' has 1 sizes; expected 2 with an x between them");
  refuses("8192", "shape text '8192' has 1 sizes; expected 2");
  refuses("1x2x3", "'1x2x3' has 3 sizes; expected 2");
  refuses("1x", "shape text '' in '1x' is not a size; expected a whole number from 0 up");
  refuses("-1x5", "shape text '-1' in '-1x5' is not a size");
  refuses("+1x5", "shape text '+1' in '+1x5' is not a size");
  refuses("1kx5", "shape text '1k' in '1kx5' is not a size");
  refuses("1 x5", "shape text '1 ' in '1 x5' is not a size");
  refuses("1x5,", "shape text '' in '1x5,' has 1 sizes");
  refuses("99999999999999999999x1", "is too large; expected a size that fits int64");
  refuses("4294967296x4294967296", "expected at most 2^56 elements");
  refuses("1:8x5", "shape text '1:8' in '1:8x5' is not a range; expected first:last:step");
  refuses("8:1:x2x5", "shape text '8:1:x2' in '8:1:x2x5' ends below its start");
  refuses("1:8:x1x5", "expected a factor from 2 up");
  refuses("0:8:x2x5", "shape text '0:8:x2' in '0:8:x2x5' multiplies 0");
  refuses("1:8:0x5", "expected a step from 1 up");
  refuses("1:8:xx5", "shape text '' in '1:8:xx5' is not a size; expected a whole factor from 2 up");
  refuses("0:9223372036854775807:1x1", "has too many sizes; expected at most 1048576");
  refuses("1:2000:1x1:2000:1", "gives too many shapes; expected at most 1048576");
  CHECK_THROWS_WITH_AS(parse_shapes("1", 0), "n_dims is 0; expected at least 1",
                       std::invalid_argument);
}

TEST_CASE("a shape is written as it is read") {
  const dim_sizes dims = {4096, 8192};
  const std::vector<std::string> names = {"rows", "cols"};
  CHECK(format_shape(dims) == "4096x8192");
  CHECK(parse_shapes(format_shape(dims), 2) == shapes{dims});
  CHECK(format_shape(dims, names) == "rows=4096,cols=8192");
  CHECK(parse_named_shape(format_shape(dims, names), names) == dims);
}

TEST_CASE("a named shape has the spec's names in the spec's order") {
  const std::vector<std::string> names = {"rows", "cols"};
  const auto refuses = [&](const char* text, const char* message) {
    CAPTURE(text);
    CHECK_THROWS_WITH_AS(parse_named_shape(text, names), doctest::Contains(message),
                         std::invalid_argument);
  };
  refuses("rows=1", "has 1 sizes; expected 2 of the form name=size");
  refuses("cols=1,rows=2", "'cols=1' in 'cols=1,rows=2' has another name; expected rows=size");
  refuses("rows=1,cols=", "is not a size");
  refuses("rows=4294967296,cols=4294967296", "expected at most 2^56 elements");
  CHECK_THROWS_WITH_AS(format_shape(dim_sizes{1}, names),
                       doctest::Contains("names has 2 entries; expected 1"), std::invalid_argument);
}
