// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/tune.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>

#include "autotune/compile.hpp"
#include "autotune/freeze_group.hpp"
#include "autotune/group.hpp"
#include "autotune/session.hpp"
#include "core/context.hpp"
#include "core/fingerprint.hpp"
#include "core/records.hpp"
#include "core/stats.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

using clock = std::chrono::steady_clock;
using nlohmann::json;

double seconds_since(clock::time_point begin) {
  return std::chrono::duration<double>(clock::now() - begin).count();
}

void add_counts(candidate_counts& to, const candidate_counts& from) {
  to.declared += from.declared;
  to.pruned += from.pruned;
  to.compiled += from.compiled;
  to.compile_error += from.compile_error;
  to.spilled += from.spilled;
  to.wrong += from.wrong;
  to.crashed += from.crashed;
  to.implausible += from.implausible;
  to.timed += from.timed;
}

/// A thread with a device's session: a worker lives no longer than the thread that started it.
class device_thread {
 public:
  device_thread(const std::string& name, const session_settings& how,
                std::function<void(worker_session&)> work, std::shared_future<void> go)
      : thread_([this, name, how, work = std::move(work), go = std::move(go)] {
          try {
            worker_session session(name, how);
            opened_.set_value({session.where(), session.other_processes()});
            go.get();
            work(session);
            restarts_ = session.restarts();
          } catch (...) {
            error_ = std::current_exception();
            try {
              opened_.set_exception(error_);
            } catch (const std::future_error&) {  // it was opened: see finish()
            }
          }
        }) {}

  /// The device and how many other processes compute on it. Throws what the session threw.
  std::pair<device, int> opened() { return opened_.get_future().get(); }
  std::exception_ptr finish() {
    if (thread_.joinable()) thread_.join();
    return error_;
  }
  std::size_t restarts() const { return restarts_; }

 private:
  std::promise<std::pair<device, int>> opened_;
  std::exception_ptr error_;
  std::size_t restarts_ = 0;
  std::jthread thread_;
};

/// OUT/.autotune/NAME[.shard-I-of-N]EXTENSION: shards share the folder.
std::string path_of(const tune_request& request, std::string name, const char* extension) {
  if (request.part.count > 1) name += ".shard-" + std::to_string(request.part.index) + "-of-" + std::to_string(request.part.count);
  return (fs::path(request.out) / ".autotune" / (name + extension)).string();
}

std::string journal_path(const tune_request& request, const std::string& device, const kernel_spec& kernel) {
  return path_of(request, device + "." + kernel.name() + "." + kernel.dtype, ".jsonl");
}

/// How many run-offs called identical kernels different: what the verdicts of this run are worth.
std::size_t different_twins(const std::vector<shape_result>& run_offs) {
  return static_cast<std::size_t>(std::count_if(run_offs.begin(), run_offs.end(), [](const shape_result& each) {
    return compare(each.default_us, each.twin_us).different();
  }));
}

/// What the search did with one column count: for the record.
json group_record(const group& work, const std::vector<shape_result>& results) {
  json shapes = json::array();
  for (const auto& shape : work.shapes) {
    json pruned = json::object();
    for (const auto& [reason, count] : shape.pruned) {
      if (count > 0) pruned[reason] = count;
    }
    json line = {{"shape", shape.at.shape}, {"declared", shape.declared}, {"pruned", pruned}, {"left", shape.configs.size()}};
    for (const auto& result : results) {
      if (result.rows != shape.at.shape[0]) continue;
      line["finalists"] = result.finalists.size();
      line["default_us"] = median(result.default_us);
    }
    shapes.push_back(line);
  }
  std::map<std::string, int> states;
  for (const auto& each : work.candidates) ++states[token(each.state)];
  return {{"kernel", work.kernel->name()}, {"dtype", work.kernel->dtype}, {"cols", work.cols()}, {"shapes", shapes},
          {"candidates", states}, {"timed", work.counts.timed}, {"audit", work.audit}};
}

void print_space(const std::vector<group>& groups) {
  for (const auto& work : groups) {
    std::printf("%s:\n", work.name().c_str());
    for (const auto& each : work.candidates) std::printf("  %s\n", config_text(*work.of, each.values).c_str());
  }
  std::printf("dry run: nothing was compiled or timed\n");
}

