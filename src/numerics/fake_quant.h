// Run-time quantization of activations and caches in floats: the reference that back ends are compared with.
//
// Linear layers with int8 or lpbq4 weights see their input through fake_quantize_row_i8() or fake_quantize_row_i16(),
// one row per token. A KV cache returns keys and values through fake_quantize_row_u8() or fake_round_f16(), one row per
// position and head. The arithmetic, including ties to even, is that of the CPU kernels: quantized values are
// identical.
//
// A row with infinity or NaN becomes NaN as a whole, so that a broken model shows. Empty rows are left alone.
#pragma once

#include <cstdint>
#include <span>

namespace tandem {

// Symmetric: scale = max|x| / 127, q = round(x * (127 / max|x|)). Returns the scale; 0 for a row of zeros, NaN for a
// row with a non-finite number (all q are 0 in both cases). quantized.size() == x.size().
float quantize_row_i8(std::span<const float> x, std::span<int8_t> quantized);
void fake_quantize_row_i8(std::span<float> row);

// The same with |q| up to 32512 = 255 * 127 + 127. Such a q is 255 * high + low with both halves in -127..127, so that
// int8 kernels can process it as two rows. A base of 256 would not do: it needs the value -128, which several of them
// do not support.
inline constexpr int kInt16Base = 255;
inline constexpr float kInt16Top = 32512.0f;
void fake_quantize_row_i16(std::span<float> row);

// Asymmetric: scale = (max - min) / 255, q = round((x - min) / scale), value = scale * q + min. A constant row has
// scale 0 and is restored exactly.
struct ScaleAndMin {
  float scale = 0;
  float min = 0;
};
// Attention over such a cache quantizes queries and weights to 16 bits: queries through fake_quantize_row_i16(), one
// row per token and head. Keys and values are multiplied as stored, so a slot's weight is multiplied with the scale of
// its value before it is rounded. Each run of kWeightRun slots, aligned to a multiple of it, shares one scale: its
// largest product becomes 32512. Sums of weights, and of weights times minima, are not rounded.
inline constexpr int64_t kWeightRun = 64;
// The largest head_dim in u8: sums of products, 32512 * 255 each at most, must fit into 32 bits.
inline constexpr int64_t kMaxByteHead = 256;
// `weights` of the slots from 0 on, 0 if masked; `values` of the same slots.
void fake_quantize_weights(std::span<double> weights, std::span<const ScaleAndMin> values);
// What a weight is multiplied with: the scale, or for constant rows something that suits the minimum. Below the
// smallest scale, quantized values make no difference.
inline constexpr float kSmallestWeightScale = 1e-30f;
float weight_scale(ScaleAndMin values);

ScaleAndMin quantize_row_u8(std::span<const float> x, std::span<uint8_t> quantized);
void fake_quantize_row_u8(std::span<float> row);

// Rounds to the nearest fp16 number and back. Beyond 65504: infinity, as in the cache.
void fake_round_f16(std::span<float> row);

}  // namespace tandem
