// The contents of a context binary as libQnnSystem.so reports them: target, versions, graphs, their inputs and outputs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/qnn/api/library.h"
#include "backends/qnn/api/tensor_info.h"
#include "tandem/status.h"

namespace tandem::qnn {

struct GraphInfo {
  std::string name;
  std::vector<TensorInfo> inputs;
  std::vector<TensorInfo> outputs;
  uint64_t spill_fill_bytes = 0;
  uint64_t vtcm_bytes = 0;
  uint32_t optimization_level = 0;
  uint64_t hvx_threads = 0;
};

struct BinaryInfo {
  std::string build_id;  // Of the library that compiled it.
  abi::Version core_version = {};
  abi::Version htp_version = {};
  abi::Version blob_version = {};
  uint32_t soc_model = 0;
  int arch = 0;
  std::vector<GraphInfo> graphs;

  // Null if there is none of that name.
  const GraphInfo* find_graph(std::string_view name) const;
  // The largest of any graph: what a group of contexts must reserve.
  uint64_t spill_fill_bytes() const;
};

// Does not check the bytes beyond what the library does: compare the checksum first.
Result<BinaryInfo> read_binary_info(const Library& library, std::span<const uint8_t> binary);

}  // namespace tandem::qnn
