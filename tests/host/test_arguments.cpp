// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// Bad arguments get a status and a sentence that names the argument, its value and what was expected.

#include <capstone/fused.cuh>

#include <doctest/doctest.h>

#include <string>

using namespace capstone;

namespace {

alignas(16) bf16 memory[4096];

rms_norm_problem<bf16> good() {
  rms_norm_problem<bf16> p;
  p.x = memory, p.y = memory + 1024, p.weight = memory + 2048, p.rows = 4, p.cols = 64;
  return p;
}
std::string sentence(const rms_norm_problem<bf16>& p) {
  return rms_norm_on_host<bf16>(p).sentence().c_str();
}
std::string argument(const rms_norm_problem<bf16>& p) {
  const char* name = rms_norm_on_host<bf16>(p).argument();
  return name != nullptr ? name : "";
}

}  // namespace

TEST_CASE("rms_norm: a good call succeeds") { CHECK(sentence(good()) == "success"); }

TEST_CASE("rms_norm: zero rows succeed, whatever the pointers") {
  CHECK(sentence({.rows = 0, .cols = 64}) == "success");
}

TEST_CASE("rms_norm: sizes and strides are named with their value") {
  auto p = good();
  p.rows = -3;
  CHECK(sentence(p) == "rows is -3, expected 0 or more");
  p = good();
  p.cols = 0;
  CHECK(sentence(p) == "cols is 0, expected 1 or more");
  p = good();
  p.cols = -1;
  CHECK(argument(p) == "cols");
  p = good();
  p.x_stride = 63;
  CHECK(sentence(p) == "x_stride is 63, expected 0 (for cols) or at least cols");
  p = good();
  p.y_stride = -64;
  CHECK(argument(p) == "y_stride");
  p = good();
  p.residual = memory, p.residual_stride = 1;
  CHECK(argument(p) == "residual_stride");
  p = good();
  p.residual_out_stride = 5;
  CHECK(argument(p) == "residual_out_stride");
}

TEST_CASE("rms_norm: null x or y, and a sum without a residual, are named") {
  auto p = good();
  p.x = nullptr;
  CHECK(sentence(p) == "x is null, expected a matrix of rows x cols");
  p = good();
  p.y = nullptr;
  CHECK(argument(p) == "y");
  p = good();
  p.residual_out = memory + 3000;
  CHECK(argument(p) == "residual_out");
}

TEST_CASE("rms_norm: a pointer off its element's alignment is refused") {
  auto p = good();
  p.x = reinterpret_cast<const bf16*>(reinterpret_cast<const char*>(memory) + 1);
  CHECK(argument(p) == "x");
}

TEST_CASE("rms_norm: outputs may be exactly an input, or apart; anything between is refused") {
  auto p = good();
  p.y = memory;  // exactly x
  CHECK(argument(p) == "");
  p.y = memory + 1;  // shifted
  CHECK(argument(p) == "y");
  p = good();
  p.y = memory, p.y_stride = 128;  // the same start, another stride
  CHECK(argument(p) == "y");
  p = good();
  p.x_stride = p.y_stride = 128, p.y = memory + 64;  // interleaved columns of one packed tensor
  CHECK(argument(p) == "");
  p.y = memory + 63;
  CHECK(argument(p) == "y");
  p = good();
  p.y = memory + 2048 - 10;  // over the weight
  p.rows = 1;
  CHECK(argument(p) == "y");
  p = good();
  p.residual = memory + 512, p.residual_out = memory + 512;  // the sum in place of the residual
  CHECK(argument(p) == "");
  p.residual_out = p.y;  // two outputs in one place
  CHECK(argument(p) == "residual_out");
}