/// A run over all its groups and devices.
class tuning {
 public:
  explicit tuning(const tune_request& request) : request_(request), begin_(clock::now()), limited_(request.budget.count() > 0) {}

  int run() {
    std::promise<void> go;
    const auto started = go.get_future().share();
    const session_settings how{request_.program, request_.plugins, request_.seed, request_.simulated, request_.candidate_timeout};
    std::vector<std::unique_ptr<device_thread>> threads;
    struct release {  // threads wait for it, also where something throws
      std::promise<void>& go;
      bool done = false;
      void now() { if (!std::exchange(done, true)) go.set_value(); }
      ~release() { now(); }
    } released{go};
    for (const auto& name : request_.devices) {
      threads.push_back(std::make_unique<device_thread>(name, how, [this](worker_session& on) { serve(on); }, started));
    }
    for (const auto& each : threads) meet(*each);
    groups_ = make_groups(request_, *where_);
    take_shard();
    open_journals();
    if (!todo_.empty()) compile_candidates();
    released.now();
    std::exception_ptr error;
    for (const auto& each : threads) {
      if (const auto mine = each->finish(); mine != nullptr && error == nullptr) error = mine;
      restarts_ += each->restarts();
    }
    bool was_stopped = stop_requested();
    if (error != nullptr) {
      try {
        std::rethrow_exception(error);
      } catch (const stopped&) {
        was_stopped = true;
      }
    }
    return summarise(was_stopped);
  }

 private:
  void meet(device_thread& thread) {
    const auto [found, others] = thread.opened();
    std::printf("device %s (%s)%s\n", found.id.c_str(), found.name.c_str(), found.uuid.empty() ? "" : (" " + found.uuid).c_str());
    if (others > 0) {
      std::fprintf(stderr, "autotune: %d other process%s on %s: times will scatter, and a tie is the likelier outcome\n", others,
                   others == 1 ? " computes" : "es compute", found.uuid.c_str());
    }
    if (where_ && where_->id != found.id) {
      throw std::invalid_argument("--devices names a " + where_->id + " and a " + found.id + "; expected GPUs of one kind, for "
                                  "one config file is made for each kind");
    }
    where_ = found;
  }

  void take_shard() {
    std::vector<group> mine;
    for (std::size_t i = 0; i < groups_.size(); ++i) {
      if (static_cast<int>(i) % request_.part.count == request_.part.index - 1) mine.push_back(std::move(groups_[i]));
    }
    groups_ = std::move(mine);
    if (request_.part.count > 1) {
      std::printf("shard %d of %d: %zu column counts\n", request_.part.index, request_.part.count, groups_.size());
    }
  }

  void open_journals() {
    // One for every kernel, also where no column count of it falls to this shard: a merge has to see that it ran.
    for (const auto& name : request_.kernels) {
      const auto [of, kernel] = find_kernel(name, request_.dtype);
      const auto path = journal_path(request_, where_->id, *kernel);
      auto& log = journals_[path];
      if (log != nullptr) continue;
      std::vector<std::int64_t> cols;
      for (const auto& work : groups_) {
        if (work.kernel == kernel) cols.push_back(work.cols());
      }
      const auto header = journal_header(*of, *kernel, *where_, request_, cols);
      files_[path] = file_of_header(header);
      log = std::make_unique<journal>(path, header, request_.resume);
      log->on_line = [](const json& line) { print_json(line); };
      std::printf("journal %s%s\n", path.c_str(), log->resumed() > 0 ? (": " + std::to_string(log->resumed()) + " lines to go on from").c_str() : "");
    }
    for (auto& work : groups_) {
      auto& log = journal_of(work);
      work.incumbents = frozen_before(request_.out, *work.of, work.cols(), files_[log.path()]);
      if (auto results = finished_group(work, log)) {
        std::printf("%s: finished before\n", work.name().c_str());
        freeze(work, *results);
      } else {
        recall_failures(work, log);
        todo_.push_back(&work);
      }
    }
  }

