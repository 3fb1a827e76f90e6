#include "base/dtype.h"

namespace tandem {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  int bits;
  bool is_float;
  bool is_signed;
};

constexpr Row kRows[kDTypeCount] = {
    {DType::kF32, "f32", 32, true, true},   {DType::kF16, "f16", 16, true, true},
    {DType::kBF16, "bf16", 16, true, true}, {DType::kI8, "i8", 8, false, true},
    {DType::kU8, "u8", 8, false, false},    {DType::kI16, "i16", 16, false, true},
    {DType::kU16, "u16", 16, false, false}, {DType::kI32, "i32", 32, false, true},
    {DType::kI64, "i64", 64, false, true},  {DType::kI4, "i4", 4, false, true},
};

const Row& row(DType dtype) { return kRows[static_cast<int>(dtype)]; }

}  // namespace

int dtype_bits(DType dtype) { return row(dtype).bits; }

size_t dtype_bytes(DType dtype, size_t count) {
  return dtype == DType::kI4 ? (count + 1) / 2 : count * static_cast<size_t>(row(dtype).bits / 8);
}

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

bool dtype_is_float(DType dtype) { return row(dtype).is_float; }

int64_t dtype_min(DType dtype) {
  const Row& r = row(dtype);
  if (!r.is_signed) return 0;
  return r.bits == 64 ? INT64_MIN : -(int64_t{1} << (r.bits - 1));
}

int64_t dtype_max(DType dtype) {
  const Row& r = row(dtype);
  if (r.bits == 64) return INT64_MAX;
  return r.is_signed ? (int64_t{1} << (r.bits - 1)) - 1 : (int64_t{1} << r.bits) - 1;
}

}  // namespace tandem
