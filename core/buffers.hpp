// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The buffers of one call: filled with reproducible random data, outputs poisoned, every byte that
/// the kernel must not write checked afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device.hpp"

namespace capstone::tools {

/// One set of buffers for a problem, in one allocation, a guard band of 256 bytes or more on both
/// sides of each. Inputs come from a counter-based generator of (seed, buffer, row, col), so that
/// what they must still hold after a run is recomputed, not remembered.
class buffer_set {
 public:
  buffer_set(const device& where, std::vector<buffer_desc> descs, std::uint64_t seed);

  /// Bytes one set takes; for planning how many fit.
  static std::size_t bytes_needed(const std::vector<buffer_desc>& descs);

  const pointers& data() const { return pointers_; }
  const std::vector<buffer_desc>& descs() const { return descs_; }

  /// Refills inputs (also those an output aliases) and poisons every output's payload with NaN
  /// bytes (0xFF), guards and row padding with their pattern.
  void reset();

  /// Only the outputs: poison again. Outputs that alias an input get the input's data back.
  void poison_outputs();

  /// "" if guards, row padding and pure inputs are as `reset` left them, else a sentence naming the
  /// buffer, row and byte that changed.
  std::string find_damage() const;

  /// "" unless an output element still holds the poison (all bytes 0xFF), else a sentence.
  std::string find_unwritten() const;

  /// A hash of every bit of the outputs, so that two runs are compared without a download.
  std::uint64_t output_hash() const;

  /// Copies the payload of buffer `index` to the host, rows packed (no padding).
  std::vector<std::byte> download(int index) const;

 private:
  device device_;
  std::vector<buffer_desc> descs_;
  std::uint64_t seed_;
  memory memory_;
  pointers pointers_;
  std::vector<std::size_t> begin_;  ///< byte offset of each buffer's region in memory_
};

}  // namespace capstone::tools
