// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "core/buffers.hpp"

using namespace capstone::tools;

namespace {

std::vector<buffer_desc> sample(std::int64_t offset = 0, std::int64_t pad = 3) {
  return {{"x", role::in, dtype::f32, 5, 7, 7 + pad, offset, -1, "normal"},
          {"w", role::in, dtype::bf16, 1, 7, 7, offset, -1, "uniform"},
          {"y", role::out, dtype::f16, 5, 7, 7 + pad, offset, -1, "normal"},
          {"z", role::out, dtype::f32, 5, 7, 7 + pad, offset, 0, "normal"}};
}

std::vector<float> values(const buffer_set& set, int index) {
  const auto bytes = set.download(index);
  std::vector<float> found(bytes.size() / sizeof(float));
  std::memcpy(found.data(), bytes.data(), bytes.size());
  return found;
}

std::vector<float> drawn(const std::string& fill, std::int64_t count, std::uint64_t seed = 1) {
  return values(buffer_set(open_device("host"),
                           {{"x", role::in, dtype::f32, 1, count, count, 0, -1, fill}}, seed), 0);
}

void write_output(const buffer_set& set) {
  auto* y = static_cast<unsigned short*>(set.data()[2]);
  for (int row = 0; row < 5; ++row) {
    for (int col = 0; col < 7; ++col) y[row * 10 + col] = 1;
  }
}

}  // namespace

TEST_CASE("buffers: fresh ones are undamaged and unwritten") {
  buffer_set set(open_device("host"), sample(), 1);
  CHECK(set.find_damage() == "");
  CHECK(set.find_unwritten() == "output y: row 0, col 0 was not written");
  write_output(set);
  CHECK(set.find_unwritten() == "");
  CHECK(set.find_damage() == "");
  set.poison_outputs();
  CHECK(set.find_unwritten() != "");
}

TEST_CASE("buffers: one element left unwritten is found") {
  buffer_set set(open_device("host"), sample(), 1);
  write_output(set);
  static_cast<unsigned short*>(set.data()[2])[3 * 10 + 6] = 0xFFFF;
  CHECK(set.find_unwritten() == "output y: row 3, col 6 was not written");
}

TEST_CASE("buffers: a byte before, between and behind the rows, and in an input, is found") {
  const auto damaged = [](int buffer, std::ptrdiff_t byte) {
    buffer_set set(open_device("host"), sample(), 1);
    static_cast<unsigned char*>(set.data()[static_cast<std::size_t>(buffer)])[byte] ^= 0x40;
    return set.find_damage();
  };
  CHECK(damaged(2, -256) == "output y: 256 bytes before its first element was overwritten");
  CHECK(damaged(2, -1) == "output y: 2 bytes before its first element was overwritten");
  CHECK(damaged(2, 7 * 2) == "output y: byte 0 behind the end of row 0 was overwritten");
  CHECK(damaged(2, (2 * 10 + 9) * 2) ==
        "output y: byte 4 behind the end of row 2 was overwritten");
  CHECK(damaged(2, (4 * 10 + 7) * 2) ==
        "output y: byte 0 behind the end of row 4 (the last) was overwritten");
  CHECK(damaged(2, (4 * 10 + 7) * 2 + 255) != "");
  CHECK(damaged(1, 3 * 2) == "input w: row 0, col 3 was overwritten");
  CHECK(damaged(2, 0) == "");  // the output's own
  CHECK(damaged(0, 0) == "");  // an output lies there
}

TEST_CASE("buffers: every base is aligned, and off by the offset asked for") {
  for (const std::int64_t offset : {0, 1, 4}) {
    const buffer_set set(open_device("host"), sample(offset), 1);
    for (std::size_t i = 0; i < 4; ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(set.data()[i]);
      const auto size = size_of(set.descs()[i].type);
      CHECK(address % 256 == static_cast<std::size_t>(offset) * size);
    }
    CHECK(set.data()[3] == set.data()[0]);
  }
}

