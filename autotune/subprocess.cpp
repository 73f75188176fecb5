// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/subprocess.hpp"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

namespace capstone::tools {
namespace {

using clock = std::chrono::steady_clock;

// Poll in slices, for a signal may arrive just before poll starts to wait.
constexpr std::chrono::milliseconds slice{50};

std::string ending(int how) {
  if (WIFSIGNALED(how)) {
    const int signal = WTERMSIG(how);
    return "was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
  }
  return "ended with exit code " + std::to_string(WEXITSTATUS(how));
}

}  // namespace

subprocess::subprocess(const std::vector<std::string>& arguments) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error(std::string("no socket for a child: ") + std::strerror(errno));
  }
  socket_ = ends[0];
  try {
    child_.emplace(process_setup{.arguments = arguments, .channel = ends[1]});
  } catch (...) {
    close(ends[0]), close(ends[1]);
    throw;
  }
  close(ends[1]);
}

subprocess::~subprocess() { close(socket_); }

void subprocess::report_death() {
  // Its end of the socket closes a moment before it can be waited for.
  const auto patience = clock::now() + std::chrono::seconds(5);
  std::optional<int> how;
  while (!(how = child_->ended()) && clock::now() < patience) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  child_->kill_group();
  if (!how) throw child_died("closed its channel");
  throw child_died(ending(*how), WIFSIGNALED(*how) ? WTERMSIG(*how) : 0);
}

std::string subprocess::ask(const std::string& line, deadline until) {
  if (!child_->is_running()) throw child_died("has ended before");
  std::string_view left = line;
  const std::string end = "\n";
  for (const std::string_view part : {left, std::string_view(end)}) {
    left = part;
    while (!left.empty()) {
      const auto sent = send(socket_, left.data(), left.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent < 0) report_death();
      left.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  for (;;) {
    const auto newline = received_.find('\n');
    if (newline != std::string::npos) {
      auto answer = received_.substr(0, newline);
      received_.erase(0, newline + 1);
      return answer;
    }
    if (stop_requested()) throw stopped("a signal asked to stop");
    const auto now = clock::now();
    if (now >= until) {
      child_->kill_group();
      throw child_late("gave no answer in time and was killed");
    }
    pollfd ready{socket_, POLLIN, 0};
    const auto wait = std::min<clock::duration>(until - now, slice);
    const int found = poll(&ready, 1, 1 + static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(wait).count()));
    if (found <= 0) continue;
    char buffer[1 << 16];
    const auto size = recv(socket_, buffer, sizeof buffer, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) report_death();
    received_.append(buffer, static_cast<std::size_t>(size));
  }
}

int serve_lines(std::string (*answer)(const std::string& line)) {
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) return 1;  // it died before
  std::string received;
  char buffer[1 << 16];
  for (;;) {
    const auto size = recv(subprocess::channel, buffer, sizeof buffer, 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return 0;
    received.append(buffer, static_cast<std::size_t>(size));
    for (auto end = received.find('\n'); end != std::string::npos; end = received.find('\n')) {
      const auto line = answer(received.substr(0, end)) + "\n";
      received.erase(0, end + 1);
      for (std::string_view left = line; !left.empty();) {
        const auto sent = send(subprocess::channel, left.data(), left.size(), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0) return 1;
        left.remove_prefix(static_cast<std::size_t>(sent));
      }
    }
  }
}

}  // namespace capstone::tools
