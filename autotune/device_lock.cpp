// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0
#include "autotune/device_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace capstone::tools {

device_lock::device_lock(const std::string& uuid, const std::string& folder) {
  const auto path = folder + "/capstone-" + uuid + ".lock";
  file_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  // Another user's file in a sticky folder may be refused for writing; reading is enough to lock it.
  if (file_ < 0) file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (file_ < 0) throw std::runtime_error(path + " cannot be opened: " + std::strerror(errno));
  if (flock(file_, LOCK_EX | LOCK_NB) != 0) {
    char owner[32] = {};
    const auto size = pread(file_, owner, sizeof owner - 1, 0);
    close(file_);
    file_ = -1;
    throw device_busy("GPU " + uuid + " is being tuned on by " +
                      (size > 0 ? "process " + std::string(owner) : "another process") + " (" + path +
                      " is locked); wait for it, or name another GPU with --devices");
  }
  fchmod(file_, 0666);  // whatever the umask: the next user locks it too
  const auto owner = std::to_string(getpid());
  if (ftruncate(file_, 0) != 0 || pwrite(file_, owner.data(), owner.size(), 0) < 0) {
    // The lock holds all the same; it only cannot say whose it is.
  }
}

device_lock::~device_lock() {
  if (file_ >= 0) close(file_);
}

}  // namespace capstone::tools
