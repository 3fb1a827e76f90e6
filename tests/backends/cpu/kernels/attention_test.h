// What the attention tests share: a filled cache, a random problem, a run of one table's attention.
#pragma once

#include <algorithm>
#include <cstring>

#include "backends/cpu/kernels/kernel_test.h"
#include "backends/cpu/kernels/kv_layout.h"
#include "base/half.h"
#include "numerics/fake_quant.h"

namespace tandem::cpu {

// A cache of one KV head, filled through store_kv.
struct Cache {
  enum Kind { kKeys, kValues };
  Cache(const KernelTable& k, Kind what, DType dtype, int64_t slots, int64_t dim, Random& random, float spread = 1.0f)
      : kernels(k), kind(what), count(slots), width(dim) {
    data.resize(dtype_bytes(dtype, static_cast<size_t>(slots * dim)));
    scales.assign(static_cast<size_t>(2 * slots), 0.0f);
    head = {dtype, data.data(), slots, scales.data()};
    for (int64_t s = 0; s < slots; ++s) {
      const std::vector<float> row = random.normals(dim, spread);
      (kind == kKeys ? k.store_key : k.store_value)(row.data(), dim, s, head);
    }
  }
  size_t index(int64_t slot, int64_t d) const {
    return static_cast<size_t>(kind == kKeys ? key_index(count, width, slot, d) : value_index(count, width, slot, d));
  }
  double value(int64_t slot, int64_t d) const {
    const size_t at = index(slot, d);
    if (head.dtype == DType::kF32) {
      float v;
      std::memcpy(&v, data.data() + at * 4, 4);
      return double{v};
    }
    if (head.dtype == DType::kF16) {
      uint16_t v;
      std::memcpy(&v, data.data() + at * 2, 2);
      return double{f32_from_f16(v)};
    }
    return double{scales[static_cast<size_t>(2 * slot)]} * data[at] + double{scales[static_cast<size_t>(2 * slot + 1)]};
  }
  std::vector<ScaleAndMin> encodings() const {
    std::vector<ScaleAndMin> all;
    for (size_t s = 0; s < scales.size(); s += 2) all.push_back({scales[s], scales[s + 1]});
    return all;
  }
  // Whatever memory that was never written may hold.
  void poison(int64_t slot) {
    const size_t bytes = dtype_bytes(head.dtype, 1);
    for (int64_t d = 0; d < width; ++d) std::memset(data.data() + index(slot, d) * bytes, 0xff, bytes);
    scales[static_cast<size_t>(2 * slot)] = kNan;
    scales[static_cast<size_t>(2 * slot + 1)] = -kInf;
  }
  const KernelTable& kernels;
  Kind kind;
  int64_t count, width;
  std::vector<uint8_t> data;
  std::vector<float> scales;
  KvHead head;
};

struct Problem {
  int64_t tokens, group, dim, slots, q_stride, mask_stride;
  std::vector<float> q, mask;
  float scale, softcap;
  int64_t first_tile = 0;
  bool quantized = false;
};

// Token t sees slots up to slots - tokens + t, except some random ones.
inline Problem make_problem(int64_t tokens, int64_t group, int64_t dim, int64_t slots, Random& random) {
  Problem p{tokens, group, dim, slots, group * dim + 3, slots + 2, {}, {}, 0.3f, 0.0f, 0, false};
  p.q = random.normals(tokens * p.q_stride);
  p.mask.assign(static_cast<size_t>(tokens * p.mask_stride), 0.0f);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t s = 0; s < slots; ++s) {
      float& m = p.mask[static_cast<size_t>(t * p.mask_stride + s)];
      if (s > slots - tokens + t || random.integer(0, 9) == 0) m = -kInf;
      if (m == 0.0f && random.integer(0, 19) == 0) m = random.normal();
    }
  }
  return p;
}

inline std::vector<float> run(const KernelTable& k, const Problem& p, const Cache& keys, const Cache& values,
                              int64_t token, int64_t tokens, int64_t slots) {
  AlignedBuffer<float> scratch(k.attention_scratch_floats(tokens, p.group, p.dim));
  std::vector<float> out(static_cast<size_t>(tokens * p.group * p.dim));
  AttentionTask task;
  task.q = p.q.data() + token * p.q_stride;
  task.q_stride = p.q_stride;
  task.out = out.data();
  task.out_stride = p.group * p.dim;
  task.tokens = tokens;
  task.group = p.group;
  task.dim = p.dim;
  task.k = keys.head;
  task.v = values.head;
  task.slots = slots;
  task.mask = p.mask.empty() ? nullptr : p.mask.data() + token * p.mask_stride;
  task.mask_stride = p.mask_stride;
  task.scale = p.scale;
  task.first_tile = p.first_tile;
  task.softcap = p.softcap;
  task.quantized = p.quantized;
  task.scratch = scratch.data;
  k.attention(task);
  if (task.mask != nullptr) {  // Knowing where the mask is 0 must change nothing.
    std::vector<int64_t> plain;
    for (int64_t t = 0; t < tokens; ++t) {
      const float* row = task.mask + t * task.mask_stride;
      plain.push_back(std::find_if(row, row + slots, [](float m) { return m != 0.0f; }) - row);
    }
    const std::vector<float> without = out;
    task.plain_slots = plain.data();
    k.attention(task);
    EXPECT_EQ(0, std::memcmp(out.data(), without.data(), out.size() * sizeof(float)));
  }
  return out;
}

}  // namespace tandem::cpu
