// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/subprocess.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

extern char** environ;

namespace capstone::tools {
namespace {

using clock = std::chrono::steady_clock;

volatile std::sig_atomic_t stop_signal = 0;

// Poll in slices, for a signal may arrive just before poll starts to wait.
constexpr std::chrono::milliseconds slice{50};

std::vector<char*> pointers_to(const std::vector<std::string>& arguments) {
  std::vector<char*> all;
  for (const auto& each : arguments) all.push_back(const_cast<char*>(each.c_str()));
  all.push_back(nullptr);
  return all;
}

// Starts the program in its own process group, so that it is killed with all that it starts.
pid_t start(const std::vector<std::string>& arguments, posix_spawn_file_actions_t& actions) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Signals that this program ignores or blocks are the child's own again.
  sigset_t defaults, none;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int each : {SIGPIPE, SIGINT, SIGTERM}) sigaddset(&defaults, each);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  auto words = pointers_to(arguments);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (code != 0) {
    throw std::runtime_error(arguments[0] + " cannot be started: " + std::strerror(code));
  }
  return pid;
}

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
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (ends[1] == channel) fcntl(ends[1], F_SETFD, 0);  // dup2 onto itself would leave it to be closed
  else posix_spawn_file_actions_adddup2(&actions, ends[1], channel);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  try {
    pid_ = start(arguments, actions);
  } catch (...) {
    close(ends[0]), close(ends[1]);
    throw;
  }
  close(ends[1]);
  socket_ = ends[0];
}

subprocess::~subprocess() {
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) kill_group();
}

void subprocess::kill_group() {
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);  // where the group is not made yet
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

void subprocess::report_death() {
  int how = 0;
  // Its end of the socket closes a moment before it can be waited for.
  const auto patience = clock::now() + std::chrono::seconds(5);
  pid_t ended = 0;
  while (ended == 0 && clock::now() < patience) {
    ended = waitpid(pid_, &how, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (ended != pid_) {
    kill_group();
    throw child_died("closed its channel");
  }
  kill(-pid_, SIGKILL);  // what it started
  pid_ = -1;
  throw child_died(ending(how), WIFSIGNALED(how) ? WTERMSIG(how) : 0);
}

std::string subprocess::ask(const std::string& line, deadline until) {
  if (pid_ <= 0) throw child_died("has ended before");
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
      kill_group();
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

int run_command(const std::vector<std::string>& arguments, const std::string& log, deadline until) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const pid_t pid = start(arguments, actions);
  int how = 0;
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, slice)) {
    const pid_t ended = waitpid(pid, &how, WNOHANG);
    if (ended == pid) break;
    if (clock::now() >= until || stop_requested()) {
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
      while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
      }
      if (stop_requested()) throw stopped("a signal asked to stop");
      return -1;
    }
    std::this_thread::sleep_for(pause);
  }
  return WIFSIGNALED(how) ? 128 + WTERMSIG(how) : WEXITSTATUS(how);
}

void stop_on_signals() {
  struct sigaction action {};
  action.sa_handler = [](int number) {
    if (stop_signal != 0) {
      std::signal(number, SIG_DFL);
      std::raise(number);
    }
    stop_signal = number;
  };
  for (const int each : {SIGINT, SIGTERM}) sigaction(each, &action, nullptr);
}

bool stop_requested() { return stop_signal != 0; }

}  // namespace capstone::tools
