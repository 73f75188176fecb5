// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "autotune/journal.hpp"
#include "core/records.hpp"

using namespace capstone::tools;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct folder {
  folder() {
    std::string name = (fs::temp_directory_path() / "capstone-journal-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~folder() { fs::remove_all(path); }
  std::string file() const { return (path / "a.jsonl").string(); }
  fs::path path;
};

json header(const std::string& source = "sha256:1") {
  return {{"kernel", "k"}, {"dtype", "f32"}, {"source", source}, {"axes", "sha256:2"}, {"measuring", 1}, {"cols", {64}}, {"seed", 1},
          {"device", {{"id", "host"}, {"name", "host"}, {"cc", "0.0"}, {"sms", 0}, {"l2_bytes", 0}, {"driver", "host"}}},
          {"toolchain", {{"cuda", "13.0"}, {"flags", {"-O3"}}}}, {"simulated", true}, {"git", "abc"}, {"dirty", false}};
}

json gated(const std::string& name, const std::string& state = "ok", const std::string& why = "") {
  return {{"key", content_key(name)}, {"phase", "gate"}, {"cols", 64}, {"config", {{"lanes", name}}}, {"state", state}, {"why", why}};
}

void append(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::app) << text; }

}  // namespace

TEST_CASE("journal: what was added is found again by the run that resumes") {
  folder in;
  {
    journal log(in.file(), header(), false);
    log.add(gated("a"));
    log.add(gated("b", "wrong", "a byte \xff that is no UTF-8"));
  }
  journal log(in.file(), header(), true);
  CHECK(log.resumed() == 2);
  REQUIRE(log.find(content_key("b")) != nullptr);
  CHECK(log.find(content_key("b"))->at("state") == "wrong");
  CHECK(log.find(content_key("c")) == nullptr);
  CHECK(read_journal(in.file()).size() == 3);  // the header is not written again
}

TEST_CASE("journal: a line torn anywhere is cut off, and what follows it is whole") {
  folder in;
  {
    journal log(in.file(), header(), false);
    log.add(gated("a"));
    log.add(gated("b"));
  }
  const auto whole = read_text(in.file());
  const auto begin = whole.rfind("\n", whole.size() - 2) + 1;
  for (std::size_t size = begin; size < whole.size(); ++size) {
    atomic_write(in.file(), whole.substr(0, size));
    {
      journal log(in.file(), header(), true);
      CHECK(log.resumed() == 1);
      CHECK(log.find(content_key("b")) == nullptr);
      log.add(gated("c"));
    }
    const auto lines = read_journal(in.file());
    REQUIRE(lines.size() == 3);
    CHECK(lines[2] == gated("c"));
  }
}

TEST_CASE("journal: a last line of zeros, as a file system may leave it, is a torn one") {
  folder in;
  { journal log(in.file(), header(), false); }
  append(in.file(), std::string(20, '\0') + "\n");
  journal log(in.file(), header(), true);
  CHECK(log.resumed() == 0);
}

TEST_CASE("journal: a broken line in the middle is an error with its number") {
  folder in;
  {
    journal log(in.file(), header(), false);
    log.add(gated("a"));
  }
  append(in.file(), "{\"key\": \n{\"key\": \"b\"}\n");
  CHECK_THROWS_WITH_AS(read_journal(in.file()), (in.file() + ":3: not a JSON object; expected a journal's line").c_str(), record_error);
  CHECK_THROWS_AS(journal(in.file(), header(), true), record_error);
}

TEST_CASE("journal: another schema, kernel, source or toolchain is no journal to go on from") {
  folder in;
  { journal log(in.file(), header(), false); }
  try {
    journal log(in.file(), header("sha256:2"), true);
    FAIL("went on from another source");
  } catch (const record_error& error) {
    const std::string text = error.what();
    CHECK(text.find(":1: source is \"sha256:1\"; expected \"sha256:2\"") != std::string::npos);
  }
  atomic_write(in.file(), "{\"schema\": \"capstone-journal/9\"}\n");
  CHECK_THROWS_AS(journal(in.file(), header(), true), record_error);
}

TEST_CASE("journal: a run that begins anew keeps the old journal beside its own") {
  folder in;
  for (int run = 0; run < 3; ++run) {
    journal log(in.file(), header(), false);
    log.add(gated(std::to_string(run)));
  }
  CHECK(read_journal((in.path / "a.1.jsonl.old").string())[1]["config"]["lanes"] == "0");
  CHECK(read_journal((in.path / "a.2.jsonl.old").string())[1]["config"]["lanes"] == "1");
  CHECK(read_journal(in.file())[1]["config"]["lanes"] == "2");
}

TEST_CASE("journal: a run that begins anew keeps also what it could not read") {
  folder in;
  atomic_write(in.file(), "{\"schema\": \"capstone-journal/1\"}\nno line\n{}\n");
  journal log(in.file(), header(), false);
  CHECK(read_journal(in.file()).size() == 1);
  CHECK(read_text((in.path / "a.1.jsonl.old").string()).starts_with("{\"schema\": \"capstone-journal/1\"}\nno line"));
}

TEST_CASE("journal: two runs do not write one journal") {
  folder in;
  journal first(in.file(), header(), true);
  CHECK_THROWS_WITH_AS(journal(in.file(), header(), true), (in.file() + ": another run writes it; wait for that, or give this one another --out").c_str(),
                       record_error);
}

TEST_CASE("journal: a key follows from the content alone") {
  CHECK(content_key("gate cols=64 lanes=4") == content_key("gate cols=64 lanes=4"));
  CHECK(content_key("gate cols=64 lanes=4") != content_key("gate cols=64 lanes=8"));
  CHECK(content_key("").size() == 24);
}
