#include "checkpoint/convert.h"

#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/format.h"
#include "checkpoint/stored_tensor.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tandem {
namespace {

uint32_t load_u16(const uint8_t* source) {
  uint16_t bits;
  std::memcpy(&bits, source, sizeof bits);
  return bits;
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void convert_f16_to_f32_f16c(const uint8_t* source, float* out, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + 2 * i));
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(halves));
  }
  convert_f16_to_f32_portable(source + 2 * i, out + i, count - i);
}

bool has_f16c() {
  // Clang 14's __builtin_cpu_supports does not know f16c; its check for avx covers the operating system.
  static const bool has = [] {
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    return __builtin_cpu_supports("avx") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  }();
  return has;
}
#endif

}  // namespace

// Moves exponent and mantissa into place and corrects both ends of the range with selects, so that the compiler can
// vectorize. A subnormal gets the exponent of 2^-14, which is then subtracted: exact, and without float subnormals,
// which some threads flush to zero.
void convert_f16_to_f32_portable(const uint8_t* source, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const uint32_t half = load_u16(source + 2 * i);
    const uint32_t magnitude = half & 0x7fffu;
    const uint32_t normal = (magnitude << 13) + 0x38000000u;
    const uint32_t special = normal + 0x38000000u;
    const float below = std::bit_cast<float>(normal + 0x00800000u) - 0x1p-14f;
    uint32_t bits = magnitude < 0x0400u ? std::bit_cast<uint32_t>(below) : normal;
    bits = magnitude >= 0x7c00u ? special : bits;
    out[i] = std::bit_cast<float>(bits | ((half & 0x8000u) << 16));
  }
}

void convert_f16_to_f32(const uint8_t* source, float* out, size_t count) {
#if defined(__x86_64__)
  if (has_f16c()) return convert_f16_to_f32_f16c(source, out, count);
#endif
  convert_f16_to_f32_portable(source, out, count);
}

void convert_bf16_to_f32(const uint8_t* source, float* out, size_t count) {
  for (size_t i = 0; i < count; ++i) out[i] = std::bit_cast<float>(load_u16(source + 2 * i) << 16);
}

int64_t tensor_rows(const TensorView& tensor) { return tensor.shape.empty() ? 1 : tensor.shape[0]; }

int64_t tensor_row_size(const TensorView& tensor) {
  if (tensor.shape.size() < 2) return 1;
  // Dimensions whose product overflows can only occur with a 0 in the first.
  return static_cast<int64_t>(element_count(std::span(tensor.shape).subspan(1)).value_or(0));
}

Status read_rows_f32(const TensorView& tensor, int64_t row_begin, int64_t row_count, std::span<float> out) {
  if (tensor.stored != nullptr) return read_stored_rows(*tensor.stored, row_begin, row_count, out);
  if (tensor.dtype != DType::kF32 && tensor.dtype != DType::kF16 && tensor.dtype != DType::kBF16) {
    return unsupported("weights of type {} cannot be read as floats", dtype_name(tensor.dtype));
  }
  // A view from a Checkpoint passes these; one made by hand may not, and must not read past its bytes.
  const auto elements = element_count(tensor.shape);
  const uint64_t element_size = static_cast<uint64_t>(dtype_bits(tensor.dtype)) / 8;
  const auto size = elements ? checked_mul(*elements, element_size) : std::nullopt;
  if (!size || *size != tensor.bytes.size()) {
    return internal_error("a tensor of shape [{}] has {} bytes", str_join(tensor.shape, ", "), tensor.bytes.size());
  }
  const int64_t rows = tensor_rows(tensor);
  if (row_begin < 0 || row_count < 0 || row_begin > rows || row_count > rows - row_begin) {
    return invalid_argument("{} rows from row {} were asked for, but the tensor has {}", row_count, row_begin, rows);
  }
  const uint64_t row_size = rows == 0 ? 0 : *elements / static_cast<uint64_t>(rows);
  const uint64_t count = static_cast<uint64_t>(row_count) * row_size;
  if (out.size() != count) {
    return invalid_argument("{} elements do not fit a buffer of {}", count, out.size());
  }
  if (count == 0) return ok_status();
  const uint8_t* source = tensor.bytes.data() + static_cast<uint64_t>(row_begin) * row_size * element_size;
  switch (tensor.dtype) {
    case DType::kF16: convert_f16_to_f32(source, out.data(), count); break;
    case DType::kBF16: convert_bf16_to_f32(source, out.data(), count); break;
    default: std::memcpy(out.data(), source, count * sizeof(float)); break;
  }
  return ok_status();
}

Result<std::vector<float>> read_tensor_f32(const TensorView& tensor) {
  const auto elements = element_count(tensor.shape);
  if (!elements || (tensor.stored == nullptr && *elements > tensor.bytes.size())) {
    return internal_error("a tensor of shape [{}] has {} bytes", str_join(tensor.shape, ", "), tensor.bytes.size());
  }
  std::vector<float> values(*elements);
  TANDEM_TRY(read_rows_f32(tensor, 0, tensor_rows(tensor), values));
  return values;
}

}  // namespace tandem
