// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "core/process.hpp"

#include <fcntl.h>
#include <spawn.h>
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

volatile std::sig_atomic_t stop_signal = 0;

/// The group's leader: reads until we are gone, which closes the pipe, and kills the group. The system
/// tells a child alone of its parent's death (PR_SET_PDEATHSIG), never a grandchild, such as a program
/// under a profiler. A shell, because a fork of a program with a GPU's memory mapped is neither small nor
/// safe. The pause is for a child that was about to join the group when we were killed.
constexpr const char* guard_script = "trap '' HUP INT TERM; read -r nothing; sleep 0.02; kill -KILL 0";

std::vector<char*> pointers_to(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& each : words) all.push_back(const_cast<char*>(each.c_str()));
  all.push_back(nullptr);
  return all;
}

std::vector<std::string> environment_with(const std::vector<std::string>& ours) {
  std::vector<std::string> all = ours;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e, name = entry.substr(0, entry.find('=') + 1);
    if (std::none_of(ours.begin(), ours.end(), [&](const std::string& o) { return o.starts_with(name); })) all.push_back(entry);
  }
  return all;
}

class file_actions {
 public:
  file_actions() { posix_spawn_file_actions_init(&actions_); }
  ~file_actions() { posix_spawn_file_actions_destroy(&actions_); }
  file_actions(const file_actions&) = delete;
  file_actions& operator=(const file_actions&) = delete;
  void dup(int from, int to) { posix_spawn_file_actions_adddup2(&actions_, from, to); }
  void open(int as, const std::string& path, int flags) { posix_spawn_file_actions_addopen(&actions_, as, path.c_str(), flags, 0666); }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// Starts a program in a group (0: one of its own).
pid_t spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, const file_actions& actions, pid_t group) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // Signals that this program ignores or blocks are the child's own again.
  sigset_t defaults, none;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int each : {SIGPIPE, SIGINT, SIGTERM}) sigaddset(&defaults, each);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, group);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  auto words = pointers_to(arguments), variables = pointers_to(environment);
  pid_t pid = -1;
  const int code = posix_spawnp(&pid, words[0], actions.get(), &attributes, words.data(), variables.data());
  posix_spawnattr_destroy(&attributes);
  if (code != 0) throw std::runtime_error(arguments[0] + " cannot be started: " + std::strerror(code));
  return pid;
}

void reap(pid_t pid) {
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

process::process(const process_setup& setup) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("no pipe for a child: ") + std::strerror(errno));
  life_ = ends[1];
  constexpr const char* nothing = "/dev/null";
  try {
    file_actions of_guard;
    if (ends[0] == STDIN_FILENO) fcntl(ends[0], F_SETFD, 0);  // dup2 onto itself would leave it to be closed
    else of_guard.dup(ends[0], STDIN_FILENO);
    of_guard.open(STDOUT_FILENO, nothing, O_WRONLY), of_guard.open(STDERR_FILENO, nothing, O_WRONLY);
    guard_ = spawn({"/bin/sh", "-c", guard_script, "guard"}, environment_with({}), of_guard, 0);
    file_actions actions;
    if (setup.channel == channel) fcntl(setup.channel, F_SETFD, 0);
    else if (setup.channel >= 0) actions.dup(setup.channel, channel);
    constexpr int fresh = O_WRONLY | O_CREAT | O_TRUNC;
    const bool errors_apart = !setup.errors.empty();
    if (setup.output.empty()) actions.dup(STDERR_FILENO, STDOUT_FILENO);
    else actions.open(STDOUT_FILENO, setup.output, fresh);
    if (errors_apart) actions.open(STDERR_FILENO, setup.errors, fresh);
    else actions.dup(STDOUT_FILENO, STDERR_FILENO);
    actions.open(STDIN_FILENO, nothing, O_RDONLY);
    pid_ = spawn(setup.arguments, environment_with(setup.environment), actions, guard_);
  } catch (...) {
    close(ends[0]);
    end_guard();
    throw;
  }
  close(ends[0]);
}

// The group's number stays taken until its leader, the guard, is waited for: the kill meets nobody else.
void process::end_guard() {
  if (guard_ > 0) {
    kill(-guard_, SIGKILL);
    reap(guard_);
  }
  guard_ = -1;
  if (life_ >= 0) close(life_);
  life_ = -1;
}

void process::kill_group() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);  // also where it left the group
  end_guard();
  reap(pid_);
  pid_ = -1;
}

std::optional<int> process::ended() {
  int how = 0;
  if (pid_ <= 0 || waitpid(pid_, &how, WNOHANG) != pid_) return std::nullopt;
  pid_ = -1;
  end_guard();
  return how;
}

int run_to_end(const process_setup& setup, deadline until) {
  process running(setup);
  constexpr auto longest = std::chrono::milliseconds(50);
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, longest)) {
    if (const auto how = running.ended()) return WIFSIGNALED(*how) ? 128 + WTERMSIG(*how) : WEXITSTATUS(*how);
    if (stop_requested()) throw stopped("a signal asked to stop");
    if (clock::now() >= until) return -1;
    std::this_thread::sleep_for(pause);
  }
}

void end_with_parent() {
  // Not PR_SET_PDEATHSIG, which asks for the parent's thread: it may end before the parent does.
  std::thread([parent = getppid()] {
    while (getppid() == parent) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    std::raise(SIGKILL);
  }).detach();
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
