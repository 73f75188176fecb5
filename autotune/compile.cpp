// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/compile.hpp"

#include <fcntl.h>
#include <nvrtc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <mutex>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "core/fingerprint.hpp"

namespace capstone::tools {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> include_folders(const std::string& root) {
  std::vector<std::string> folders = {(fs::path(root) / "include").string(), root};
  std::istringstream list(CAPSTONE_CUDA_INCLUDE_DIR);
  for (std::string folder; std::getline(list, folder, ':');) folders.push_back(folder);
  return folders;
}

std::string quoted(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string first_lines(const std::string& text, int count) {
  std::size_t end = 0;
  while (count-- > 0 && end != std::string::npos) end = text.find('\n', end == 0 ? 0 : end + 1);
  return text.substr(0, end);
}

image compile_for_gpu(const compile_settings& settings, const std::string& kernel_type, std::string& log) {
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
  log.resize(size);
  nvrtcGetProgramLog(program, log.data());
  if (result != NVRTC_SUCCESS) {
    made.error = log.empty() ? nvrtcGetErrorString(result) : first_lines(log, 6);
  } else {
    read_ptxas_log(log, made);
    const char* lowered = nullptr;
    nvrtcGetLoweredName(program, name.c_str(), &lowered);
    made.entry = lowered == nullptr ? "" : lowered;
    nvrtcGetCUBINSize(program, &size);
    made.cubin.resize(size);
    nvrtcGetCUBIN(program, made.cubin.data());
    if (made.entry.empty() || size == 0) made.error = "NVRTC gave no machine code for " + name;
  }
  nvrtcDestroyProgram(&program);
  return made;
}

image compile_for_host(const compile_settings& settings, const std::string& kernel_type) {
  image made;
  made.kernel_type = kernel_type;
  const auto stem = (fs::path(settings.scratch) / sha256_hex(kernel_type).substr(0, 16)).string();
  std::ofstream(stem + ".cpp")
      << "#include \"" << settings.header << "\"\n#include <capstone/detail/launch.cuh>\n"
      << "using kernel = " << kernel_type << ";\n"
      << "extern \"C\" void capstone_run(const void* params, unsigned grid) {\n"
      << "  capstone::detail::run_on_host<kernel>("
         "*static_cast<const typename kernel::params*>(params), grid);\n}\n";
  std::string command = quoted(CAPSTONE_CXX_COMPILER) +
                        " -std=c++20 -O2 -shared -fPIC -ffp-contract=off -x c++ " +
                        quoted(stem + ".cpp") + " -o " + quoted(stem + ".so");
  for (const auto& folder : include_folders(settings.root)) command += " -I" + quoted(folder);
  const int code = std::system((command + " >" + quoted(stem + ".log") + " 2>&1").c_str());
  if (code != 0) {
    std::ifstream log(stem + ".log");
    made.error = first_lines(
        {std::istreambuf_iterator<char>(log), std::istreambuf_iterator<char>()}, 6);
    if (made.error.empty()) made.error = "the C++ compiler failed: " + command;
  }
  made.library = stem + ".so";
  return made;
}

/// A process that compiles for one thread of ours. NVRTC holds a lock: 16 threads of one process
/// compiled 17 kernels a second on a 16-core machine, one thread alone 7.
class compiler_process {
 public:
  explicit compiler_process(const compile_settings& settings) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) return;
    std::string words[] = {settings.program, "compiler", std::to_string(settings.cc), settings.root, settings.header};
    char* arguments[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), words[4].data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    if (posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, arguments, environ) != 0) pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]), close(from[1]);
    requests_ = fdopen(to[1], "w");
    answers_ = fdopen(from[0], "r");
  }
  ~compiler_process() {
    if (requests_ != nullptr) fclose(requests_);  // the end of its input ends it
    if (answers_ != nullptr) fclose(answers_);
    if (pid_ > 0) waitpid(pid_, nullptr, 0);
  }
  compiler_process(const compiler_process&) = delete;
  compiler_process& operator=(const compiler_process&) = delete;

  image compile(const std::string& kernel_type) {
    image made;
    made.kernel_type = kernel_type;
    std::string log, machine_code;
    if (pid_ <= 0 || std::fprintf(requests_, "%s\n", kernel_type.c_str()) < 0 || std::fflush(requests_) != 0 ||
        !read_text(made.error) || !read_text(made.entry) || !read_text(log) || !read_text(machine_code)) {
      made.error = "the compiler process died";
      return made;
    }
    read_ptxas_log(log, made);
    made.cubin.assign(machine_code.begin(), machine_code.end());
    return made;
  }

 private:
  bool read_text(std::string& text) {
    std::size_t size = 0;
    if (std::fread(&size, sizeof size, 1, answers_) != 1) return false;
    text.resize(size);
    return std::fread(text.data(), 1, size, answers_) == size;
  }

  pid_t pid_ = -1;
  FILE *requests_ = nullptr, *answers_ = nullptr;
};

}  // namespace

int serve_compiler(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3) return 1;
  const compile_settings settings{arguments[1], arguments[2], std::stoi(arguments[0]), "", ""};
  for (std::string kernel_type; std::getline(std::cin, kernel_type);) {
    std::string log;
    const image made = compile_for_gpu(settings, kernel_type, log);
    for (const std::string_view text : {std::string_view(made.error), std::string_view(made.entry), std::string_view(log),
                                        std::string_view(made.cubin.data(), made.cubin.size())}) {
      const std::size_t size = text.size();
      std::fwrite(&size, sizeof size, 1, stdout);
      std::fwrite(text.data(), 1, size, stdout);
    }
    if (std::fflush(stdout) != 0) return 1;
  }
  return 0;
}

scratch_folder::scratch_folder(const std::string& below) {
  fs::create_directories(below);
  path_ = (fs::path(below) / "autotune-XXXXXX").string();
  if (mkdtemp(path_.data()) == nullptr) {
    throw std::runtime_error("no folder can be made below " + below + "; is it writable?");
  }
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
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
  std::string log;
  return settings.cc == 0 ? compile_for_host(settings, kernel_type)
                          : compile_for_gpu(settings, kernel_type, log);
}

std::map<std::string, image> compile_all(const compile_settings& settings,
                                         const std::vector<std::string>& kernel_types, int jobs,
                                         deadline end, const std::function<void()>& done) {
  std::map<std::string, image> images;
  std::mutex guard;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    std::unique_ptr<compiler_process> process;
    if (settings.cc != 0 && !settings.program.empty()) process = std::make_unique<compiler_process>(settings);
    for (std::size_t i = next++; i < kernel_types.size(); i = next++) {
      if (std::chrono::steady_clock::now() > end) return;
      auto made = process ? process->compile(kernel_types[i]) : compile(settings, kernel_types[i]);
      const std::lock_guard lock(guard);
      images[kernel_types[i]] = std::move(made);
      done();
    }
  };
  std::vector<std::jthread> pool;
  for (int i = 1; i < jobs; ++i) pool.emplace_back(work);
  work();
  pool.clear();  // joins
  return images;
}

}  // namespace capstone::tools
