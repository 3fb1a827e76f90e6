// Structs whose first field is their size, between callers and libraries of different ages; the rules are in tandem.h,
// "STRUCTS GROW".
#pragma once

#include <cstddef>
#include <span>

#include "tandem/status.h"
#include "tandem/tandem.h"

namespace tandem::c_api {

struct FieldRange {
  size_t offset = 0;
  size_t size = 0;
};

// A struct as this library knows it.
struct StructLayout {
  const char* name = "";
  std::span<const FieldRange> fields;  // All but the first, in order, without gaps.
  size_t size = 0;
};

extern const StructLayout kEngineOptionsLayout;
extern const StructLayout kEngineInfoLayout;
extern const StructLayout kGenerateOptionsLayout;
extern const StructLayout kGenerateResultLayout;

// Copies what the caller's struct has into `known`, which has defaults.
Status read_struct(const StructLayout& layout, const void* given, void* known);
// Zeroes the caller's struct but for its size. Call it before there is something to write.
Status clear_struct(const StructLayout& layout, void* given);
// Whether the caller's struct, which was cleared, has a field: what would be allocated for another is not.
bool has_field(const void* given, size_t offset, size_t size);
// Copies those fields of `known` that the caller's struct has.
void write_struct(const StructLayout& layout, const void* known, void* given);

}  // namespace tandem::c_api
