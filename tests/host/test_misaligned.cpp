// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

// A planted fault: vector accesses wider than the alignment. What would be a misaligned address on a
// GPU must be one to UBSan on the host team, or the other tests of this program would prove nothing.

#include <capstone/fused.cuh>

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

using namespace capstone;

namespace {

alignas(16) bf16 memory[3][64];

/// What the child that runs f prints on stderr; "alive" where it comes back from f.
template <class F>
std::string last_words(F f) {
  std::fflush(nullptr);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]), close(ends[1]);
    f();
    _exit(write(2, "alive", 5) == 5 ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char block[4096];
  for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0;) text.append(block, std::size_t(n));
  close(ends[0]);
  int state = 0;
  REQUIRE(waitpid(child, &state, 0) == child);
  return text;
}

bool misaligned(const std::string& text) { return text.find("misaligned address") != std::string::npos; }

template <int N>
void check_width() {
  CAPTURE(N);
  volatile unsigned sink = 0;
  bf16* const off = memory[0] + 1;
  CHECK(misaligned(last_words([&] { sink = detail::load<N>(off).w[0]; })));
  CHECK(misaligned(last_words([&] { sink = detail::load_constant<N>(off).w[0]; })));
  CHECK(misaligned(last_words([&] { detail::store<N>(off, detail::filled<bf16, N>(1)); })));
  CHECK(last_words([&] {
          sink = detail::load<N>(memory[0]).w[0];
          detail::store<N>(memory[0], detail::filled<bf16, N>(1));
        }) == "alive");
  (void)sink;
}

/// rms_norm on x, w and y so many elements off 16 bytes, `vector` elements an access whatever
/// `prepare` found.
void call(int x_off, int w_off, int y_off, int vector) {
  using op = detail::rms_norm_op<bf16, bf16, bf16, false, rounding::none>;
  detail::rms_norm_params<bf16, bf16, bf16> p;
  int found = 0;
  const rms_norm_problem<bf16> q{.x = memory[0] + x_off, .weight = memory[1] + w_off, .y = memory[2] + y_off, .rows = 1, .cols = 32};
  if (!detail::prepare(q, p, found).ok()) _exit(2);
  detail::run_rows_on_host<op, tuned::rms_norm>(p, vector > 0 ? vector : found);
}

}  // namespace

TEST_CASE("misaligned: a vector load or store off its alignment dies in UBSan") {
  check_width<2>();
  check_width<4>();
  check_width<8>();
}

TEST_CASE("misaligned: rms_norm with a vector wider than one pointer allows dies, whichever it is") {
  CHECK(last_words([] { call(0, 0, 0, 8); }) == "alive");
  CHECK(misaligned(last_words([] { call(4, 0, 0, 8); })));
  CHECK(misaligned(last_words([] { call(0, 4, 0, 8); })));
  CHECK(misaligned(last_words([] { call(0, 0, 4, 8); })));
  CHECK(misaligned(last_words([] { call(0, 0, 1, 2); })));
  for (const int off : {1, 2, 4}) CHECK(last_words([=] { call(off, 0, 0, 0); }) == "alive");
}
