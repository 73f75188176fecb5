// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/check_understood.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "claims/ceilings.hpp"
#include "claims/model.hpp"
#include "claims/profile_record.hpp"
#include "claims/profile_rows.hpp"
#include "claims/table.hpp"
#include "claims/trace.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"

namespace capstone::claims {
namespace fs = std::filesystem;
namespace {

// What every prediction must hold, so that none is dropped that might disagree.
constexpr const char* mandatory[] = {
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "lts__t_sectors_srcunit_tex_op_write.sum",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_ld.sum",
    "l1tex__t_bytes_pipe_lsu_mem_local_op_st.sum",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
};

struct entry {
  std::string path;  ///< from the device's folder: predictions/rms_norm.bf16/rows=1,cols=4096.1.yaml
  std::string digest;
  prediction content;
};

/// As one word of a shell's command line.
std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::vector<fs::path> sorted_yaml(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code none;
  for (const auto& file : fs::directory_iterator(folder, none))
    if (file.path().extension() == ".yaml") files.push_back(file.path());
  std::sort(files.begin(), files.end());
  return files;
}

class device_checker {
 public:
  device_checker(std::string root, fs::path folder, understood_check& into)
      : root_(std::move(root)), folder_(std::move(folder)), into_(into) {}

  void run() {
    read_ceilings_files();
    read_predictions();
    for (const auto& [problem, chain] : chains_) check_chain(chain);
    for (const auto& file : sorted_yaml(folder_ / "timelines")) guarded([&] { read_timeline(file.string()); });
    for (const auto& file : sorted_yaml(folder_ / "profiles")) guarded([&] { check_profile(file); });
  }

 private:
  void complain(const std::string& sentence) { into_.problems.push_back(sentence); }

  template <class Work>
  void guarded(Work work) {
    ++into_.records;
    try {
      work();
    } catch (const std::exception& error) {  // the others are still worth reading
      complain(error.what());
    }
  }

  void read_ceilings_files() {
    const auto take = [&](const fs::path& file) {
      guarded([&] {
        read_ceilings(file.string());
        ceilings_.insert(file_digest(file.string()));
      });
    };
    if (fs::exists(folder_ / "ceilings.yaml")) take(folder_ / "ceilings.yaml");
    std::error_code none;
    for (const auto& file : fs::directory_iterator(folder_ / "ceilings", none)) take(file.path());
  }

  void read_predictions() {
    std::error_code none;
    for (const auto& file : fs::recursive_directory_iterator(folder_ / "predictions", none)) {
      if (!file.is_regular_file()) continue;
      guarded([&] {
        const std::string path = file.path().string();
        entry e{fs::relative(file.path(), folder_).string(), file_digest(path), read_prediction(path)};
        all_.emplace(e.path, e);
        const prediction& p = e.content;
        chains_[p.kernel + " " + p.dtype + " " + p.what.shape + " " + p.what.layout].push_back(e);
      });
    }
  }

  void check_chain(std::vector<entry> chain) {
    const auto path_of = [](const prediction& p, std::size_t n) { return prediction_path(p.kernel, p.dtype, p.what, int(n)); };
    std::map<std::string, const entry*> by_path;
    for (const entry& e : chain) by_path[e.path] = &e;
    const entry* before = nullptr;
    for (std::size_t n = 1; n <= chain.size(); ++n) {
      const std::string path = path_of(chain[0].content, n);
      const auto found = by_path.find(path);
      if (found == by_path.end()) {
        complain((folder_ / path).string() + " is gone: " + std::to_string(chain.size()) + " predictions of this problem are numbered otherwise");
        return;
      }
      const entry& e = *found->second;
      check_prediction(e);
      const std::string expected = before == nullptr ? "" : before->digest;
      if (e.content.supersedes != expected)
        complain((folder_ / path).string() + " supersedes '" + e.content.supersedes + "'; expected '" + expected +
                 "', the prediction before it (edited, or written out of order)");
      if (before != nullptr && e.content.schema == older_prediction_schema && before->content.schema != older_prediction_schema)
        complain((folder_ / path).string() + " has the older schema " + e.content.schema + " and follows one of " + before->content.schema);
      before = &e;
    }
    guarded([&] { check_current(*before); });
    --into_.records;
  }

