// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What a kernel's machine code says before it runs: registers, shared memory, spills, instructions.
#pragma once

#include <cstdint>
#include <string>

namespace capstone::claims {

struct machine_code {
  std::string symbol;               ///< mangled, as it stands in the machine code
  int registers = 0;                ///< a thread
  std::int64_t static_smem = 0;     ///< bytes a block
  std::int64_t spill_accesses = 0;  ///< loads and stores of local memory in the text
  /// Warp instructions of one walk from the first to the last EXIT, taking every loop once and none
  /// of the slow paths behind that EXIT; those within the loops are counted in `looped` too.
  std::int64_t straight = 0, looped = 0;
  int loops = 0;                    ///< backward branches
};

/// A mangled name without the zeros at the end of class-type template arguments: GCC leaves them out
/// of the names of the host's types, NVIDIA's compiler writes them.
std::string canonical_symbol(std::string symbol);

/// Reads `cuobjdump -sass -res-usage` of one function. Throws std::runtime_error.
machine_code read_machine_code(const std::string& sass, const std::string& usage, const std::string& symbol);

/// Of a kernel in one of `kernel_files()`, found by its canonical name. Throws std::runtime_error with a sentence that says what
/// is missing: the disassembler, or the kernel.
machine_code machine_code_of(const std::string& symbol);

}  // namespace capstone::claims
