// What quantization at run time does to numbers, in floats: the reference that back ends are compared with.
//
// Linear layers with int8 or lpbq4 weights see their input through fake_quantize_row_i8() or fake_quantize_row_i16(),
// one row per token. A KV cache gives back keys and values through fake_quantize_row_u8() or fake_round_f16(), one row
// per position and head. The arithmetic, down to the rounding of halves to even, is that of the CPU kernels: codes are
// the same.
//
// A row with infinity or not-a-number becomes not-a-number as a whole, so that a broken model shows. Empty rows are
// left alone.
#pragma once

#include <cstdint>
#include <span>

namespace tandem {

// Symmetric: scale = max|x| / 127, code = round(x * (127 / max|x|)). Returns the scale; 0 for a row of zeros, NaN for a
// broken row (codes 0 in both). codes.size() == x.size().
float quantize_row_i8(std::span<const float> x, std::span<int8_t> codes);
void fake_quantize_row_i8(std::span<float> row);

// The same with codes up to 32512 = 255 * 127 + 127. Such a code is 255 * high + low with both halves in -127..127, so
// that kernels for int8 can do it as two rows. 256 would be no good base: it needs the code -128, which several of them
// have no room for.
inline constexpr int kInt16Base = 255;
inline constexpr float kInt16Top = 32512.0f;
void fake_quantize_row_i16(std::span<float> row);

// Asymmetric: scale = (max - min) / 255, code = round((x - min) / scale), value = scale * code + min. A constant row
// has scale 0 and comes back exactly.
struct ScaleAndMin {
  float scale = 0;
  float min = 0;
};
// Codes of attention's queries and weights over such a cache are 16 bits wide: queries through
// fake_quantize_row_i16(), one row per token and head. Keys and values are multiplied as codes, so the weight of a slot
// is multiplied with the scale of its values before it is rounded. What kWeightRun slots from a multiple of it on have,
// shares one scale: the largest is 32512. Sums of weights, and of weights times minima, are not rounded.
inline constexpr int64_t kWeightRun = 64;
// Heads in u8 have no more entries: sums of products of codes, 32512 * 255 each at most, must fit into 32 bits.
inline constexpr int64_t kMaxByteHead = 256;
// `weights` of the slots from 0 on, 0 where nothing is seen; values: of as many slots.
void fake_quantize_weights(std::span<double> weights, std::span<const ScaleAndMin> values);
// What the weight is multiplied with: the scale, or for rows without codes something that suits the minimum. Codes with
// a scale below the smallest make no difference.
inline constexpr float kSmallestWeightScale = 1e-30f;
float weight_scale(ScaleAndMin values);

ScaleAndMin quantize_row_u8(std::span<const float> x, std::span<uint8_t> codes);
void fake_quantize_row_u8(std::span<float> row);

// To the nearest fp16 number and back. Beyond 65504: infinity, as in the cache.
void fake_round_f16(std::span<float> row);

}  // namespace tandem
