// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

#include "core/fingerprint.hpp"
#include "core/records.hpp"

using namespace capstone::tools;
namespace fs = std::filesystem;

namespace {

// A source tree of two levels: k.cuh -> detail/a.cuh -> detail/b.cuh, and a generated table.
struct tree {
  tree() {
    std::string name = (fs::temp_directory_path() / "capstone_fingerprint_XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    root = name;
    put("include/capstone/k.cuh",
        "#pragma once\n#include <cuda_fp16.h>\n#include \"detail/a.cuh\"\n"
        "#include \"capstone/tuned/k.cuh\"\nconstexpr int width = 16;\n");
    put("include/capstone/detail/a.cuh", "#include <capstone/detail/b.cuh>\nint a();\n");
    put("include/capstone/detail/b.cuh", "int b();\n");
    put("include/capstone/tuned/k.cuh", "// generated\nint table[] = {1};\n");
    put("include/capstone/other.cuh", "int other();\n");
  }
  ~tree() { fs::remove_all(root); }
  void put(const std::string& path, const std::string& text) const {
    atomic_write((root / path).string(), text);
  }
  std::string print(const std::string& header = "capstone/k.cuh") const {
    return source_fingerprint(root.string(), header);
  }
  fs::path root;
};

}  // namespace

TEST_CASE("SHA-256 agrees with the published vectors") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256_hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("a file's SHA-256 is that of its bytes, and a missing file is named") {
  tree t;
  t.put("x", std::string("ab\0c\n", 5));
  CHECK(file_sha256((t.root / "x").string()) == sha256_hex(std::string_view("ab\0c\n", 5)));
  CHECK_THROWS_WITH_AS(file_sha256("/nowhere/x"), doctest::Contains("/nowhere/x: cannot be read"),
                       std::runtime_error);
  CHECK_THROWS_AS(file_sha256(t.root.string()), std::runtime_error);
}

TEST_CASE("normalising removes comments and layout, and keeps literals and directives") {
  CHECK(normalise_source("int  a ;  // one\n\n\n/* two\n */ int\tb;\n") == "int a;int b;");
  CHECK(normalise_source("f(\n    1,\n    2);\n") == normalise_source("f(1, 2);"));
  CHECK(normalise_source("a /* x */ + b") == "a + b");
  CHECK(normalise_source("int a;\n#define F (x)  // why\nint b;") ==
        "int a;\n#define F (x)\nint b;");
  CHECK(normalise_source("#define F(x) \\\n    g(x)\nint b;") == "#define F(x) g(x)\nint b;");
  CHECK(normalise_source("  #  if A\n#endif\n") == "# if A\n#endif\n");
  CHECK(normalise_source("s = \"a  // b\" ;") == "s = \"a  // b\";");
  CHECK(normalise_source("s = \"a\\\"  /* b\";") == "s = \"a\\\"  /* b\";");
  CHECK(normalise_source("c = '\"'; d = '  ' ;") == "c = '\"';d = '  ';");
  CHECK(normalise_source("n = 1'000'000; // it's\nm") == "n = 1'000'000;m");
  CHECK(normalise_source("n = 1'000; // thousand\nm") == "n = 1'000;m");
  CHECK(normalise_source("s = R\"x(a \" //  )\" b)x\" ; // y") == "s = R\"x(a \" //  )\" b)x\";");
  CHECK(normalise_source("#error don't\nint  b;") == "#error don't\nint b;");
  CHECK(normalise_source("int a;\r\nint b;\r\n") == "int a;int b;");
  CHECK(normalise_source("") == "");
  CHECK(normalise_source("/* open") == "");
  CHECK(normalise_source("\"open") == "\"open");
  CHECK(normalise_source("R\"(open") == "R\"(open");
}

TEST_CASE("normalising a normalised source changes nothing") {
  const std::string once = normalise_source(read_text(__FILE__));
  CHECK(normalise_source(once) == once);
}

TEST_CASE("comments and layout keep a fingerprint, a changed constant changes it") {
  tree t;
  const auto before = t.print();
  CHECK(before.starts_with("sha256:"));
  CHECK(before.size() == 71);
  t.put("include/capstone/k.cuh",
        "// A comment.\n#pragma once\n#include   <cuda_fp16.h>\n\n#include \"detail/a.cuh\"\n"
        "#include \"capstone/tuned/k.cuh\"\nconstexpr int\n    width /* bytes */ = 16 ;\n\n");
  CHECK(t.print() == before);
  t.put("include/capstone/k.cuh",
        "#pragma once\n#include <cuda_fp16.h>\n#include \"detail/a.cuh\"\n"
        "#include \"capstone/tuned/k.cuh\"\nconstexpr int width = 32;\n");
  CHECK(t.print() != before);
}

TEST_CASE("a change in any header that a kernel includes changes its fingerprint") {
  tree t;
  const auto before = t.print();
  t.put("include/capstone/detail/b.cuh", "long b();\n");
  CHECK(t.print() != before);
  t.put("include/capstone/detail/b.cuh", "int b();\n");
  CHECK(t.print() == before);
}

TEST_CASE("the tuned table and unrelated headers do not count") {
  tree t;
  const auto before = t.print();
  t.put("include/capstone/tuned/k.cuh", "int table[] = {2};\n#include \"capstone/other.cuh\"\n");
  t.put("include/capstone/other.cuh", "long other();\n");
  CHECK(t.print() == before);
  fs::remove(t.root / "include/capstone/tuned/k.cuh");
  CHECK(t.print() == before);
}

TEST_CASE("a fingerprint does not depend on where the tree lies or how its header is named") {
  tree one, two;
  CHECK(one.print() == two.print());
  CHECK(one.print("include/capstone/k.cuh") == one.print());
  CHECK(one.print((one.root / "include/capstone/k.cuh").string()) == one.print());
  CHECK(one.print("capstone/../capstone/k.cuh") == one.print());
}

TEST_CASE("moving code from one header to another changes the fingerprint") {
  tree t;
  const auto before = t.print();
  t.put("include/capstone/detail/a.cuh", "#include <capstone/detail/b.cuh>\n");
  t.put("include/capstone/detail/b.cuh", "int b();\nint a();\n");
  CHECK(t.print() != before);
}

TEST_CASE("headers that include each other are read once") {
  tree t;
  t.put("include/capstone/detail/b.cuh", "#include \"a.cuh\"\nint b();\n");
  CHECK(t.print().size() == 71);
}

TEST_CASE("a user's own kernel file counts, with its neighbours and the library's headers") {
  tree t;
  const std::string own = (t.root / "mine/own.cu").string();
  t.put("mine/own.cu", "#include <capstone/detail/b.cuh>\n#include \"helper.cuh\"\nint own = 1;\n");
  t.put("mine/helper.cuh", "int helper = 1;\n");
  const auto before = t.print(own);
  CHECK(t.print("mine/own.cu") == before);
  t.put("mine/helper.cuh", "int helper = 2;\n");
  CHECK(t.print(own) != before);
  t.put("mine/helper.cuh", "int helper = 1;  // as before\n");
  CHECK(t.print(own) == before);
  t.put("include/capstone/detail/b.cuh", "long b();\n");
  CHECK(t.print(own) != before);
  t.put("include/capstone/detail/b.cuh", "int b();\n");
  fs::rename(t.root / "mine", t.root / "yours");
  CHECK(t.print("yours/own.cu") == before);
}

TEST_CASE("a header that is not there, or an include that cannot be followed, is named") {
  tree t;
  CHECK_THROWS_WITH_AS(t.print("capstone/none.cuh"),
                       doctest::Contains("capstone/none.cuh: not found; expected a file at"),
                       std::runtime_error);
  t.put("include/capstone/detail/b.cuh", "#include OTHER_FILE\n");
  CHECK_THROWS_WITH_AS(t.print(), doctest::Contains("b.cuh: '#include OTHER_FILE'"),
                       std::runtime_error);
}