TEST_CASE("buffers: reset gives an input back to what lies on it") {
  buffer_set set(open_device("host"), sample(), 1);
  const auto before = values(set, 0);
  static_cast<float*>(set.data()[3])[0] = 42;
  CHECK(values(set, 0) != before);
  set.poison_outputs();
  CHECK(values(set, 0) == before);
  static_cast<float*>(set.data()[3])[0] = 42;
  set.reset();
  CHECK(values(set, 0) == before);
}

TEST_CASE("buffers: the hash sees every bit of the outputs and nothing else") {
  buffer_set set(open_device("host"), sample(), 1);
  write_output(set);
  const auto before = set.output_hash();
  auto* y = static_cast<unsigned short*>(set.data()[2]);
  y[7] ^= 1;  // padding
  static_cast<unsigned short*>(set.data()[1])[0] ^= 1;  // an input
  CHECK(set.output_hash() == before);
  std::set<std::uint64_t> hashes = {before};
  for (const int at : {0, 6, 10, 46}) {
    y[at] ^= 1;
    hashes.insert(set.output_hash());
  }
  std::swap(y[0], y[1]);
  hashes.insert(set.output_hash());
  CHECK(hashes.size() == 6);
}

TEST_CASE("buffers: data depend on seed, buffer, row and col, and come again") {
  CHECK(drawn("normal", 64, 1) == drawn("normal", 64, 1));
  CHECK(drawn("normal", 64, 1) != drawn("normal", 64, 2));
  const auto one = drawn("normal", 4096);
  CHECK(std::set<float>(one.begin(), one.end()).size() > 3500);
}

TEST_CASE("buffers: the generators are what they say") {
  const std::int64_t n = 100000;
  const auto moments = [&](const std::string& fill) {
    double sum = 0, squares = 0;
    for (const float v : drawn(fill, n)) sum += v, squares += double(v) * v;
    return std::pair(sum / double(n), std::sqrt(squares / double(n)));
  };
  for (const auto& [fill, scale] : {std::pair("normal", 1.0), {"large", 1e3}, {"tiny", 1e-4}}) {
    const auto [mean, deviation] = moments(fill);
    CHECK(std::fabs(mean) < 0.015 * scale);
    CHECK(deviation == doctest::Approx(scale).epsilon(0.02));
  }
  for (const float v : drawn("large", n)) CHECK_MESSAGE(std::fabs(v) < 65504, v);
  const auto uniform = moments("uniform");
  CHECK(std::fabs(uniform.first) < 0.01);
  CHECK(uniform.second == doctest::Approx(std::sqrt(1.0 / 3)).epsilon(0.02));
  CHECK(drawn("constant", 3) == std::vector<float>(3, 1.00390625f));
  CHECK(drawn("zero", 3) == std::vector<float>(3, 0.0f));
}

TEST_CASE("buffers: what cannot be is refused by name") {
  const auto make = [](buffer_desc x, buffer_desc y) {
    buffer_set set(open_device("host"), {x, y}, 1);
  };
  const buffer_desc x{"x", role::in, dtype::f32, 2, 8, 8, 0, -1, "normal"};
  const buffer_desc y{"y", role::out, dtype::f32, 2, 8, 8, 0, -1, "normal"};
  auto narrow = y, odd = y, alias = y;
  narrow.stride = 7;
  odd.fill = "pink";
  alias.alias_of = 0;
  alias.cols = 4;
  CHECK_THROWS_WITH(make(x, narrow), "buffer y has rows 2, cols 8, stride 7, offset 0; expected "
                                     "none negative and stride >= cols");
  CHECK_THROWS_WITH(make(x, odd), "buffer y has fill 'pink'; expected normal, large, tiny, "
                                  "constant, zero or uniform");
  CHECK_THROWS_WITH(make(x, alias),
                    "buffer y aliases buffer 0; expected an input of the same dtype, shape and "
                    "stride");
}

TEST_CASE("buffers: no rows are no elements") {
  buffer_set set(open_device("host"), {{"y", role::out, dtype::f16, 0, 8, 8, 0, -1, "normal"}}, 1);
  CHECK(set.find_damage() == "");
  CHECK(set.find_unwritten() == "");
  CHECK(set.download(0).empty());
}