  journal& journal_of(const group& work) { return *journals_.at(journal_path(request_, where_->id, *work.kernel)); }

  void compile_candidates() {
    scratch_.emplace(request_.scratch);
    const auto types = types_by_header(todo_);
    std::size_t total = 0;
    for (const auto& [header, list] : types) total += list.size();
    std::printf("%zu kernels to compile with %d jobs\n", total, request_.jobs);
    const auto end = limited_ ? begin_ + request_.budget * 2 / 5 : deadline::max();
    progress compiling("compiling", total);
    const auto began = clock::now();
    for (const auto& [header, list] : types) {
      const compile_settings settings{source_root(), header, where_->limits.cc, scratch_->path(), request_.program};
      images_.merge(compile_all(settings, list, request_.jobs, end, [&] { compiling.step(1); }));
    }
    compiling.finish();
    compiling_s_ = seconds_since(began);
    if (stop_requested()) return;
    for (auto* work : todo_) note_compilation(*work, images_, journal_of(*work));
  }

  /// A device's share of the groups, one after the other.
  void serve(worker_session& on) {
    for (;;) {
      group* work = nullptr;
      deadline end = deadline::max();
      {
        const std::lock_guard lock(guard_);
        if (next_ == todo_.size() || stop_requested() || failed_) return;
        const auto left = begin_ + request_.budget - clock::now();
        if (limited_ && left.count() <= 0) {
          cut_ += todo_.size() - std::exchange(next_, todo_.size());
          return;
        }
        const auto waiting = (todo_.size() - next_ + request_.devices.size() - 1) / request_.devices.size();
        if (limited_) end = clock::now() + left / static_cast<int>(waiting);
        work = todo_[next_++];
      }
      try {
        const auto results = tune_group(*work, on, journal_of(*work), images_, end, limited_);
        const std::lock_guard lock(guard_);
        print_failures(*work);
        freeze(*work, results);
      } catch (const stopped&) {
        throw;
      } catch (...) {
        failed_ = true;
        throw;
      }
    }
  }

  void freeze(const group& work, const std::vector<shape_result>& results) {
    for (const auto& each : results) run_offs_.push_back(each);
    records_.push_back(group_record(work, results));
    if (results.empty()) {
      std::printf("%s: no valid candidate was timed\n", work.name().c_str());
      const bool untried = std::all_of(work.candidates.begin(), work.candidates.end(),
                                       [](const auto& c) { return c.state == status::untried; });
      cut_ += untried ? 1 : 0;
      return;
    }
    ++done_;
    if (request_.part.count > 1 || request_.audit > 0) return;
    // All column counts of the file so far, anew: how much they may merge depends on all of them.
    const auto path = journal_path(request_, where_->id, *work.kernel);
    auto& file = files_.at(path);
    add_counts(file.provenance.candidates, work.counts);
    finished_[path].push_back({work.cols(), results});
    freeze_groups(request_.out, request_.table, *work.of, finished_[path], file);
  }

  int summarise(bool was_stopped) {
    std::printf("%zu of %zu column counts %s in %.0f s%s; %zu workers were replaced\n", done_, groups_.size(),
                request_.part.count > 1 || request_.audit > 0 ? "tuned" : "frozen", seconds_since(begin_),
                was_stopped ? "; a signal ended it" : cut_ > 0 ? "; the budget ended before the others" : "", restarts_);
    if (!run_offs_.empty()) {
      const auto different = different_twins(run_offs_);
      std::printf("identical kernels were called different in %zu of %zu run-offs (%.1f %%)\n", different, run_offs_.size(),
                  100.0 * double(different) / double(run_offs_.size()));
    }
    if (request_.audit > 0) print_audit();
    write_record(was_stopped);
    if (where_->is_host()) std::printf("the host device is a self-test; its times claim nothing\n");
    if (done_ < groups_.size() && (was_stopped || cut_ > 0)) {
      std::printf("what was measured is in the journal; --resume goes on from it\n");
    }
    if (was_stopped || cut_ > 0) return exit_partial;
    if (done_ > 0 || groups_.empty()) {
      if (request_.part.count > 1) std::printf("when all shards are done: autotune merge --out %s\n", request_.out.c_str());
      return exit_ok;
    }
    return exit_no_candidate;
  }

