// Our own declarations of what libQnnSystem.so says about a context binary. See abi.h for where the numbers come from.
#pragma once

#include "backends/qnn/api/abi_config.h"

namespace tandem::qnn::abi {

struct GraphInfoBody {
  const char* name;
  uint32_t input_count;
  Tensor* inputs;
  uint32_t output_count;
  Tensor* outputs;
  // From version 2 on.
  uint32_t updateable_count;
  Tensor* updateables;
  // From version 3 on.
  uint32_t blob_info_size;
  void* blob_info;
  uint32_t first_op;
  uint32_t last_op;
};
static_assert(sizeof(GraphInfoBody) == 80);
static_assert(offsetof(GraphInfoBody, input_count) == 8);
static_assert(offsetof(GraphInfoBody, inputs) == 16);
static_assert(offsetof(GraphInfoBody, output_count) == 24);
static_assert(offsetof(GraphInfoBody, outputs) == 32);
static_assert(offsetof(GraphInfoBody, updateable_count) == 40);
static_assert(offsetof(GraphInfoBody, updateables) == 48);
static_assert(offsetof(GraphInfoBody, blob_info_size) == 56);
static_assert(offsetof(GraphInfoBody, blob_info) == 64);
static_assert(offsetof(GraphInfoBody, first_op) == 72);
static_assert(offsetof(GraphInfoBody, last_op) == 76);

struct GraphInfo {
  uint32_t version;  // 1 to 3
  GraphInfoBody body;
};
static_assert(sizeof(GraphInfo) == 88);
static_assert(offsetof(GraphInfo, body) == 8);

// HTP's part of a graph; the library gives more bytes than these, and these are what we know.
struct HtpGraphBlobInfo {
  uint32_t version;  // 1
  uint64_t spill_fill_bytes;
  uint32_t vtcm_bytes;
  uint32_t optimization_level;
  uint8_t dlbc;
  uint64_t hvx_threads;
};
static_assert(sizeof(HtpGraphBlobInfo) == 40);
static_assert(offsetof(HtpGraphBlobInfo, spill_fill_bytes) == 8);
static_assert(offsetof(HtpGraphBlobInfo, vtcm_bytes) == 16);
static_assert(offsetof(HtpGraphBlobInfo, optimization_level) == 20);
static_assert(offsetof(HtpGraphBlobInfo, dlbc) == 24);
static_assert(offsetof(HtpGraphBlobInfo, hvx_threads) == 32);

// HTP's part of a context.
struct HtpContextBlobInfo {
  uint32_t version;  // 1
  uint32_t arch;
};
static_assert(sizeof(HtpContextBlobInfo) == 8);
static_assert(offsetof(HtpContextBlobInfo, arch) == 4);

// Version 3, which the library we were written for gives. Versions 1 and 2 put the same things elsewhere; binaries that
// old are refused (binary_info.cpp).
struct BinaryInfoBody {
  uint32_t backend_id;
  const char* build_id;
  Version core_version;
  Version backend_version;
  const char* soc_version;
  Version blob_version;
  uint64_t blob_size;
  uint32_t context_tensor_count;
  Tensor* context_tensors;
  uint32_t graph_count;
  GraphInfo* graphs;
  PlatformInfo* platform;
  uint32_t metadata_size;
  HtpContextBlobInfo* metadata;
  uint32_t soc_model;
};
static_assert(sizeof(BinaryInfoBody) == 136);
static_assert(offsetof(BinaryInfoBody, build_id) == 8);
static_assert(offsetof(BinaryInfoBody, core_version) == 16);
static_assert(offsetof(BinaryInfoBody, backend_version) == 28);
static_assert(offsetof(BinaryInfoBody, soc_version) == 40);
static_assert(offsetof(BinaryInfoBody, blob_version) == 48);
static_assert(offsetof(BinaryInfoBody, blob_size) == 64);
static_assert(offsetof(BinaryInfoBody, context_tensor_count) == 72);
static_assert(offsetof(BinaryInfoBody, context_tensors) == 80);
static_assert(offsetof(BinaryInfoBody, graph_count) == 88);
static_assert(offsetof(BinaryInfoBody, graphs) == 96);
static_assert(offsetof(BinaryInfoBody, platform) == 104);
static_assert(offsetof(BinaryInfoBody, metadata_size) == 112);
static_assert(offsetof(BinaryInfoBody, metadata) == 120);
static_assert(offsetof(BinaryInfoBody, soc_model) == 128);

struct BinaryInfo {
  uint32_t version;  // 3
  BinaryInfoBody body;
};
static_assert(sizeof(BinaryInfo) == 144);
static_assert(offsetof(BinaryInfo, body) == 8);

}  // namespace tandem::qnn::abi
