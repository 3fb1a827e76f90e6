// The header of an artifact as plain data. The reader fills it from the file, the compiler fills it for the writer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tandem {

inline constexpr uint32_t kArtifactVersion = 1;
// Raised when the header gains something that older readers may ignore (docs/artifact-format.md).
inline constexpr uint32_t kHeaderRevision = 1;
// Segments start at multiples of this: whole pages even where pages are 16 KB (Android 15 and up).
inline constexpr uint64_t kSegmentAlignment = 16384;
// Parts inside a segment start at multiples of this: a cache line, and the widest vector register.
inline constexpr uint64_t kPartAlignment = 64;

struct Segment {
  std::string name;
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t hash = 0;

  bool operator==(const Segment&) const = default;
};

// Bytes of a segment.
struct Range {
  uint32_t segment = 0;
  uint64_t offset = 0;
  uint64_t size = 0;

  bool operator==(const Range&) const = default;
};

// The memory layout of a weight. Stored in artifacts: only append.
enum class WeightLayout : uint8_t {
  kPanel16 = 0,  // weight_layout/packed_matrix.h
  kRows = 1,     // weight_layout/row_table.h; int8 only
};
inline constexpr int kWeightLayoutCount = 2;
std::string_view weight_layout_name(WeightLayout layout);

struct WeightEntry {
  std::string name;
  WeightFormat format = WeightFormat::kF32;
  WeightLayout layout = WeightLayout::kPanel16;
  int block = 0;
  int64_t rows = 0;
  int64_t cols = 0;
  Range data;
  Range scales;
  Range multipliers;

  uint64_t bytes() const { return data.size + scales.size + multipliers.size; }

  bool operator==(const WeightEntry&) const = default;
};

struct VectorEntry {
  std::string name;
  int64_t length = 0;
  Range data;

  bool operator==(const VectorEntry&) const = default;
};

struct ModelInfo {
  std::string name;
  std::string family;
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_positions = 0;
  int64_t parameters = 0;

  bool operator==(const ModelInfo&) const = default;
};

struct TextInfo {
  bool has_tokenizer = false;
  Range tokenizer;
  std::string chat_template;
  std::string bos_token;
  std::string eos_token;
  std::string special_tokens;  // The others, as a JSON object; may be empty.
  std::string tool_template;   // For conversations with tools; empty: chat_template.
  int32_t bos_id = -1;         // -1: none.
  std::vector<int32_t> eos_ids;

  bool operator==(const TextInfo&) const = default;
};

struct GenerationDefaults {
  bool do_sample = false;
  float temperature = 1.0f;
  int32_t top_k = 0;  // 0: no limit.
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  int32_t max_new_tokens = 0;  // 0: until the context is full.

  bool operator==(const GenerationDefaults&) const = default;
};

struct Metric {
  std::string name;
  double value = 0.0;

  bool operator==(const Metric&) const = default;
};

// A graph of a vendor's binary: the part of a method that its shard computes. Its inputs and outputs are named after
// tensors of the method's graph.
struct ShardGraph {
  std::string name;
  std::string method;
  // Rows per call. The LM head's graph takes one row however many tokens the method takes: it runs once for each
  // requested row.
  int64_t tokens = 0;

  bool operator==(const ShardGraph&) const = default;
};

// A range of layers compiled into one binary of a vendor's library. The shards in order make up the methods.
struct Shard {
  std::string name;
  Range binary;
  uint64_t checksum = 0;
  std::vector<ShardGraph> graphs;

  bool operator==(const Shard&) const = default;
};

// What a vendor's binaries were compiled for, and by what.
struct DeviceInfo {
  uint32_t soc_model = 0;
  int32_t arch = 0;  // Hexagon architecture: 79.
  int32_t vtcm_mb = 0;
  bool weight_shared = false;
  std::string core_version;  // "2.40.0"
  std::string backend_version;
  std::string build_id;
  uint64_t spill_fill_bytes = 0;   // The largest that any graph needs.
  int32_t hvx_threads = 0;         // 0: the library's choice.
  int32_t optimization_level = 0;  // 0: not known.
  // Defaults of running it.
  bool signed_pd = false;
  std::string profile = {};  // "": none.

  bool operator==(const DeviceInfo&) const = default;
};

// What a file has for one target. The fields are those of ArtifactHeader.
struct ProgramHeader {
  std::string target;
  std::string backend;
  std::vector<WeightEntry> weights;
  std::vector<VectorEntry> vectors;
  std::vector<ir::Graph> methods;
  std::string recipe;
  std::vector<Metric> metrics;
  DeviceInfo device;
  std::vector<Shard> shards;
  std::string calibration;

  bool operator==(const ProgramHeader&) const = default;
};

// Of the file, and of one of its programs.
struct ArtifactHeader {
  std::string producer;  // "tandem 0.1.0"
  std::string target;    // "cpu"
  std::string backend;   // "cpu"
  ModelInfo model;
  std::vector<Segment> segments;
  std::vector<WeightEntry> weights;
  std::vector<VectorEntry> vectors;
  std::vector<ir::Graph> methods;
  TextInfo text;
  GenerationDefaults generation;
  std::string recipe;
  std::vector<Metric> metrics;
  uint64_t checkpoint = 0;  // Fingerprint of the checkpoint; 0: not known.
  DeviceInfo device;        // Of vendors' back ends.
  std::vector<Shard> shards;
  std::vector<ProgramHeader> more_programs;  // For other targets, in the order in which they are tried.
  // What data weights or encodings were chosen with, as JSON (docs/artifact-format.md); "": none.
  std::string calibration = {};

  bool operator==(const ArtifactHeader&) const = default;
};

// The program in the header's own fields, and the header with those of another program and no further programs.
ProgramHeader first_program(ArtifactHeader header);
ArtifactHeader with_program(ArtifactHeader header, ProgramHeader program);

// Of matrices and vectors; a vendor's binaries are not among them.
uint64_t stored_weight_bytes(const ArtifactHeader& header);

// Whether a program reads a segment, by its number: its weights, vectors and shards, and the tokenizer are there.
std::vector<bool> used_segments(const ArtifactHeader& header);

}  // namespace tandem