  /// Whether a rule kept a winner out.
  void print_audit() const {
    int races = 0, lost = 0;
    for (const auto& work : records_) {
      for (const auto& line : work.at("audit")) {
        if (!line.contains("winner_lost")) continue;
        ++races;
        if (!line.at("winner_lost").get<bool>()) continue;
        ++lost;
        std::printf("%s %s: the rule '%s' keeps out %s, which is %.3f [%.3f, %.3f] times as fast as the winner\n",
                    work.at("kernel").get<std::string>().c_str(), line.at("shape").dump().c_str(),
                    line.at("rule").get<std::string>().c_str(), line.at("run_off").get<std::string>().c_str(),
                    line.at("gain")[0].get<double>(), line.at("gain")[1].get<double>(), line.at("gain")[2].get<double>());
      }
    }
    std::printf("pruning: the best of what the rules keep out was raced at %d shapes and would have won at %d; nothing was frozen\n",
                races, lost);
  }

  /// What this run did, beside the journals. One that did nothing leaves the record of the one before.
  void write_record(bool was_stopped) const {
    if (records_.empty()) return;
    const auto run = this_run();
    const json record = {{"schema", "capstone-tuning/1"}, {"date", run.date}, {"commit", run.commit}, {"dirty", run.dirty},
                         {"toolkit", run.toolkit}, {"device", {{"id", where_->id}, {"name", where_->name}, {"driver", where_->driver}}},
                         {"devices", request_.devices.size()}, {"jobs", request_.jobs}, {"seed", request_.seed},
                         {"simulated", request_.simulated}, {"shard", {request_.part.index, request_.part.count}},
                         {"audited_a_rule", request_.audit}, {"kernels", request_.kernels}, {"dtype", request_.dtype},
                         {"seconds", std::round(10 * seconds_since(begin_)) / 10}, {"seconds_compiling", std::round(10 * compiling_s_) / 10},
                         {"stopped", was_stopped}, {"finished", done_}, {"of", groups_.size()}, {"workers_replaced", restarts_},
                         {"twins", {{"run_offs", run_offs_.size()}, {"different", different_twins(run_offs_)}, {"band", tie_band}}},
                         {"groups", records_}};
    const auto path = path_of(request_, "tuning", ".json");
    atomic_write(path, record.dump(1) + "\n");
    std::printf("wrote %s\n", path.c_str());
  }

  const tune_request& request_;
  clock::time_point begin_;
  bool limited_;
  std::optional<device> where_;
  std::vector<group> groups_;
  std::vector<group*> todo_;
  std::map<std::string, std::unique_ptr<journal>> journals_;  // by path
  std::map<std::string, frozen_config> files_;                // by the journal's path
  std::optional<scratch_folder> scratch_;
  std::map<std::string, image> images_;
  std::mutex guard_;  // of what follows
  std::size_t next_ = 0, done_ = 0, cut_ = 0, restarts_ = 0;
  bool failed_ = false;
  std::vector<shape_result> run_offs_;
  std::vector<json> records_;  // of the groups that have run
  double compiling_s_ = 0;
  std::map<std::string, std::vector<cols_result>> finished_;  // by the journal's path
};

FILE* json_lines = nullptr;

}  // namespace

void print_json_lines() {
  std::fflush(stdout);
  json_lines = fdopen(dup(STDOUT_FILENO), "w");
  dup2(STDERR_FILENO, STDOUT_FILENO);
  if (json_lines != nullptr) std::setvbuf(json_lines, nullptr, _IOLBF, BUFSIZ);
}

