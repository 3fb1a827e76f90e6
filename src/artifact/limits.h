// Limits on the contents of a file. The reader refuses what exceeds them, so the writer refuses it first.
//
// A header can name one long string, or one list, from many tables: small in the file, huge once copied. These limits,
// and the verifier's on tables, keep what is copied in proportion to the header's size. No real model comes near them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem {

inline constexpr uint64_t kMaxHeaderBytes = uint64_t{1} << 28;
inline constexpr size_t kMaxNameBytes = 512;
inline constexpr size_t kMaxSegments = 1u << 16;
inline constexpr size_t kMaxWeights = 1u << 16;
inline constexpr size_t kMaxMethods = 64;
inline constexpr size_t kMaxGraph = 1u << 16;
inline constexpr size_t kMaxMetrics = 1024;
inline constexpr size_t kMaxPrograms = 16;
inline constexpr size_t kMaxShards = 1024;
inline constexpr size_t kMaxOpTensors = 256;
inline constexpr size_t kMaxDims = 4;
inline constexpr size_t kMaxStopTokens = 1024;
inline constexpr int64_t kMaxDim = int64_t{1} << 31;

}  // namespace tandem
