// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// What may stand in a journal's line. A journal outlives the program that wrote it and may be edited, and
/// what is read from it is frozen: so a line is read as strictly as a config is.
#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <string>
#include <string_view>

namespace capstone::tools {

/// Of a header: a run with another of these cannot go on from a journal.
inline constexpr std::array journal_identity = {"kernel", "dtype", "device", "source", "toolchain", "measuring"};

/// The JSON of one line; discarded where it is none. Throws record_error `where: ...` for a duplicate key
/// and for what is nested deeper than any line that is written.
nlohmann::json parse_journal_line(std::string_view text, const std::string& where);

/// The line's text as a journal holds it, without the newline.
std::string journal_line_text(const nlohmann::json& line);

/// Throw record_error `where: <place> is <value>; expected ...` for unknown, missing and mistyped keys.
void expect_journal_header(const nlohmann::json& line, const std::string& where);
void expect_journal_line(const nlohmann::json& line, const std::string& where);

}  // namespace capstone::tools
