// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/compile.hpp"

#include <fcntl.h>
#include <nvrtc.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include <nlohmann/json.hpp>

#include "core/fingerprint.hpp"
#include "core/records.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> include_folders(const std::string& root) {
  std::vector<std::string> folders = {(fs::path(root) / "include").string(), root};
  std::istringstream list(CAPSTONE_CUDA_INCLUDE_DIR);
  for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  return folders;
}

std::string first_lines(const std::string& text, int count) {
  std::size_t end = 0;
  while (count-- > 0 && end != std::string::npos) end = text.find('\n', end == 0 ? 0 : end + 1);
  return text.substr(0, end);
}

std::string stem_of(const compile_settings& settings, const std::string& kernel_type) {
  const auto name = sha256_hex(std::to_string(settings.cc) + kernel_type).substr(0, 16);
  return (fs::path(settings.scratch) / name).string();
}

image compile_for_gpu(const compile_settings& settings, const std::string& kernel_type) {
  image made;
  made.kernel_type = kernel_type;
  const std::string source =
      "#include \"" + settings.header + "\"\n#include <capstone/detail/launch.cuh>\n";
  const std::string name = "capstone::detail::entry<" + kernel_type + ">";
  auto flags = compile_flags(settings.cc);
  flags.push_back("-default-device");
  flags.push_back("--ptxas-options=-v");
  for (const auto& folder : include_folders(settings.root)) flags.push_back("-I" + folder);
  std::vector<const char*> options;
  for (const auto& flag : flags) options.push_back(flag.c_str());

  nvrtcProgram program{};
  nvrtcCreateProgram(&program, source.c_str(), "candidate.cu", 0, nullptr, nullptr);
  nvrtcAddNameExpression(program, name.c_str());
  const auto result =
      nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  std::size_t size = 0;
  nvrtcGetProgramLogSize(program, &size);
  std::string log(size, '\0');
  nvrtcGetProgramLog(program, log.data());
  log = log.c_str();  // without the NUL that NVRTC counts
  if (result != NVRTC_SUCCESS) {
    made.error = log.empty() ? nvrtcGetErrorString(result) : first_lines(log, 6);
  } else {
    read_ptxas_log(log, made);
    const char* lowered = nullptr;
    nvrtcGetLoweredName(program, name.c_str(), &lowered);
    made.entry = lowered == nullptr ? "" : lowered;
    nvrtcGetCUBINSize(program, &size);
    std::string cubin(size, '\0');
    nvrtcGetCUBIN(program, cubin.data());
    if (made.entry.empty() || size == 0) {
      made.error = "NVRTC gave no machine code for " + name;
    } else {
      made.file = stem_of(settings, kernel_type) + ".cubin";
      atomic_write(made.file, cubin);
    }
  }
  nvrtcDestroyProgram(&program);
  return made;
}

image compile_for_host(const compile_settings& settings, const std::string& kernel_type) {
  image made;
  made.kernel_type = kernel_type;
  const auto stem = stem_of(settings, kernel_type);
  std::ofstream(stem + ".cpp")
      << "#include \"" << settings.header << "\"\n#include <capstone/detail/launch.cuh>\n"
      << "using kernel = " << kernel_type << ";\n"
      << "extern \"C\" void capstone_run(const void* params, unsigned grid) {\n"
      << "  capstone::detail::run_on_host<kernel>("
         "*static_cast<const typename kernel::params*>(params), grid);\n}\n";
  std::vector<std::string> command = {CAPSTONE_CXX_COMPILER, "-shared", "-fPIC", "-x", "c++", stem + ".cpp", "-o", stem + ".so"};
  for (const auto& flag : compile_flags(0)) command.push_back(flag);
  for (const auto& folder : include_folders(settings.root)) command.push_back("-I" + folder);
  const int code = run_to_end({.arguments = command, .output = stem + ".log"}, std::chrono::steady_clock::now() + settings.timeout);
  made.timed_out = code < 0;
  if (code != 0) {
    std::ifstream log(stem + ".log");
    made.error = first_lines({std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()}, 6);
    if (made.error.empty()) made.error = std::string(CAPSTONE_CXX_COMPILER) + " ended with exit code " + std::to_string(code);
  }
  made.file = stem + ".so";
  return made;
}

// NVRTC holds a lock: 16 threads of one process compiled 17 kernels a second on a 16-core machine, one
// thread alone 7. So each thread of ours has a process, which can also be killed.
std::unique_ptr<subprocess> start_compiler(const compile_settings& settings) {
  if (settings.cc == 0 || settings.program.empty()) return nullptr;
  return std::make_unique<subprocess>(std::vector<std::string>{
      settings.program, "compiler", std::to_string(settings.cc), settings.root, settings.header, settings.scratch});
}

