// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// `claims table`: every record as rows of claims, with their verdicts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "claims/profile_record.hpp"
#include "claims/record.hpp"

namespace capstone::claims {

/// A row of the table, as its columns are printed; "-" where there is nothing to say.
struct claim_row {
  std::string device, kernel, dtype, shape, rows, cols, claim, verdict, value, unit, low, high,
      baseline, session, record;
};

/// Speed against a rival: CONFIRMED where the whole band lies above 1 by more than the A/A twin
/// strayed from 1, REFUTED where it lies below 1, INVALID in a void comparison, else (and always on
/// the host) INCONCLUSIVE.
std::string fast_verdict(const ratio_band& speedup, const comparison& within);

/// Speed against the floor: from 67 MB moved, CONFIRMED where the whole band of capstone / floor is
/// at most 1.03 (1.05 beyond 16K columns), REFUTED where all of it is above. Smaller calls have no
/// target, so they are INCONCLUSIVE. INVALID in a void comparison.
std::string floor_verdict(const comparison& within);

std::vector<claim_row> rows_of(const verify_record& record, const std::string& name);
std::vector<claim_row> rows_of(const session_record& record, const std::string& name);
/// The claim "understood": a row for each problem (unit "verdict", value the story if any), and one
/// for each counter and the time.
std::vector<claim_row> rows_of(const profile_record& record, const std::string& name);

/// The records below `evidence`, sorted by path, as {path, path relative to `evidence`}; of one
/// device where `device` is not "". `kind` is "verify", "sessions" or "profiles".
std::vector<std::pair<std::string, std::string>> record_files(const std::string& evidence,
                                                              const std::string& device,
                                                              const std::string& kind);

std::string tsv(const std::vector<claim_row>& rows);

/// For each kernel the latest valid comparison of each shape, losses first.
std::string markdown(const std::vector<session_record>& sessions);

enum class table_form { tsv, markdown, sentences };

/// Every record in one of these forms. Throws record_error for one it cannot read.
std::string table_text(const std::string& evidence, const std::string& device, table_form form);

/// The command: prints to standard output. Throws record_error for a record it cannot read.
int table(const std::string& evidence, const std::string& device, table_form form);

/// `claims check`: every record reads, and every config that was measured is the frozen one.
/// Returns 0, or 2 after naming on standard error what is wrong.
int check(const std::string& root, const std::string& evidence);

}  // namespace capstone::claims