  void check_prediction(const entry& e) {
    const prediction& p = e.content;
    const std::string name = (folder_ / e.path).string();
    for (const char* metric : mandatory)
      if (p.find(metric) == nullptr) complain(name + " predicts no " + metric + "; every prediction must");
    if (const std::string why = why_cannot_fail(p); !why.empty()) complain(name + ": " + why);
    if (ceilings_.count(p.ceilings) == 0)
      complain(name + " rests on ceilings " + p.ceilings + ", which are neither ceilings.yaml nor in ceilings/");
  }

  /// The newest prediction of a problem is about the kernel that the library launches today.
  void check_current(const entry& e) {
    const prediction& p = e.content;
    const op* of = nullptr;
    const kernel_spec* kernel = nullptr;
    for (const op& o : registry())
      for (const kernel_spec& k : o.kernels)
        if (k.name() == p.kernel && k.dtype == p.dtype) of = &o, kernel = &k;
    if (kernel == nullptr) return;  // of a spec that was loaded by --spec
    const std::string name = (folder_ / e.path).string();
    if (const std::string now = source_fingerprint(root_, of->header); now != p.source) {
      complain(name + " is stale: it is about source " + p.source + ", and " + of->header + " is " + now +
               "; `claims predict --supersede`, then profile again");
      return;
    }
    problem what;
    for (const auto& size : parse_dims(p.what.shape)) what.shape.push_back(size);
    const pointers at = fake_pointers(kernel->buffers(what));
    const auto dot = p.device.cc.find('.');
    const device_limits limits{std::stoi(p.device.cc.substr(0, dot)) * 10 + std::stoi(p.device.cc.substr(dot + 1)), int(p.device.sms), p.device.l2_bytes};
    const config_values frozen = tokens_of(*of, kernel->choice(what, at, limits).values);
    if (frozen != p.config)
      complain(name + " is stale: it is about config " + text_of(p.config) + "; the library uses " + text_of(frozen));
    if (kernel->launched)
      if (const std::string symbol = kernel->launched(what, at, limits).symbol; canonical_symbol(symbol) != canonical_symbol(p.launch.symbol))
        complain(name + " is stale: it is about kernel " + p.launch.symbol + "; the library launches " + symbol);
  }

  static std::vector<std::int64_t> parse_dims(const std::string& shape) {
    std::vector<std::int64_t> sizes;
    std::istringstream parts(shape);
    for (std::string part; std::getline(parts, part, ',');) sizes.push_back(std::stoll(part.substr(part.find('=') + 1)));
    return sizes;
  }

  void check_profile(const fs::path& file) {
    const profile_record record = read_profile(file.string());
    const std::string name = file.string();
    if (record.run.dirty) complain(name + ": INVALID: profiled from a tree that differed from its commit " + record.run.commit);
    for (profiled seen : record.problems) {
      const std::string about = name + ": " + seen.kernel + " " + seen.dtype + " " + seen.what.shape;
      const auto found = all_.find(seen.prediction_path);
      if (found == all_.end()) {
        complain(about + " rests on " + seen.prediction_path + ", which is gone");
        continue;
      }
      const entry& e = found->second;
      if (e.digest != seen.prediction_sha256) {
        complain(about + ": INVALID: " + seen.prediction_path + " was edited after the profile (" + e.digest + "; it was " + seen.prediction_sha256 + ")");
        continue;
      }
      if (seen.config != e.content.config) complain(about + ": measured config " + text_of(seen.config) + " is not the predicted " + text_of(e.content.config));
      const std::string before = seen.verdict;
      const std::vector<claim_verdict> verdicts = seen.verdicts;
      judge(e.content, seen);
      const auto same = [](const claim_verdict& a, const claim_verdict& b) {
        return a.claim == b.claim && a.verdict == b.verdict && recorded(a.observed) == recorded(b.observed) && recorded(a.low) == recorded(b.low) &&
               recorded(a.high) == recorded(b.high);
      };
      if (seen.verdict != before || !std::equal(verdicts.begin(), verdicts.end(), seen.verdicts.begin(), seen.verdicts.end(), same))
        complain(about + ": its numbers give " + seen.verdict + ", the record says " + before + " (edited, or judged by other rules)");
      check_order(record, seen, about);
    }
  }

