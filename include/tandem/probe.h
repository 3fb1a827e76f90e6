// Can a file run on this machine, and if not, why? An answer before anything is loaded.
//
//   const auto report = tandem::probe("demo.tdm");
//   if (!report.ok()) std::puts(report.error().message.c_str());  // No file, or a broken one.
//   else if (!report->usable) std::puts(report->backends[0].reason.c_str());
//
// The weights are not read, no session is made and no process is started. For an NPU, the vendor's library is loaded
// and stays loaded, as it does after Engine::load(), and on a device a connection to the NPU is opened and closed.
// Where only loading the model could tell (a chip that runs out of its own memory), a file that probe() calls usable
// may still fail to load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "tandem/engine.h"
#include "tandem/export.h"
#include "tandem/status.h"

namespace tandem {

// Whether one of a file's programs can run here or, without a file, whether a back end of this build can run any.
// Numbers are in bytes; 0 and "" mean that it is not known, or that there is no such thing.
struct BackendProbe {
  std::string backend = {};  // "cpu", "qnn", …
  std::string target = {};   // What the program was compiled for; "" without a file.
  bool usable = false;
  std::string reason = {};                 // Why not.
  std::string remedy = {};                 // What to do about it.
  std::vector<std::string> warnings = {};  // It runs, but slower than it could, or differently.
  std::string device = {};                 // The kernels that a CPU would use, or the NPU.
  std::string library = {};                // The vendor's library.
  std::string library_version = {};
  std::string library_version_needed = {};  // By the file, at least.
  uint64_t memory_needed_bytes = 0;         // Weights and a session: KV cache, inputs, outputs, activations.
  uint64_t session_bytes = 0;               // A session's part of that; each further session needs as much again.
  uint64_t memory_free_bytes = 0;           // What the system could still give to programs.
  uint64_t context_bytes = 0;               // The largest single context of an NPU's file,
  uint64_t context_limit_bytes = 0;         // and what the NPU can address in one.
};

struct ProbeReport {
  std::filesystem::path file = {};          // "" without one.
  std::vector<BackendProbe> backends = {};  // In the file's order, which is that in which an engine tries them.
  bool usable = false;                      // Whether one of them is.

  // An object with the fields above, under the same names.
  TANDEM_API std::string to_json() const;
};

// Without a file: every back end of this build. `options` are those that Engine::load() would get. A file that is
// absent, broken or newer than this library is the error of the Result, and so are options that Engine::load() would
// refuse.
TANDEM_API Result<ProbeReport> probe(const std::filesystem::path& file = {}, const EngineOptions& options = {});
// The same for a model that is a part of a file.
TANDEM_API Result<ProbeReport> probe(const FileRegion& region, const EngineOptions& options = {});

}  // namespace tandem
