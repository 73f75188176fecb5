// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "claims/profile_rows.hpp"
#include "claims/race_table.hpp"
#include "claims/sentence.hpp"

namespace capstone::claims {
namespace {

constexpr std::int64_t target_bytes = 67'000'000;
constexpr const char* host_timer = "host";  // its times claim nothing

/// The size of a dim in `rows=4096,cols=8192`, as text; "-" where it has no such dim.
std::string dim(const std::string& shape, const std::string& name) {
  const std::string key = "," + name + "=", text = "," + shape + ",";
  const std::size_t at = text.find(key);
  if (at == std::string::npos) return "-";
  const std::size_t from = at + key.size();
  return text.substr(from, text.find(',', from) - from);
}

std::int64_t cols_of(const comparison& c) {
  const std::string text = dim(c.what.shape, "cols");
  std::int64_t cols = 0;
  std::from_chars(text.data(), text.data() + text.size(), cols);
  return cols;
}

std::string shape_text(const problem_id& what) {
  return what.layout.empty() ? what.shape : what.shape + " " + what.layout;
}

claim_row row_for(const std::string& device, const std::string& kernel, const std::string& dtype,
                  const problem_id& what, const std::string& session, const std::string& record) {
  claim_row row;
  row.device = device;
  row.kernel = kernel;
  row.dtype = dtype;
  row.shape = shape_text(what);
  row.rows = dim(what.shape, "rows");
  row.cols = dim(what.shape, "cols");
  row.low = row.high = row.baseline = row.verdict = "-";
  row.session = session;
  row.record = record;
  return row;
}

std::string fixed(double value, const char* format) {
  char text[40];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

std::string verdict_of(const arm_row& arm, const comparison& c) {
  return arm.name == floor_name ? floor_verdict(c) : fast_verdict(*arm.speedup, c);
}

bool loses(const comparison& c) {
  return std::any_of(c.arms.begin(), c.arms.end(), [&](const arm_row& a) {
    return a.speedup && a.name != twin_name && verdict_of(a, c) == "REFUTED";
  });
}

/// "1.0312x [1.0290, 1.0330]", bold where it is a loss.
std::string cell(const arm_row* arm, const comparison& c) {
  if (arm == nullptr) return "";
  const std::string text = fixed(arm->speedup->median, "%.3f") + " [" +
                           fixed(arm->speedup->low, "%.3f") + ", " +
                           fixed(arm->speedup->high, "%.3f") + "]";
  return verdict_of(*arm, c) == "REFUTED" ? "**" + text + "**" : text;
}

void add_kernel(std::string& text, std::vector<const comparison*> list) {
  std::stable_sort(list.begin(), list.end(),
                   [](const comparison* a, const comparison* b) { return loses(*a) > loses(*b); });
  std::vector<std::string> rivals;
  for (const comparison* c : list)
    for (const arm_row& a : c->arms)
      if (a.speedup && a.name != twin_name && a.name != floor_name &&
          std::find(rivals.begin(), rivals.end(), a.name) == rivals.end())
        rivals.push_back(a.name);
  const auto losses = std::count_if(list.begin(), list.end(), [](auto* c) { return loses(*c); });
  text += "\n### " + list[0]->kernel + ", " + list[0]->dtype + "\n\n" + list[0]->rounding + "\n\n";
  text += std::to_string(losses) + " of " + std::to_string(list.size()) +
          " shapes lose to a baseline or miss the floor's target (bold, first). Speedups are "
          "baseline / capstone.\n\n| shape | capstone, ms | floor / capstone |";
  for (const std::string& name : rivals) text += " " + name + " |";
  text += "\n|---|---|---|";
  for (std::size_t i = 0; i < rivals.size(); ++i) text += "---|";
  for (const comparison* c : list) {
    text += "\n| " + shape_text(c->what) + " | " + fixed(c->find(own_name)->ms, "%.5f") + " | " +
            cell(c->find(floor_name), *c) + " |";
    for (const std::string& name : rivals) text += " " + cell(c->find(name), *c) + " |";
  }
  text += "\n";
}

}  // namespace

std::string fast_verdict(const ratio_band& speedup, const comparison& within) {
  if (within.is_void()) return "INVALID";
  if (within.timer == host_timer) return "INCONCLUSIVE";
  const ratio_band& twin = *within.find(twin_name)->speedup;
  const double strayed = std::max(std::abs(twin.low - 1), std::abs(twin.high - 1));
  if (speedup.low > 1 + strayed) return "CONFIRMED";
  return speedup.high < 1 ? "REFUTED" : "INCONCLUSIVE";
}

std::string floor_verdict(const comparison& within) {
  if (within.is_void()) return "INVALID";
  if (within.timer == host_timer || within.bytes < target_bytes) return "INCONCLUSIVE";
  const double target = cols_of(within) <= 16384 ? 1.03 : 1.05;
  if (within.floor_target.high <= target) return "CONFIRMED";
  return within.floor_target.low > target ? "REFUTED" : "INCONCLUSIVE";
}

std::vector<claim_row> rows_of(const verify_record& record, const std::string& name) {
  std::vector<claim_row> rows;
  for (const verified& v : record.problems) {
    claim_row row =
        row_for(record.device.id, record.kernel, record.dtype, v.what, record.run.session, name);
    row.claim = "correct";
    row.verdict = v.passed() ? "CONFIRMED" : "REFUTED";
    row.value = v.worst() == nullptr ? "0" : format_double(v.worst()->worst_ratio);
    row.unit = "error/bound";
    row.baseline = "float64";
    rows.push_back(row);
  }
  return rows;
}

std::vector<claim_row> rows_of(const session_record& record, const std::string& name) {
  std::vector<claim_row> rows;
  for (const comparison& c : record.comparisons)
    for (const arm_row& arm : c.arms) {
      claim_row row =
          row_for(record.device.id, c.kernel, c.dtype, c.what, record.run.session, name);
      row.claim = "time";
      row.verdict = c.is_void() ? "INVALID" : "-";
      row.value = format_double(arm.ms);
      row.unit = "ms";
      row.low = format_double(arm.low);
      row.high = format_double(arm.high);
      row.baseline = arm.name;
      rows.push_back(row);
      if (arm.name == own_name || arm.name == twin_name) continue;
      row.claim = "fast";
      row.verdict = verdict_of(arm, c);
      row.value = format_double(arm.speedup->median);
      row.unit = "x";
      row.low = format_double(arm.speedup->low);
      row.high = format_double(arm.speedup->high);
      rows.push_back(row);
    }
  for (const comparison& c : record.comparisons)
    for (const absent_peer& peer : c.absent) {
      claim_row row = row_for(record.device.id, c.kernel, c.dtype, c.what, record.run.session, name);
      row.claim = "not raced";
      row.value = peer.reason;
      row.unit = "reason";
      row.baseline = peer.name;
      for (char& ch : row.value)
        if (ch == '\t' || ch == '\n') ch = ' ';
      rows.push_back(row);
    }
  return rows;
}

std::vector<claim_row> rows_of(const profile_record& record, const std::string& name) {
  std::vector<claim_row> rows;
  for (const profiled& seen : record.problems) {
    claim_row row = row_for(record.device.id, seen.kernel, seen.dtype, seen.what, record.run.session, name);
    row.claim = "understood";
    row.verdict = seen.verdict;
    row.value = seen.story.empty() ? "-" : seen.story;
    row.unit = "verdict";
    row.baseline = seen.prediction_path;
    rows.push_back(row);
    for (const claim_verdict& v : seen.verdicts) {
      row.claim = "understood: " + v.claim;
      row.verdict = v.verdict;
      row.value = format_double(v.observed);
      row.unit = v.claim == "time" ? "us" : "-";
      row.low = format_double(v.low);
      row.high = format_double(v.high);
      rows.push_back(row);
    }
  }
  return rows;
}

std::vector<std::pair<std::string, std::string>> record_files(const std::string& evidence,
                                                              const std::string& device,
                                                              const std::string& kind) {
  namespace fs = std::filesystem;
  if (!fs::is_directory(evidence))
    throw std::invalid_argument("evidence is " + evidence + "; expected a folder");
  std::vector<std::pair<std::string, std::string>> files;
  for (const auto& folder : fs::directory_iterator(evidence)) {
    const fs::path records = folder.path() / kind;
    if (!fs::is_directory(records)) continue;
    if (!device.empty() && folder.path().filename() != device) continue;
    for (const auto& file : fs::directory_iterator(records))
      if (file.path().extension() == ".yaml")
        files.emplace_back(file.path().string(), fs::relative(file.path(), evidence).string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string tsv(const std::vector<claim_row>& rows) {
  std::string text =
      "device\tkernel\tdtype\tshape\trows\tcols\tclaim\tverdict\tvalue\tunit\tlow\t"
      "high\tbaseline\tsession\trecord\n";
  for (const claim_row& r : rows) {
    for (const std::string* cell :
         {&r.device, &r.kernel, &r.dtype, &r.shape, &r.rows, &r.cols, &r.claim, &r.verdict,
          &r.value, &r.unit, &r.low, &r.high, &r.baseline, &r.session})
      text += *cell + "\t";
    text += r.record + "\n";
  }
  return text;
}

std::string markdown(const std::vector<session_record>& sessions) {
  using key = std::pair<std::string, std::string>;  // kernel and dtype; then the shape
  std::map<std::string, std::map<key, std::map<std::string, const comparison*>>> devices;
  std::map<std::string, int> voids;
  for (const session_record& session : sessions)  // sorted by date, so the latest one stays
    for (const comparison& c : session.comparisons) {
      if (c.is_race()) continue;  // against others, in a table of their own
      voids[session.device.id] += c.is_void() ? 1 : 0;
      auto& shapes = devices[session.device.id][{c.kernel, c.dtype}];
      if (!c.is_void()) shapes[shape_text(c.what)] = &c;
    }
  std::string text;
  for (const auto& [device, kernels] : devices) {
    text += "## " + device + "\n";
    if (device == "host") text += "\n" + std::string(host_note) + "\n";
    if (voids[device] > 0)
      text += "\n" + std::to_string(voids[device]) + " comparisons were void and claim nothing.\n";
    for (const auto& [kernel, shapes] : kernels) {
      std::vector<const comparison*> list;
      for (const auto& [shape, c] : shapes) list.push_back(c);
      std::sort(list.begin(), list.end(), [](const comparison* a, const comparison* b) {
        return std::pair(cols_of(*a), a->bytes) < std::pair(cols_of(*b), b->bytes);
      });
      if (!list.empty()) add_kernel(text, list);
    }
  }
  return text;
}

std::string table_text(const std::string& evidence, const std::string& device, table_form form) {
  std::vector<claim_row> rows;
  std::vector<session_record> sessions;
  std::vector<verify_record> verified;
  for (const auto& [path, name] : record_files(evidence, device, "verify")) {
    verified.push_back(read_verify(path));
    for (claim_row& row : rows_of(verified.back(), name)) rows.push_back(std::move(row));
  }
  for (const auto& [path, name] : record_files(evidence, device, "sessions")) {
    sessions.push_back(read_session(path));
    for (claim_row& row : rows_of(sessions.back(), name)) rows.push_back(std::move(row));
  }
  for (const auto& [path, name] : record_files(evidence, device, "profiles"))
    for (claim_row& row : rows_of(read_profile(path), name)) rows.push_back(std::move(row));
  std::string text;
  if (form == table_form::tsv) text = tsv(rows);
  if (form == table_form::markdown) text = markdown(sessions) + race_markdown(sessions);
  if (form == table_form::sentences) {
    text = "device\tkernel\tdtype\tbaseline\tkind\tsentence\n";
    for (const speed_sentence& s : speed_sentences(sessions, verified, newest_predictions(evidence)))
      text += s.device + "\t" + s.kernel + "\t" + s.dtype + "\t" + s.baseline + "\t" + (s.fused ? "fused" : "unfused") + "\t" + s.text + "\n";
  }
  return text;
}

int table(const std::string& evidence, const std::string& device, table_form form) {
  std::fputs(table_text(evidence, device, form).c_str(), stdout);
  return 0;
}

}  // namespace capstone::claims
