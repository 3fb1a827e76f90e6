// The QNN back end's run time: an artifact's shards, loaded into Qualcomm's library, and what runs on the CPU between
// the caller and them.
//
// A method runs as: token rows looked up on the CPU where the graph says so; then each shard's graph for it, in the
// file's order, with the values between shards in memory of the execution context. The LM head's graph, which takes one
// row, runs for the rows that Bindings requests. Other outputs (k_new.L, v_new.L, traces) are always whole.
//
// States are only read. In fp16, a masked slot that holds NaN makes the whole row NaN: whoever owns the states clears
// them before the first call.
#pragma once

#include <memory>
#include <string>

#include "artifact/reader.h"
#include "backends/interface/program.h"
#include "backends/qnn/api/power.h"
#include "backends/qnn/execute/platform.h"
#include "base/log.h"
#include "base/thread_pool.h"
#include "tandem/backend_options.h"
#include "tandem/status.h"

namespace tandem::qnn {

struct QnnOptions {
  std::string libraries;  // A folder or file; "" to search (library_search.h).
  // The four below are for devices; the emulator has nothing to apply them to.
  PerformanceProfile profile = PerformanceProfile::kBurst;
  bool signed_pd = false;                      // Run in a signed process on the DSP.
  bool shared_buffers = true;                  // Memory that the DSP sees too, where the platform has it.
  uint32_t rpc_polling_us = kMaxRpcPollingUs;  // 0: off.
  Log log = {};                                // Of the program and of its contexts.
};

// From the back end's options by name (docs/targets.md), and from the file where an option is not given.
Result<QnnOptions> parse_qnn_options(const BackendOptions& options, const DeviceInfo& compiled = {});

// The artifact and the pool must outlive the program. Before a binary is passed to the library, its checksum, the
// library's version, the chip and the memory are checked (preflight.h), and its inputs and outputs are compared with
// the methods' graphs (plan.h).
Result<std::unique_ptr<Program>> load_program(const Artifact& artifact, ThreadPool& pool, const QnnOptions& options,
                                              const Platform& platform = Platform::here());

}  // namespace tandem::qnn
