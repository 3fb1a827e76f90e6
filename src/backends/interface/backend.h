// A back end's run time, which loads files that were compiled for it. The engine, the evaluation and the command line
// know back ends only through this interface and the registry (backends/registry/registry.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "backends/interface/options.h"
#include "backends/interface/program.h"
#include "tandem/probe.h"
#include "tandem/status.h"
#include "weights/weight_provider.h"

namespace tandem {

class Artifact;
class Log;
class ThreadPool;
struct DeviceInfo;

// What runs the methods on this machine, as `tandem bench` reports it.
struct Processor {
  std::string kernels;  // "avx512vnni"
  // Multiplies and adds int8 numbers in registers on the calling thread for this many rounds, and returns the number of
  // operations. Null: the back end has no such peak to measure.
  int64_t (*multiply_int8)(int64_t rounds) = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;
  // As in the header of files.
  virtual std::string_view name() const = 0;
  virtual std::span<const OptionSpec> options() const { return {}; }
  // The artifact and the pool must outlive the program. `options` come from the app: unknown or invalid ones are
  // refused. Warnings and notes that are not errors go to `log`.
  virtual Result<std::unique_ptr<Program>> load(const Artifact& artifact, ThreadPool& pool,
                                                const BackendOptions& options, const Log& log) const = 0;
  // Whether this machine can run the artifact's program or, with null, any of this back end's. Reads no weights and
  // makes no session. What is in the way is part of the answer; an error is about the file or the options. `backend`
  // and `target` are set by the caller.
  virtual Result<BackendProbe> probe(const Artifact* artifact, const BackendOptions& options, const Log& log) const = 0;
  virtual Result<Processor> processor() const = 0;
  // The weights of a file as floats, for the reference interpreter. Null: they are inside a device's binaries. The
  // artifact must outlive the provider.
  virtual std::unique_ptr<WeightProvider> weights(const Artifact&) const { return nullptr; }
  // What a file's binaries were compiled for, in words; "" where a file has none.
  virtual std::string describe_device(const DeviceInfo&) const { return {}; }
};

}  // namespace tandem
