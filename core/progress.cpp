// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace capstone::tools {
namespace {

using clock = std::chrono::steady_clock;

double seconds(clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

progress::progress(std::string what, std::size_t total)
    : what_(std::move(what)), total_(total), terminal_(isatty(STDERR_FILENO) != 0),
      begin_(clock::now()), shown_(begin_) {
  if (terminal_ && total_ > 0) show();
}

void progress::step(std::size_t count) {
  done_ += count;
  const auto now = clock::now();
  if (seconds(now - shown_) < (terminal_ ? 0.1 : 10)) return;
  shown_ = now;
  show();
}

void progress::finish() {
  show();
  if (terminal_) std::fputc('\n', stderr);
}

void progress::show() {
  const double spent = seconds(clock::now() - begin_);
  const double left = done_ == 0 ? 0 : spent / double(done_) * double(total_ - done_);
  std::fprintf(stderr, "%s%s: %zu of %zu, %.0f s", terminal_ ? "\r" : "", what_.c_str(), done_,
               total_, spent);
  if (done_ > 0 && done_ < total_) std::fprintf(stderr, ", about %.0f s left", left);
  std::fputs(terminal_ ? "\033[K" : "\n", stderr);
  std::fflush(stderr);
}

}  // namespace capstone::tools
