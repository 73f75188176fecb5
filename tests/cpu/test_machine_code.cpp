// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/machine_code.hpp"

#include <doctest/doctest.h>

#include <stdexcept>

#include "core/disassembler.hpp"
#include "core/spec.hpp"
#include "tests/skip.hpp"

using namespace capstone;
using namespace capstone::claims;

namespace {

const char* const usage =
    "\nResource usage:\n Function other:\n  REG:255 STACK:8 SHARED:0 LOCAL:8\n Function looks:\n"
    "  REG:40 STACK:0 SHARED:1288 LOCAL:0 CONSTANT[0]:608\n";
const char* const sass =
    "\t\tFunction : other\n"
    "        /*0000*/                   STL [R1], R0 ;\n"
    "        /*0010*/                   EXIT ;\n"
    "\t\tFunction : looks\n"
    "\t.headerflags\t@\"EF_CUDA_SM90\"\n"
    "        /*0000*/                   LDC R1, c[0x0][0x28] ;                        /* 0x00000a00ff017b82 */\n"
    "                                                                                 /* 0x000fe20000000800 */\n"
    "        /*0010*/               @P0 EXIT ;\n"
    "        /*0020*/                   FFMA R2, R3, R3, R2 ;\n"
    "        /*0030*/              @!P5 BRA 0x20 ;\n"
    "        /*0040*/                   EXIT ;\n"
    "        /*0050*/                   LDL R2, [R1] ;\n"
    "        /*0060*/                   BRA 0x60;\n"
    "        /*0070*/                   NOP;\n";

}  // namespace

TEST_CASE("machine code: instructions to the last EXIT, loops, spills and registers of one function") {
  const machine_code code = read_machine_code(sass, usage, "looks");
  CHECK(code.registers == 40);
  CHECK(code.static_smem == 264);  // less the 1024 bytes that are the driver's
  CHECK(code.straight == 5);
  CHECK(code.loops == 1);
  CHECK(code.looped == 2);
  CHECK(code.spill_accesses == 1);  // behind the EXIT, yet there
  CHECK(read_machine_code(sass, usage, "other").spill_accesses == 1);
}

TEST_CASE("machine code: a function that is not there is an error that names it") {
  CHECK_THROWS_WITH_AS(read_machine_code(sass, usage, "gone"), doctest::Contains("gone"), std::runtime_error);
}

TEST_CASE("machine code: names that differ in the zeros at the end of an aggregate are one name") {
  const std::string device = "_Z5entryIXtlN1a3cfgELi2ELi0ELN1a4modeE0EEEEvv", host = "_Z5entryIXtlN1a3cfgELi2EEEEvv";
  CHECK(canonical_symbol(device) == canonical_symbol(host));
  CHECK(canonical_symbol("_Z5entryIXtlN1a3cfgELi2ELi1EEEEvv") != canonical_symbol(host));
  // A zero that is not at the end stays.
  CHECK(canonical_symbol("_Z5entryIXtlN1a3cfgELi0ELi2EEEEvv") != canonical_symbol(host));
}

TEST_CASE("machine code: every tuned kernel that a spec says it launches is in the program, without spills") {
  if (tools::find_disassembler({"cuobjdump"}).empty()) CAPSTONE_SKIP("no cuobjdump; tools/install-deps brings it");
  const tools::device_limits h200{90, 132, 62914560};
  int found = 0;
  for (const tools::op& of : tools::registry())
    for (const tools::kernel_spec& kernel : of.kernels) {
      if (!kernel.tuned || !kernel.launched) continue;
      for (const char* suite : {"llm", "narrow"})
        for (const tools::problem& what : of.suite(suite)) {
          const auto is = kernel.launched(what, tools::fake_pointers(kernel.buffers(what)), h200);
          CAPTURE(is.symbol);
          CHECK(machine_code_of(is.symbol).spill_accesses == 0);
          ++found;
        }
    }
  CHECK(found >= 26);
}
