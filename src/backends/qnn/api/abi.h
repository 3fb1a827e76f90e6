// Our own declarations of the part of QNN's binary interface that we call: numbers, tensors, encodings and ops. Configs
// and devices are in abi_config.h, function tables in abi_tables.h, descriptions of binaries in abi_system.h.
//
// The layouts are those of core API 2.27 (HTP back end 5.36, system 1.4) and were measured on 2.36 to 2.40 (5.47
// to 5.51, 1.11 to 1.15); library.h refuses what is older or has another major version. What differs between versions
// is in version_rules.h. Each struct is checked against the measured size and offsets below it. LP64 only. Objects are
// zero-filled ("Tensor tensor = {};") before fields are set; so that this reaches all of a union, its largest member is
// first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::qnn::abi {

static_assert(sizeof(void*) == 8, "the QNN interface is declared for 64-bit systems");

// 0 is success. The low 16 bits are the code (errors.h), the rest is the library's own.
using ErrorHandle = uint64_t;
inline constexpr ErrorHandle kSuccess = 0;
inline constexpr uint64_t kErrorCodeMask = 0xffff;

// Handles are opaque; HTP gives small integers. Null means none.
using Handle = void*;

struct Version {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
};
static_assert(sizeof(Version) == 12);

// The kind is in the higher byte, the number of bits, written in decimal digits, in the lower.
enum class DataType : uint32_t {
  kInt8 = 0x0008,
  kInt16 = 0x0016,
  kInt32 = 0x0032,
  kInt64 = 0x0064,
  kUint8 = 0x0108,
  kUint16 = 0x0116,
  kUint32 = 0x0132,
  kUint64 = 0x0164,
  kFloat16 = 0x0216,
  kFloat32 = 0x0232,
  kFixedS8 = 0x0308,
  kFixedS16 = 0x0316,
  kFixedS32 = 0x0332,
  kFixedU8 = 0x0408,
  kFixedU16 = 0x0416,
  kFixedU32 = 0x0432,
  kBool8 = 0x0508,
};

enum class TensorKind : uint32_t {
  kAppWrite = 0,  // An input of the graph.
  kAppRead = 1,   // An output of the graph.
  kNative = 3,    // Between two ops.
  kStatic = 4,    // A constant.
  kNull = 5,      // An absent optional operand.
};

enum class MemoryKind : uint32_t {
  kRaw = 0,     // A pointer of ours.
  kHandle = 1,  // Registered with the context; devices only.
};

enum class Definition : uint32_t { kDefined = 1, kUndefined = 0x7fffffff };

enum class QuantizationKind : uint32_t {
  kScaleOffset = 0,
  kAxisScaleOffset = 1,
  kBlockwiseExpansion = 5,
  kUndefined = 0x7fffffff,
};

// value = scale * (q + offset): the offset is the negated zero point.
struct ScaleOffset {
  float scale;
  int32_t offset;
};
static_assert(sizeof(ScaleOffset) == 8);
static_assert(offsetof(ScaleOffset, offset) == 4);

// One ScaleOffset for each index of `axis`.
struct AxisScaleOffset {
  int32_t axis;
  uint32_t count;
  const ScaleOffset* entries;
};
static_assert(sizeof(AxisScaleOffset) == 16);
static_assert(offsetof(AxisScaleOffset, count) == 4);
static_assert(offsetof(AxisScaleOffset, entries) == 8);

// The largest member of the union below; it is here for its size.
struct BwAxisScaleOffset {
  uint32_t bits;
  int32_t axis;
  uint32_t count;
  const float* scales;
  const int32_t* offsets;
};
static_assert(sizeof(BwAxisScaleOffset) == 32);
static_assert(offsetof(BwAxisScaleOffset, axis) == 4);
static_assert(offsetof(BwAxisScaleOffset, count) == 8);
static_assert(offsetof(BwAxisScaleOffset, scales) == 16);
static_assert(offsetof(BwAxisScaleOffset, offsets) == 24);

// LPBQ: value = q * channels[c].scale * block_scales[c * blocks_per_channel + b].
struct BlockwiseExpansion {
  int32_t axis;  // Of the output channels.
  const ScaleOffset* channels;
  uint32_t blocks_per_channel;
  uint32_t block_scale_bits;
  uint32_t block_scale_storage;  // 0: a byte each.
  const uint8_t* block_scales;
};
static_assert(sizeof(BlockwiseExpansion) == 40);
static_assert(offsetof(BlockwiseExpansion, channels) == 8);
static_assert(offsetof(BlockwiseExpansion, blocks_per_channel) == 16);
static_assert(offsetof(BlockwiseExpansion, block_scale_bits) == 20);
static_assert(offsetof(BlockwiseExpansion, block_scale_storage) == 24);
static_assert(offsetof(BlockwiseExpansion, block_scales) == 32);

