// Converts checkpoint weights to floats. Sources may be unaligned, as tensors in safetensors files are.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "tandem/status.h"

namespace tandem {

struct StoredTensor;

// A tensor of a checkpoint. The bytes are the file's own, mapped, and may start at any address; they stay valid as
// long as the Checkpoint they came from.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::span<const uint8_t> bytes;
  // Set if the file stores it in another form (stored_tensor.h): `bytes` is empty then, and the functions below read
  // it. `dtype` is f32.
  const StoredTensor* stored = nullptr;
};

// The first dimension counts rows, the others make up a row: [4, 3, 2] has 4 rows of 6. A vector of n has n rows of one
// element; a scalar has one row of one.
int64_t tensor_rows(const TensorView& tensor);
int64_t tensor_row_size(const TensorView& tensor);

// Rows [row_begin, row_begin + row_count) of an f32, f16 or bf16 tensor. `out` must have exactly their size.
Status read_rows_f32(const TensorView& tensor, int64_t row_begin, int64_t row_count, std::span<float> out);

// A whole tensor: for norms, biases and other small ones.
Result<std::vector<float>> read_tensor_f32(const TensorView& tensor);

// The underlying loops. `source` has count * 2 bytes at any alignment.
void convert_f16_to_f32(const uint8_t* source, float* out, size_t count);
void convert_f16_to_f32_portable(const uint8_t* source, float* out, size_t count);
void convert_bf16_to_f32(const uint8_t* source, float* out, size_t count);

}  // namespace tandem
