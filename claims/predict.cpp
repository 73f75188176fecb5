// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

#include "claims/predict.hpp"

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include "claims/profile_record.hpp"
#include "claims/profile_rows.hpp"
#include "claims/table.hpp"
#include "core/fingerprint.hpp"

namespace capstone::claims {
namespace fs = std::filesystem;
namespace {

/// The device whose ceilings are used.
std::string device_with_ceilings(const std::string& out, const std::string& wanted) {
  std::vector<std::string> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(out + "/evidence", none))
    if (fs::exists(entry.path() / "ceilings.yaml")) found.push_back(entry.path().filename().string());
  if (!wanted.empty()) found = {wanted};
  if (found.size() == 1 && fs::exists(out + "/evidence/" + found[0] + "/ceilings.yaml")) return found[0];
  throw std::invalid_argument("device is '" + wanted + "'; expected one with evidence/<device>/ceilings.yaml below " + out +
                              " (" + std::to_string(found.size()) + " have it); `claims calibrate` writes it on a GPU");
}

int compute_capability(const record_device& d) {
  const auto dot = d.cc.find('.');
  if (dot == std::string::npos) throw std::invalid_argument("the ceilings' device has cc '" + d.cc + "'; expected one like 9.0");
  return std::stoi(d.cc.substr(0, dot)) * 10 + std::stoi(d.cc.substr(dot + 1));
}

std::int64_t profiles_of(const std::string& evidence, const std::string& device, const prediction& p) {
  std::int64_t count = 0;
  for (const auto& [path, name] : record_files(evidence, device, "profiles"))
    for (const profiled& seen : read_profile(path).problems)
      if (seen.kernel == p.kernel && seen.dtype == p.dtype && seen.what == p.what) ++count;
  return count;
}

void print(const prediction& p, const std::string& path) {
  std::printf("%s %s %s: %.4g us [%.4g, %.4g], bound by %s (%.3gx %s)%s; %s\n", p.kernel.c_str(), p.dtype.c_str(),
              p.what.shape.c_str(), p.expected_us, p.low_us, p.high_us, p.binding.c_str(), p.margin, p.second.c_str(),
              p.binding == "launch" ? "; launch dominates" : "", path.c_str());
}

/// The same but for when it was made and what it follows; and for what an older schema cannot hold.
bool same_content(prediction a, prediction b) {
  if (b.schema == older_prediction_schema) a.schema = b.schema;
  for (prediction* p : {&a, &b}) {
    p->date = p->commit = p->supersedes = p->why = "";
    p->prior_profiles = 0;
  }
  return write_prediction(a) == write_prediction(b);
}

}  // namespace

prediction make_prediction(const op& of, const kernel_spec& kernel, const problem& what, const ceilings& measured,
                           const std::string& digest, bool memory_only) {
  if (!kernel.launched || !kernel.work)
    throw std::runtime_error(kernel.name() + " " + kernel.dtype + " has no `launched` or no `work` in its spec; a prediction needs both");
  const device_limits limits{compute_capability(measured.device), int(measured.device.sms), measured.device.l2_bytes};
  const pointers at = fake_pointers(kernel.buffers(what));
  const choice_info choice = kernel.choice(what, at, limits);
  prediction p;
  const run_context now = this_run();
  p.date = now.date;
  p.commit = now.commit;
  p.kernel = kernel.name();
  p.dtype = kernel.dtype;
  p.what = id_of(of, what);
  p.device = measured.device;
  p.ceilings = digest;
  p.source = source_fingerprint(source_root(), of.header);
  p.config = tokens_of(of, choice.values);
  p.model = memory_only ? "memory only" : "full";
  p.l2 = "cold";
  const launch_identity launch = kernel.launched(what, at, limits);
  model_inputs in{measured, kernel.traffic(what), kernel.work(what, choice.values), launch, machine_code_of(launch.symbol), {}, what.shape.at(0), memory_only};
  if (in.traffic.read_bytes + in.traffic.written_bytes == 0)
    throw std::runtime_error("shape is " + p.what.shape + "; expected one with elements");
  for (const baseline& b : kernel.baselines)
    if (b.traffic) in.rivals.emplace_back(b.name, b.traffic(what));
  apply_model(in, p);
  return p;
}

int predict(const selection& wanted, const predict_options& options) {
  const std::string out = wanted.out.empty() ? source_root() : wanted.out;
  const std::string id = device_with_ceilings(out, options.device);
  const std::string folder = out + "/evidence/" + id, path = folder + "/ceilings.yaml";
  const ceilings measured = read_ceilings(path);
  device where;
  where.id = id;
  where.ordinal = 0;
  where.limits = {compute_capability(measured.device), int(measured.device.sms), measured.device.l2_bytes};
  int written = 0, unchanged = 0, refused = 0;
  for (const chosen& c : choose(wanted, where)) {
    for (const suite_problem& item : c.problems) {
      const std::string about = c.kernel->name() + " " + c.kernel->dtype + " " + id_of(*c.of, item.what).shape;
      const auto refuse = [&](const std::string& why) {
        std::fprintf(stderr, "claims predict refuses %s: %s\n", about.c_str(), why.c_str());
        ++refused;
      };
      prediction p;
      try {
        p = make_prediction(*c.of, *c.kernel, item.what, measured, file_digest(path), options.memory_only);
      } catch (const std::runtime_error& error) {
        refuse(error.what());
        continue;
      }
      if (const std::string why = why_cannot_fail(p); !why.empty()) {
        refuse(why);
        continue;
      }
      const newest_prediction last = find_newest_prediction(folder, p.kernel, p.dtype, p.what);
      if (last.n > 0) {
        const std::string before = folder + "/" + last.path;
        if (same_content(p, last.content)) {
          ++unchanged;
          continue;
        }
        if (!options.supersede) {
          refuse("there is " + before + " already; --supersede writes a successor and keeps it");
          continue;
        }
        p.supersedes = last.digest;
        p.why = options.why;
        if (p.why.empty()) {
          refuse("--supersede needs --why, what was wrong with the prediction before");
          continue;
        }
      }
      p.prior_profiles = profiles_of(out + "/evidence", id, p);
      const std::string to = folder + "/" + prediction_path(p.kernel, p.dtype, p.what, last.n + 1);
      fs::create_directories(fs::path(to).parent_path());
      atomic_write(to, write_prediction(p));
      print(p, to);
      ++written;
    }
  }
  std::printf("claims predict for %s: %d written, %d unchanged, %d refused; commit them before `claims profile`\n", id.c_str(), written,
              unchanged, refused);
  return refused == 0 ? 0 : 2;
}

}  // namespace capstone::claims