struct QuantizeParams {
  Definition definition;
  QuantizationKind kind;
  union {
    BwAxisScaleOffset bw_axis_scale_offset;
    ScaleOffset scale_offset;
    AxisScaleOffset axis_scale_offset;
    const BlockwiseExpansion* blockwise_expansion;
  };
};
static_assert(sizeof(QuantizeParams) == 40);
static_assert(offsetof(QuantizeParams, kind) == 4);
static_assert(offsetof(QuantizeParams, scale_offset) == 8);
static_assert(offsetof(QuantizeParams, axis_scale_offset) == 8);
static_assert(offsetof(QuantizeParams, blockwise_expansion) == 8);

struct ClientBuffer {
  void* data;
  uint32_t size;  // 32 bits: a tensor is smaller than 4 GiB.
};
static_assert(sizeof(ClientBuffer) == 16);
static_assert(offsetof(ClientBuffer, size) == 8);

struct SparseParams {
  uint32_t layout;
  uint32_t specified_elements;
  uint32_t sparse_dimensions;
};
static_assert(sizeof(SparseParams) == 12);

// Version 2. Version 1 is the same up to `dynamic_dimensions` and ends there.
struct TensorBody {
  uint32_t id;
  const char* name;
  TensorKind kind;
  uint32_t format;  // 0: dense.
  DataType dtype;
  QuantizeParams quantize;
  uint32_t rank;
  const uint32_t* dimensions;
  MemoryKind memory;
  union {
    ClientBuffer buffer;
    Handle memory_handle;
  };
  const uint8_t* dynamic_dimensions;
  SparseParams sparse;
  uint8_t produced;
};
static_assert(sizeof(TensorBody) == 136);
static_assert(offsetof(TensorBody, name) == 8);
static_assert(offsetof(TensorBody, kind) == 16);
static_assert(offsetof(TensorBody, format) == 20);
static_assert(offsetof(TensorBody, dtype) == 24);
static_assert(offsetof(TensorBody, quantize) == 32);
static_assert(offsetof(TensorBody, rank) == 72);
static_assert(offsetof(TensorBody, dimensions) == 80);
static_assert(offsetof(TensorBody, memory) == 88);
static_assert(offsetof(TensorBody, buffer) == 96);
static_assert(offsetof(TensorBody, memory_handle) == 96);
static_assert(offsetof(TensorBody, dynamic_dimensions) == 112);
static_assert(offsetof(TensorBody, sparse) == 120);
static_assert(offsetof(TensorBody, produced) == 132);

inline constexpr uint32_t kTensorVersion1 = 1;
inline constexpr uint32_t kTensorVersion2 = 2;

struct Tensor {
  uint32_t version;
  TensorBody body;
};
static_assert(sizeof(Tensor) == 144);
static_assert(offsetof(Tensor, body) == 8);

struct Scalar {
  DataType dtype;
  union {
    uint64_t u64;
    float f32;
    double f64;
    int64_t i64;
    uint32_t u32;
    int32_t i32;
    uint8_t bool8;
    const char* string;
  };
};
static_assert(sizeof(Scalar) == 16);
static_assert(offsetof(Scalar, f32) == 8);
static_assert(offsetof(Scalar, u32) == 8);
static_assert(offsetof(Scalar, bool8) == 8);

enum class ParamKind : uint32_t { kScalar = 0, kTensor = 1 };

struct Param {
  ParamKind kind;
  const char* name;
  union {
    Tensor tensor;  // Static, and created in the graph before.
    Scalar scalar;
  };
};
static_assert(sizeof(Param) == 160);
static_assert(offsetof(Param, name) == 8);
static_assert(offsetof(Param, scalar) == 16);
static_assert(offsetof(Param, tensor) == 16);

struct OpBody {
  const char* name;
  const char* package;
  const char* type;
  uint32_t param_count;
  Param* params;
  uint32_t input_count;
  Tensor* inputs;
  uint32_t output_count;
  Tensor* outputs;
};
static_assert(sizeof(OpBody) == 72);
static_assert(offsetof(OpBody, package) == 8);
static_assert(offsetof(OpBody, type) == 16);
static_assert(offsetof(OpBody, param_count) == 24);
static_assert(offsetof(OpBody, params) == 32);
static_assert(offsetof(OpBody, input_count) == 40);
static_assert(offsetof(OpBody, inputs) == 48);
static_assert(offsetof(OpBody, output_count) == 56);
static_assert(offsetof(OpBody, outputs) == 64);

// Passed by value.
struct OpConfig {
  uint32_t version;  // 1
  OpBody body;
};
static_assert(sizeof(OpConfig) == 80);
static_assert(offsetof(OpConfig, body) == 8);

inline constexpr const char* kOpPackage = "qti.aisw";

}  // namespace tandem::qnn::abi
