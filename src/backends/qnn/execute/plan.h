// How a method runs: which graphs of which shards, in which order, with which buffers. Made from the method's graph and
// the binaries' own descriptions; wherever the two disagree, the file is refused, because the library would compute
// garbage and report success.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "artifact/header.h"
#include "backends/qnn/api/binary_info.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::qnn {

// A shard as the header and as its binary describe it.
struct ShardDescription {
  const Shard* shard = nullptr;
  const BinaryInfo* binary = nullptr;
};

// An input or output of a shard's graph.
struct Port {
  ir::TensorId tensor = -1;
  uint64_t bytes = 0;     // The graph's size of it: the whole tensor, or a row.
  bool in_arena = false;  // Otherwise in the caller's bindings.
  uint64_t offset = 0;    // In the arena.
  uint64_t stage = 0;     // Of a staged step: the row's offset in the arena.
};

struct Step {
  size_t shard = 0;
  size_t graph = 0;          // In the shard's binary.
  bool by_row = false;       // Runs once for each row that the caller wants, so not at all if it wants none.
  bool staged = false;       // By row, and the tensors have more than one.
  std::vector<Port> inputs;  // In the graph's order.
  std::vector<Port> outputs;
};

// Token rows looked up on the CPU, in the mapped file.
struct HostLookup {
  ir::TensorId tokens = -1;
  ir::TensorId table = -1;
  Port output;
};

// Logits that the CPU recomputes in place, for the rows that the caller reads.
struct HostRescore {
  ir::TensorId table = -1;
  ir::OpAttributes attributes;
  Port x;
  Port logits;
};

// Token ids that an op looks up, here or in a shard.
struct TokenLimit {
  ir::TensorId tokens = -1;
  int64_t rows = 0;  // Of the table.
};

// Rows of a rotary table that a shard looks up. They are copied to the arena, because padding has -1.
struct PositionInput {
  Port port;
  int64_t rows = 0;  // Of the table.
};

struct MethodPlan {
  const ir::Graph* graph = nullptr;
  std::vector<TokenLimit> token_limits;
  std::vector<HostLookup> lookups;
  std::vector<PositionInput> positions;
  std::vector<Step> steps;
  std::vector<HostRescore> rescores;  // After all steps.
  uint64_t arena_bytes = 0;
};

Result<MethodPlan> plan_method(const ir::Graph& graph, std::span<const ShardDescription> shards);

}  // namespace tandem::qnn