  /// The commit that the profile's program was built from holds the prediction, byte for byte.
  void check_order(const profile_record& record, const profiled& seen, const std::string& about) {
    const auto note = [&](const std::string& text) {
      if (std::find(into_.notes.begin(), into_.notes.end(), text) == into_.notes.end()) into_.notes.push_back(text);
    };
    const std::string file = (folder_ / seen.prediction_path).string();
    if (record.run.commit.empty() || git_output(root_, "cat-file -t " + quoted(record.run.commit)) != "commit") {
      note("order not checked: commit '" + record.run.commit + "' is not in the history here");
      return;
    }
    const std::string tracked = fs::relative(file, root_).string();
    const std::string then = git_output(root_, "rev-parse --verify --quiet " + quoted(record.run.commit + ":" + tracked));
    const std::string now = git_output(root_, "hash-object -- " + quoted(tracked));
    if (then.empty())
      complain(about + ": INVALID: " + seen.prediction_path + " is not in commit " + record.run.commit + ", which the profile was built from; it was written after the profile");
    else if (then != now)
      complain(about + ": INVALID: " + seen.prediction_path + " was another one in commit " + record.run.commit + ", which the profile was built from");
  }

  std::string root_;
  fs::path folder_;
  understood_check& into_;
  std::set<std::string> ceilings_;
  std::map<std::string, entry> all_;
  std::map<std::string, std::vector<entry>> chains_;
};

/// Nothing that was predicted or profiled leaves the tree, and no prediction is another one than it was
/// when it was committed first. (A profile's numbers and verdicts are compared with each other.)
void check_history(const std::string& root, std::vector<std::string>& problems) {
  const std::string predictions = " -- 'evidence/*/predictions/*'";
  struct versions {
    std::string first, last;
    bool deleted = false;
  };
  std::map<std::string, versions> by_path;
  // The newest first. Without --no-renames a profile that a similar one replaces in the same commit
  // would count as renamed, not as deleted.
  std::istringstream log(git_output(root, "log --no-renames --diff-filter=AMD --raw --no-abbrev --format=" + predictions + " 'evidence/*/profiles/*'"));
  std::string old_mode, mode, old_blob, blob, status, path;
  while (log >> old_mode >> mode >> old_blob >> blob >> status && std::getline(log >> std::ws, path)) {
    versions& v = by_path[path];
    if (v.last.empty()) v.last = blob;
    v.first = blob;
    v.deleted = v.deleted || status == "D";
  }
  std::istringstream modified(git_output(root, "diff --name-only --diff-filter=M HEAD" + predictions));
  while (std::getline(modified, path)) by_path[path].last = "not committed";
  for (const auto& [name, v] : by_path) {
    const bool here = fs::exists(root + "/" + name);
    if (v.deleted && !here) problems.push_back(name + " is gone; the history holds it, and predictions and profiles stay");
    if (here && name.find("/predictions/") != std::string::npos && v.first != v.last)
      problems.push_back(name + " was edited; the history holds another, and `claims predict --supersede` writes the next one");
  }
}

}  // namespace

understood_check check_understood(const std::string& root, const std::string& evidence) {
  understood_check result;
  std::vector<fs::path> folders;
  std::error_code none;
  for (const auto& folder : fs::directory_iterator(evidence, none))
    if (folder.is_directory()) folders.push_back(folder.path());
  std::sort(folders.begin(), folders.end());
  for (const fs::path& folder : folders) device_checker(root, folder, result).run();
  std::error_code same;
  if (fs::equivalent(evidence, root + "/evidence", same)) check_history(root, result.problems);
  return result;
}

}  // namespace capstone::claims
