// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
// Children that crash, hang and babble, the lock on a GPU, and the status words.
#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "autotune/device_lock.hpp"
#include "autotune/status.hpp"
#include "autotune/subprocess.hpp"
#include "core/records.hpp"

using namespace capstone::tools;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

/// The process whose number a child wrote into this file runs; waits for its end for a while.
bool runs(const fs::path& file) {
  const std::string pid = std::to_string(std::stoi(read_text(file.string())));
  for (int i = 0; i < 200; ++i) {
    // It may stay as a zombie of a reaper that is slow; it does not run.
    if (!fs::exists("/proc/" + pid) || read_text("/proc/" + pid + "/stat").find(") Z ") != std::string::npos) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

deadline in(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// A child that reads a line from the channel and then does `what`.
std::vector<std::string> child(const std::string& what) { return {"/bin/sh", "-c", "read line <&3; " + what}; }

}  // namespace

TEST_CASE("subprocess: a line is answered with a line, whatever the child prints") {
  subprocess echo({"/bin/sh", "-c", "while read line <&3; do echo noise; echo noise >&2; echo \"got $line\" >&3; done"});
  CHECK(echo.ask("one", in(10s)) == "got one");
  CHECK(echo.ask("two words", in(10s)) == "got two words");
}

TEST_CASE("subprocess: answers that come in pieces, or two at once, are lines all the same") {
  subprocess pieces(child("printf 'a' >&3; sleep 0.05; printf 'b\\nsecond\\n' >&3; read line <&3"));
  CHECK(pieces.ask("x", in(10s)) == "ab");
  CHECK(pieces.ask("y", in(10s)) == "second");
}

TEST_CASE("subprocess: how a child ended is said, and it is not asked again") {
  subprocess exits(child("exit 7")), crashes(child("kill -SEGV $$"));
  CHECK_THROWS_WITH_AS(exits.ask("x", in(10s)), "ended with exit code 7", child_died);
  CHECK_THROWS_WITH_AS(crashes.ask("x", in(10s)), "was ended by signal 11 (Segmentation fault)", child_died);
  CHECK_THROWS_AS(exits.ask("x", in(10s)), child_died);
}

TEST_CASE("subprocess: a child that never answers is killed with all that it started, at its deadline") {
  const auto file = fs::temp_directory_path() / ("capstone-child-" + std::to_string(getpid()));
  subprocess hangs(child("sleep 1000 & echo $! > '" + file.string() + "'; while :; do :; done"));
  const auto begin = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(hangs.ask("x", in(300ms)), child_late);
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
  CHECK_FALSE(runs(file));
  fs::remove(file);
}

TEST_CASE("subprocess: a program that is not there is an error that names it") {
  CHECK_THROWS_WITH_AS(subprocess({"/no/such/program"}), "/no/such/program cannot be started: No such file or directory", std::runtime_error);
}

TEST_CASE("subprocess: a command's exit code, its signal and its deadline are told apart") {
  const auto log = (fs::temp_directory_path() / ("capstone-log-" + std::to_string(getpid()))).string();
  CHECK(run_to_end({.arguments = {"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, .output = log}, in(10s)) == 3);
  CHECK(read_text(log) == "out\nerr\n");
  CHECK(run_to_end({.arguments = {"/bin/sh", "-c", "kill -KILL $$"}, .output = log}, in(10s)) == 128 + SIGKILL);
  CHECK(run_to_end({.arguments = {"/bin/sh", "-c", "sleep 1000"}, .output = log}, in(100ms)) == -1);
  fs::remove(log);
}

TEST_CASE("subprocess: what a command started ends with it, whether it succeeds or not") {
  const auto file = fs::temp_directory_path() / ("capstone-left-" + std::to_string(getpid()));
  for (const int code : {0, 1}) {
    const std::string script = "sleep 1000 & echo $! > '" + file.string() + "'; exit " + std::to_string(code);
    CHECK(run_to_end({.arguments = {"/bin/sh", "-c", script}}, in(10s)) == code);
    CHECK_FALSE(runs(file));
  }
  fs::remove(file);
}

TEST_CASE("subprocess: a program that left its group, and ends with its parent, ends") {
  const auto file = fs::temp_directory_path() / ("capstone-apart-" + std::to_string(getpid()));
  const pid_t parent = fork();
  REQUIRE(parent >= 0);
  if (parent == 0) {
    if (fork() == 0) {
      setsid();
      end_with_parent();
      atomic_write(file.string(), std::to_string(getpid()));
    }
    for (;;) pause();
  }
  for (int i = 0; i < 500 && !fs::exists(file); ++i) std::this_thread::sleep_for(10ms);
  std::this_thread::sleep_for(250ms);
  CHECK(kill(std::stoi(read_text(file.string())), 0) == 0);  // not before
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  CHECK_FALSE(runs(file));
  fs::remove(file);
}

TEST_CASE("device_lock: a second run on the same GPU is refused with the first one's process; another GPU is free") {
  std::string folder = (fs::temp_directory_path() / "capstone-lock-XXXXXX").string();
  REQUIRE(mkdtemp(folder.data()) != nullptr);
  {
    const device_lock first("GPU-1", folder);
    const device_lock other("GPU-2", folder);
    try {
      const device_lock second("GPU-1", folder);
      FAIL("locked twice");
    } catch (const device_busy& error) {
      const std::string text = error.what();
      CHECK(text.find("GPU GPU-1 is being tuned on by process " + std::to_string(getpid())) == 0);
      CHECK(text.find("--devices") != std::string::npos);
    }
  }
  CHECK_NOTHROW(device_lock("GPU-1", folder));  // it goes with its owner
  fs::remove_all(folder);
}

TEST_CASE("status: every word reads back as itself, and another is refused with the words there are") {
  for (int i = 0; i <= static_cast<int>(status::implausible); ++i) {
    const auto state = static_cast<status>(i);
    CHECK(status_of(token(state)) == state);
  }
  try {
    status_of("fine");
    FAIL("took 'fine'");
  } catch (const std::invalid_argument& error) {
    CHECK(std::string(error.what()).find("state is 'fine'; expected one of ok, untried, pruned,") == 0);
  }
}
