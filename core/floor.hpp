// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The floor of a memory-bound kernel: the best plain streaming kernel that moves the same bytes,
/// with as many streams read and written, timed in the same session.
#pragma once

#include <string>
#include <vector>

#include "core/spec.hpp"
#include "core/timer.hpp"

namespace capstone::tools {

/// Streams of random bytes, `sets` times over, and kernels that read all of those read and write
/// their exclusive or to each of those written. On the host one arm, memcpy.
class streaming_floor {
 public:
  /// 1 to 3 streams read and 1 or 2 written; `traffic` with others gets the nearest of these.
  streaming_floor(const device& where, const traffic_model& traffic, int sets);

  /// Memory one set takes; for planning how many fit.
  static std::size_t bytes_needed(const traffic_model& traffic);

  /// Every variant, e.g. "u4 t256 persistent cs": 4 vectors of 16 bytes per stream and thread, 256
  /// threads, a grid that stays, streaming cache operations. The arms refer to this object.
  std::vector<arm> arms() const;

  /// Streams of equal size; one more byte than asked for where it does not divide.
  std::size_t read_size() const { return read_size_; }
  std::size_t written_size() const { return written_size_; }
  int read_streams() const { return reads_; }
  int written_streams() const { return writes_; }
  char* read_stream(int set, int index) const;
  char* written_stream(int set, int index) const;

 private:
  device where_;
  int reads_, writes_;
  std::size_t read_size_, written_size_;
  std::vector<memory> sets_;
};

/// The `keep` fastest of `arms` in a short race of `rounds`, fastest first.
std::vector<arm> fastest_arms(const device& where, const std::vector<arm>& arms,
                              timing_options options, int rounds, int keep);

}  // namespace capstone::tools
