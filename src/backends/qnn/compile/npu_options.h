// The options of compiles for an NPU.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "backends/interface/options.h"
#include "backends/qnn/compile/chip_file.h"
#include "compiler/passes/attention_form.h"
#include "tandem/status.h"

namespace tandem {

struct NpuOptions {
  bool emulator = false;      // For the vendor's x86 library, which loads no shared weights.
  bool share_weights = true;  // False: each method has its own copy.
  // For decode and for prefill methods; without a value: the fastest by the vendor's estimates.
  std::optional<AttentionForm> decode_attention = {};
  std::optional<AttentionForm> prefill_attention = {};
  bool estimate = false;                     // The vendor's compiler simulates the methods (CompileReport::estimates).
  std::filesystem::path estimate_json = {};  // Where that is written to.
  bool tune_graphs = false;                  // Compile variants of a layer and use the fastest.
  std::filesystem::path tune_cache = {};     // Where tuning keeps its results; empty: the user's cache folder.
  bool trace = false;                        // Hidden states after each layer become outputs, for measurements.
  std::optional<ChipFile> chip = {};         // Of the user's, instead of the target's.
  int vtcm_mb = 0;                           // 0: the chip's.
  int hvx_threads = 0;                       // 0: the library's choice.
  int optimization_level = 3;                // 2 or 3.
  bool signed_pd = false;                    // A default of running the file.
  std::string profile = {};                  // The same; "" for none.
  int shards = 0;                            // 0: as many as the sizes require.
  int jobs = 0;                              // Shards that are compiled at a time; 0: as cores and memory allow.
  uint64_t memory = 0;         // Bytes that all of it may take; 0: kDefaultNpuMemory, or less where there is less.
  std::string libraries = {};  // Where Qualcomm's libraries are; "" searches.
  std::filesystem::path worker = {};  // tandem-qnn-worker; empty: beside this program.
};
inline constexpr uint64_t kDefaultNpuMemory = uint64_t{7} << 30;

std::span<const OptionSpec> npu_option_specs();
// The chip to compile for: a row of the table, or the user's; with the VTCM that was asked for. It must not outlive
// either.
Result<NpuTarget> chosen_target(const Target& row, const NpuOptions& options);
// From the back end's options by name. Unknown, invalid and incompatible ones are refused.
Result<NpuOptions> parse_npu_options(const BackendOptions& options);

}  // namespace tandem