void print_json(const json& line) {
  if (json_lines == nullptr) return;
  std::fputs((line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n").c_str(), json_lines);
}

device_limits limits_of_arch(int cc) {
  switch (cc) {
    case 80: return {80, 108, 40 << 20};
    case 90: return {90, 132, 60 << 20};
    case 100: return {100, 148, 126 << 20};
    case 120: return {120, 188, 96 << 20};
    default: return {cc, 100, 40 << 20};
  }
}

int tune(const tune_request& request) {
  const bool on_host = std::count(request.devices.begin(), request.devices.end(), "host") > 0;
  const auto no_gpu = on_host ? "" : why_no_gpu();
  if (request.dry_run) {
    device where;
    if (on_host) where = open_device("host");
    else where.id = where.name = "sm_90, assumed", where.limits = limits_of_arch(90), where.ordinal = 0;
    print_space(make_groups(request, where));
    return exit_ok;
  }
  if (!no_gpu.empty()) {
    std::fprintf(stderr, "autotune: %s; `autotune --device host` tunes on the host, as a self-test "
                         "of the pipeline.\n", no_gpu.c_str());
    return exit_no_device;
  }
  return tuning(request).run();
}

int merge_journals(const std::string& out, const std::string& table) {
  std::map<std::string, std::vector<std::vector<json>>> by_file;  // config path: journals
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::path(out) / ".autotune", ignored)) {
    if (entry.path().extension() != ".jsonl") continue;
    auto lines = read_journal(entry.path().string());
    if (lines.empty()) continue;
    const auto file = file_of_header(lines.front());
    by_file[config_path(file)].push_back(std::move(lines));
  }
  if (by_file.empty()) {
    throw std::invalid_argument("--out is " + out + ", where .autotune/ holds no journal; expected the folder that the shards were given");
  }
  bool complete = true;
  for (const auto& [path, journals] : by_file) {
    std::set<int> parts;
    int count = 1;
    json first;
    frozen_config file;
    std::map<std::string, json> lines;
    std::set<std::int64_t> due;  // what any run was to tune, whether or not it came to it
    for (const auto& each : journals) {
      json header;
      for (const auto& line : each) {
        if (line.contains("key")) {
          lines[line["key"]] = line;
          continue;
        }
        header = line;
        for (const auto& cols : line.at("cols")) due.insert(cols.get<std::int64_t>());
      }
      if (header.contains("shard")) parts.insert(header["shard"][0].get<int>()), count = header["shard"][1];
      else parts.insert(1);
      if (first.is_null()) first = header, file = file_of_header(header);
      for (const char* field : {"source", "axes", "device", "toolchain", "measuring", "simulated"}) {
        if (header.at(field) == first.at(field)) continue;
        throw record_error(path + ": its shards differ in " + field + " (" + header.at(field).dump() + " and " + first.at(field).dump() +
                           "); tune all of them with one version on one kind of GPU");
      }
      if ((header.contains("shard") ? header["shard"][1].get<int>() : 1) != count) {
        throw record_error(path + ": there are journals of " + std::to_string(count) + " shards and of another number; remove those of the older run from " + out + "/.autotune");
      }
    }
    const auto [of, kernel] = find_kernel(file.kernel, file.dtype);
    if (const auto now = source_fingerprint(source_root(), of->header); now != file.source) {
      throw record_error(path + ": stale, the source of " + of->header + " changed since it was tuned (then " + file.source + ", now " + now + "); tune again");
    }
    for (int i = 1; i <= count; ++i) {
      if (parts.count(i) > 0) continue;
      std::printf("%s: shard %d of %d has not run\n", path.c_str(), i, count);
      complete = false;
    }
    // First all counts, then the files, so that each write tells the whole.
    std::map<std::int64_t, json> groups;
    for (const auto& [key, line] : lines) {
      if (line.at("phase") == "group") groups[line.at("cols")] = line;
    }
    for (const auto cols : due) {
      if (groups.count(cols) > 0) continue;
      std::printf("%s: cols %lld is not finished; run its shard again with --resume\n", path.c_str(), static_cast<long long>(cols));
      complete = false;
    }
    for (const auto& [cols, line] : groups) add_counts(file.provenance.candidates, counts_from(line.at("counts")));
    std::vector<cols_result> results;
    for (const auto& [cols, line] : groups) {
      results.push_back({cols, {}});
      for (const auto& key : line.at("run_offs")) results.back().shapes.push_back(shape_result_from(*of, lines.at(key)));
    }
    if (!results.empty()) freeze_groups(out, table, *of, results, file);
  }
  return complete ? exit_ok : exit_partial;
}

}  // namespace capstone::tools
