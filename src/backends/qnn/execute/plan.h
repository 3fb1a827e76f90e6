// How a method runs: which graphs of which shards, in which order, and where each of their inputs and outputs is. Made
// from the method's graph and from what the binaries say of themselves; wherever the two do not agree, the file is
// refused, because the library would compute something with rc 0.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "artifact/header.h"
#include "backends/qnn/api/binary_info.h"
#include "ir/graph.h"
#include "tandem/status.h"

namespace tandem::qnn {

// A shard as the head and as its binary describe it.
struct ShardDescription {
  const Shard* shard = nullptr;
  const BinaryInfo* binary = nullptr;
};

// An input or output of a shard's graph.
struct Port {
  ir::TensorId tensor = -1;
  uint64_t bytes = 0;     // What the graph takes: all of the tensor, or a row of it.
  bool in_arena = false;  // Else where the caller's bindings say.
  uint64_t offset = 0;    // In the arena.
  uint64_t stage = 0;     // Of a staged step: where in the arena the row is that the graph takes.
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

// Logits that the CPU computes again, in place, for the rows that the caller wants.
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
  std::vector<HostRescore> rescores;  // Behind all steps.
  uint64_t arena_bytes = 0;
};

Result<MethodPlan> plan_method(const ir::Graph& graph, std::span<const ShardDescription> shards);

}  // namespace tandem::qnn