image compile_there(const compile_settings& settings, const std::string& kernel_type, std::unique_ptr<subprocess>& process,
                    bool again = false) {
  image made;
  made.kernel_type = kernel_type;
  try {
    if (!process) process = start_compiler(settings);
    const auto answer = nlohmann::json::parse(process->ask(kernel_type, std::chrono::steady_clock::now() + settings.timeout));
    answer.at("error").get_to(made.error), answer.at("entry").get_to(made.entry), answer.at("file").get_to(made.file);
    answer.at("registers").get_to(made.registers), answer.at("spill_bytes").get_to(made.spill_bytes);
    return made;
  } catch (const child_late&) {
    made.timed_out = true;
    made.error = "the compiler was stopped after " + std::to_string(settings.timeout.count() / 1000) + " s";
  } catch (const child_died& death) {
    made.error = std::string("the compiler process ") + death.what();
    if (death.was_killed() && !again) {  // not the kernel's fault, unless it is again
      process.reset();
      return compile_there(settings, kernel_type, process, true);
    }
  }
  process.reset();  // the next one gets a fresh process
  return made;
}

// Folders of runs that were killed: nobody holds their lock. A young one may not be locked yet.
void remove_left_behind(const std::string& below) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(below, ignored)) {
    const bool is_ours = entry.path().filename().string().starts_with("autotune-") && entry.is_directory(ignored);
    const auto age = fs::file_time_type::clock::now() - entry.last_write_time(ignored);
    if (!is_ours || age < std::chrono::minutes(1)) continue;
    const int folder = open(entry.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) continue;
    if (flock(folder, LOCK_EX | LOCK_NB) == 0) fs::remove_all(entry.path(), ignored);
    close(folder);
  }
}

compile_settings served;  // of this process, where it is a compiler

std::string answer_compilation(const std::string& kernel_type) {
  const image made = compile_for_gpu(served, kernel_type);
  return nlohmann::json{{"error", made.error}, {"entry", made.entry}, {"file", made.file},
                        {"registers", made.registers}, {"spill_bytes", made.spill_bytes}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

int serve_compiler(const std::vector<std::string>& arguments) {
  if (arguments.size() != 4) return 1;
  served = {arguments[1], arguments[2], std::stoi(arguments[0]), arguments[3]};
  return serve_lines(answer_compilation);
}

scratch_folder::scratch_folder(const std::string& below) {
  fs::create_directories(below);
  remove_left_behind(below);
  path_ = (fs::path(below) / "autotune-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error("no folder can be made below " + below + "; is it writable?");
  }
  lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ >= 0) flock(lock_, LOCK_SH | LOCK_NB);
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

std::vector<std::string> compile_flags(int cc) {
  if (cc == 0) return {"-std=c++20", "-O2", "-ffp-contract=off"};
  return {"-std=c++20", "-arch=sm_" + std::to_string(cc)};
}

void read_ptxas_log(const std::string& log, image& into) {
  static const std::regex registers("Used ([0-9]+) registers");
  static const std::regex spills("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads");
  std::smatch match;
  if (std::regex_search(log, match, registers)) into.registers = std::stoi(match[1]);
  if (std::regex_search(log, match, spills)) {
    into.spill_bytes = std::stoi(match[1]) + std::stoi(match[2]);
  }
}

image compile(const compile_settings& settings, const std::string& kernel_type) {
  return settings.cc == 0 ? compile_for_host(settings, kernel_type)
                          : compile_for_gpu(settings, kernel_type);
}

std::map<std::string, image> compile_all(const compile_settings& settings,
                                         const std::vector<std::string>& kernel_types, int jobs,
                                         deadline end, const std::function<void()>& done) {
  std::map<std::string, image> images;
  std::mutex guard;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    try {
      auto process = start_compiler(settings);
      const bool apart = process != nullptr;
      for (std::size_t i = next++; i < kernel_types.size(); i = next++) {
        if (std::chrono::steady_clock::now() > end || stop_requested()) return;
        auto made = apart ? compile_there(settings, kernel_types[i], process) : compile(settings, kernel_types[i]);
        const std::lock_guard lock(guard);
        images[kernel_types[i]] = std::move(made);
        done();
      }
    } catch (const stopped&) {  // what is compiled stays
    }
  };
  std::vector<std::jthread> pool;
  for (int i = 1; i < jobs; ++i) pool.emplace_back(work);
  work();
  pool.clear();  // joins
  return images;
}

}  // namespace capstone::tools
