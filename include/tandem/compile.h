// The compiler: a checkpoint's folder becomes one file, which an Engine (engine.h) runs. Link libtandem-compiler.so for
// it; it needs nothing from libtandem.so, and both may be in one process.
//
//   tandem::CompileModelOptions options;
//   options.recipe = "w4";
//   const auto file = tandem::compile_model("models/demo", "demo.tdm", options);
//   if (!file.ok()) std::puts(file.error().message.c_str());
//
// Fields mean the same as `tandem compile`'s flags, and errors name options by their field. No call throws. An
// exception from a callback ends the call with an error.
//
// For an NPU, each shard is compiled by the program tandem-qnn-worker in a process of its own: a crash inside the
// vendor's compiler costs only that shard. The library that runs files (libtandem) never starts a process.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "tandem/backend_options.h"
#include "tandem/export.h"
#include "tandem/log.h"
#include "tandem/status.h"

namespace tandem {

struct CompileProgress {
  std::string stage;  // "layers.3"
  uint64_t done = 0;  // In units that grow evenly with time.
  uint64_t total = 0;
};

// The data that activations are calibrated on, for NPUs and for `activations` "auto".
struct CalibrationSettings {
  std::filesystem::path file = {};              // A text, or JSON with conversations; empty: what the model writes.
  std::string task = {};                        // The file is a task's, as `tandem eval --task` reads it.
  std::string prompt = {};                      // Instead of a file.
  int64_t samples = 32;                         // At most; by default fewer of large models.
  int64_t length = 512;                         // Tokens of a sample.
  std::string range = {};                       // "minmax", "percentile" or "mse"; empty: minmax, and mse for u8 KV.
  std::filesystem::path import_encodings = {};  // Take encodings from this JSON instead of calibrating.
  std::filesystem::path export_encodings = {};  // Write them to this JSON.
  std::filesystem::path report = {};            // Write an HTML page about ranges and clipping.
};

struct CompileModelOptions {
  // What the file runs on; `tandem targets` lists them. Empty: the first of those, a CPU. Several, separated by commas
  // ("sm8750,cpu"), make a file with a program for each, of which an engine takes the first that works where it is.
  // There is one recipe for all of them; what it leaves to the target, such as how keys and values are kept, each
  // resolves for itself. An option that only some of the targets obey is for those.
  std::string target = {};
  // Tokens per call of the methods that compute prompts. Empty: 32, 128 and 512, on an NPU 32 and 128.
  std::vector<int64_t> prefill = {};
  bool decode_only = false;   // No such methods: prompts are computed token by token.
  int64_t context = 0;        // Positions of a conversation; 0: the model's own, up to 4096.
  std::string recipe = "w4";  // How weights are stored: fp32, fp16, bf16, w8, w4, or the path of a JSON file.
  std::string kv = {};        // How keys and values are kept: fp32, fp16, u8, u16; empty: the recipe's.
  std::string activations =
      {};                 // How a CPU rounds the input of quantized layers: int8, int16, auto; empty: the recipe's.
  std::string head = {};  // How the LM head is stored: fp32, fp16, bf16, int8, lpbq4; empty: the recipe's.
  int rescore = -1;       // NPUs: the CPU recomputes this many of the largest logits; -1: where the recipe says so.
  // How int4 and int8 weights are chosen: none (each by itself), fast (with calibration data, by what they do to the
  // layers' outputs), full (the same with more data and more rounds).
  std::string tune = "none";
  // Bits per weight of the layers' matrices on average, 4.125 to 8: the compiler chooses each one's format, by what it
  // loses on calibration data. 0: the recipe's formats.
  double bits = 0.0;
  CalibrationSettings calibration = {};
  BackendOptions backend = {};         // Of the target's back end, as `tandem compile --help` shows them, without "--".
  int threads = 0;                     // 0: one per core.
  std::string config = "config.json";  // Name of the configuration in the folder.
  bool force = false;  // Replace the output even if what is there under its name was not written by tandem.

  std::function<void(const CompileProgress& progress)> progress = {};
  // Polled often; true stops: the error is kCancelled, there is no file, and the same call later resumes the work.
  std::function<bool()> stop = {};
  LogCallback log = {};  // Receives the vendor's compiler's messages.
  LogLevel log_level = LogLevel::kWarning;
};

struct CompiledProgram {
  std::string target;
  uint64_t bytes = 0;         // What it uses of the file,
  uint64_t shared_bytes = 0;  // and what of that is stored for an earlier program.
  std::vector<std::string> methods;
};

// Sizes and methods are those of the first program, if there are several.
struct CompiledModel {
  uint64_t file_bytes = 0;
  uint64_t weight_bytes = 0;
  int64_t parameters = 0;
  int64_t context = 0;
  std::vector<std::string> methods;            // "decode", "prefill_32", …
  double weight_sqnr_db = 0.0;                 // Of all quantized weights together; infinity if nothing was lost.
  std::vector<std::string> warnings;           // Worth knowing about the file.
  std::vector<CompiledProgram> programs = {};  // Of a file for several targets.
};

// `checkpoint`: a folder in a model hub's or Meta's layout, a GGUF file, or llama2.c's .pt. `output` appears whole or
// not at all.
TANDEM_API Result<CompiledModel> compile_model(const std::filesystem::path& checkpoint,
                                               const std::filesystem::path& output,
                                               const CompileModelOptions& options = {});

// Like guard_file_mappings() of mapping_guard.h, for the files that the compiler maps: its library knows only its own
// mappings.
TANDEM_API Status guard_compiler_mappings();

}  // namespace tandem
