// SPDX-FileCopyrightText: The capstone authors
// SPDX-License-Identifier: Apache-2.0

/// \file
/// The process in which candidates run. Only it has a CUDA context, and it can be killed: a sticky
/// error ends it, an endless kernel is ended with it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

#include "core/device.hpp"
#include "core/spec.hpp"

namespace capstone::tools {

/// `PROGRAM worker DEVICE SEED TIMES PLUGIN...` ends here; TIMES is "measured" or "simulated". It
/// answers requests, objects with `do`, until its parent is gone:
///   hello                             -> device {id, name, uuid, driver, cc, sms, l2_bytes}, peak_gbps,
///                                        others (processes), free_bytes
///   canary                            -> state, why: copies a buffer and compares
///   open {kernel, dtype, shape, images: [{type, file, entry, error}]}: what the next requests are about
///   gate {config}                     -> state, why
///   open_shape {shape}                -> state, why: allocates buffers
///   time {arms: [config or null], rounds, sample_us, warm_up_ms} -> us: [[..]], timer; null: the default
///   check {config}                    -> state, why: at the open shape, on its buffers
/// Whatever fails comes back as {state, why}; after a crash nothing else is answered.
int serve_worker(const std::vector<std::string>& arguments);

nlohmann::json to_json(const device& of);
device device_from(const nlohmann::json& text);

}  // namespace capstone::tools
