// Attention and the KV cache, against double precision (for QuantizedAttention with the roundings of
// numerics/fake_quant.h); masked slots, other tokens and unused slots must not matter.
#include "backends/cpu/kernels/attention_test.h"

#include "numerics/fake_quant.h"

namespace tandem::cpu {
namespace attention_test {

std::vector<double> reference(const Problem& p, const Cache& keys, const Cache& values) {
  std::vector<double> out(static_cast<size_t>(p.tokens * p.group * p.dim));
  for (int64_t t = 0; t < p.tokens; ++t) {
    for (int64_t g = 0; g < p.group; ++g) {
      const float* given = p.q.data() + t * p.q_stride + g * p.dim;
      std::vector<float> q(given, given + p.dim);
      if (p.quantized) fake_quantize_row_i16(q);
      double* y = out.data() + (t * p.group + g) * p.dim;
      std::vector<double> weights(static_cast<size_t>(p.slots));
      double sum = 0;
      for (int64_t s = 0; s < p.slots; ++s) {
        const float mask = p.mask[static_cast<size_t>(t * p.mask_stride + s)];
        if (mask == -kInf) continue;
        double score = 0;
        for (int64_t d = 0; d < p.dim; ++d) score += double{q[static_cast<size_t>(d)]} * keys.value(s, d);
        score *= double{p.scale};
        if (p.softcap != 0) score = double{p.softcap} * std::tanh(score / double{p.softcap});
        sum += weights[static_cast<size_t>(s)] = std::exp(score + double{mask});
      }
      const std::vector<double> exact = weights;
      if (p.quantized) fake_quantize_weights(weights, values.encodings());
      for (size_t s = 0; s < weights.size(); ++s) {
        if (exact[s] == 0) continue;
        const double low = p.quantized ? double{values.encodings()[s].min} : 0.0;
        for (int64_t d = 0; d < p.dim; ++d) {
          y[d] += (weights[s] * (values.value(static_cast<int64_t>(s), d) - low) + exact[s] * low) / sum;
        }
      }
    }
  }
  return out;
}

struct Kind {
  DType type;
  bool quantized;  // As in QuantizedAttention.
};
constexpr Kind kKinds[] = {{DType::kF32, false}, {DType::kF16, false}, {DType::kU8, false}, {DType::kU8, true}};
std::string name_of(const Kind& kind) {
  return std::string(dtype_name(kind.type)) + (kind.quantized ? ", quantized" : "");
}

class Attention : public EachIsa {};
TANDEM_EACH_ISA(Attention);

TEST_P(Attention, MatchesDoublePrecision) {
  Random random(30);
  for (int round = 0; round < 90; ++round) {
    const int64_t dims[] = {1, 4, 7, 20, 32, 64, 80, 128};
    const int64_t dim = dims[random.integer(0, 7)], slots = random.integer(1, 200);
    const Kind kind = kKinds[round / 2 % 4];
    const Cache keys(k(), Cache::kKeys, kind.type, slots, dim, random),
        values(k(), Cache::kValues, kind.type, slots, dim, random);
    Problem p = make_problem(random.integer(1, std::min<int64_t>(slots, 20)), random.integer(1, 7), dim, slots, random);
    if (round % 2 == 0) p.softcap = 5.0f;
    p.quantized = kind.quantized;
    const std::vector<float> got = run(k(), p, keys, values, 0, p.tokens, slots);
    const std::vector<double> want = reference(p, keys, values);
    // A weight close to the middle of two quantized values may be rounded either way: 1/32512 of values that are 6
    // apart at most, averaged with others.
    const double tolerance = kind.quantized ? 2e-4 : 1e-5;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], tolerance) << "round " << round << " at " << i;
  }
}

// Scores so far apart that naive exponentials overflow.
TEST_P(Attention, LargeScoresDoNotOverflow) {
  Random random(31);
  const Cache keys(k(), Cache::kKeys, DType::kF32, 150, 64, random, 50.0f),
      values(k(), Cache::kValues, DType::kF32, 150, 64, random);
  const Problem p = make_problem(3, 2, 64, 150, random);
  const std::vector<float> got = run(k(), p, keys, values, 0, p.tokens, 150);
  for (const float v : got) ASSERT_TRUE(std::isfinite(v));
}

TEST_P(Attention, MaskedAndUnusedSlotsDoNotMatter) {
  Random random(32);
  for (const auto& [type, quantized] : kKinds) {
    const int64_t slots = 300, visible = 100, dim = 48;
    Cache keys(k(), Cache::kKeys, type, slots, dim, random), values(k(), Cache::kValues, type, slots, dim, random);
    Problem p = make_problem(4, 3, dim, slots, random);
    p.quantized = quantized;
    for (int64_t t = 0; t < p.tokens; ++t) {
      for (int64_t s = visible; s < slots; ++s) p.mask[static_cast<size_t>(t * p.mask_stride + s)] = -kInf;
      p.mask[static_cast<size_t>(t * p.mask_stride + 5)] = -kInf;
    }
    const std::vector<float> clean = run(k(), p, keys, values, 0, p.tokens, slots);
    const std::vector<float> fewer = run(k(), p, keys, values, 0, p.tokens, visible);
    keys.poison(5);
    values.poison(5);
    for (int64_t s = visible; s < slots; ++s) {
      keys.poison(s);
      values.poison(s);
    }
    const std::vector<float> poisoned = run(k(), p, keys, values, 0, p.tokens, slots);
    EXPECT_EQ(0, std::memcmp(clean.data(), fewer.data(), clean.size() * sizeof(float))) << name_of({type, quantized});
    EXPECT_EQ(0, std::memcmp(clean.data(), poisoned.data(), clean.size() * sizeof(float)))
        << name_of({type, quantized});
  }
}

TEST_P(Attention, TokensDoNotInfluenceEachOther) {
  Random random(33);
  for (const auto& [type, quantized] : kKinds) {
    const Cache keys(k(), Cache::kKeys, type, 200, 64, random), values(k(), Cache::kValues, type, 200, 64, random);
    Problem p = make_problem(30, 3, 64, 200, random);
    p.quantized = quantized;
    const std::vector<float> all = run(k(), p, keys, values, 0, p.tokens, 200);
    for (int64_t begin = 0, count = 1; begin + count <= p.tokens; begin += count, ++count) {
      // Slots beyond the last one visible to these tokens are omitted, as in decoding.
      const std::vector<float> part = run(k(), p, keys, values, begin, count, 200 - p.tokens + begin + count);
      ASSERT_EQ(0, std::memcmp(part.data(), all.data() + begin * p.group * p.dim, part.size() * sizeof(float)))
          << name_of({type, quantized}) << ", tokens " << begin << " to " << begin + count;
    }
  }
}

// A NaN that one token sees stays in that token, and stays visible there.
TEST_P(Attention, NanReachesOnlyThoseThatSeeIt) {
  Random random(34);
  for (const auto& [type, quantized] : kKinds) {
    Cache keys(k(), Cache::kKeys, type, 80, 32, random), values(k(), Cache::kValues, type, 80, 32, random);
    Problem p = make_problem(2, 2, 32, 80, random);
    p.quantized = quantized;
    p.mask[79] = -kInf;
    p.mask[static_cast<size_t>(p.mask_stride + 79)] = 0.0f;
    const std::vector<float> clean = run(k(), p, keys, values, 0, 2, 80);
    for (const bool poison_keys : {false, true}) {
      (poison_keys ? keys : values).poison(79);
      const std::vector<float> got = run(k(), p, keys, values, 0, 2, 80);
      for (size_t i = 0; i < 64; ++i) {
        EXPECT_EQ(got[i], clean[i]);
        EXPECT_TRUE(std::isnan(got[64 + i]));
      }
    }
  }
}

TEST_P(Attention, NothingVisibleGivesZeros) {
  Random random(35);
  Cache keys(k(), Cache::kKeys, DType::kF32, 70, 16, random), values(k(), Cache::kValues, DType::kF32, 70, 16, random);
  Problem p = make_problem(2, 2, 16, 70, random);
  for (int64_t s = 0; s < 70; ++s) p.mask[static_cast<size_t>(s)] = -kInf;
  const std::vector<float> got = run(k(), p, keys, values, 0, 2, 70);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(got[i], 0.0f);
  EXPECT_NE(got[32], 0.0f);
  for (const float v : run(k(), p, keys, values, 0, 2, 0)) EXPECT_EQ(v, 0.0f);
  const Cache byte_keys(k(), Cache::kKeys, DType::kU8, 70, 16, random),
      byte_values(k(), Cache::kValues, DType::kU8, 70, 16, random);
  p.quantized = true;
  const std::vector<float> coded = run(k(), p, byte_keys, byte_values, 0, 2, 70);
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(coded[i], 0.0f);
  EXPECT_NE(coded[32], 0.0f);
}

TEST_P(Attention, NoMaskIsAMaskOfZeros) {
  Random random(37);
  const Cache keys(k(), Cache::kKeys, DType::kF16, 100, 32, random),
      values(k(), Cache::kValues, DType::kF16, 100, 32, random);
  Problem p = make_problem(3, 2, 32, 100, random);
  p.mask.assign(p.mask.size(), 0.0f);
  const std::vector<float> zeros = run(k(), p, keys, values, 0, 3, 100);
  p.mask.clear();
  EXPECT_EQ(run(k(), p, keys, values, 0, 3, 100), zeros);
}

// Tiles are processed from `first_tile` on: the same bits as a cache whose tiles are in that order.
TEST_P(Attention, FirstTileRotatesTheOrderOfTiles) {
  Random random(38);
  for (const auto& [type, quantized] : kKinds) {
    const int64_t slots = 4 * kAttentionTile, dim = 32;
    const Cache keys(k(), Cache::kKeys, type, slots, dim, random),
        values(k(), Cache::kValues, type, slots, dim, random);
    Problem p = make_problem(3, 2, dim, slots, random);
    p.quantized = quantized;
    const std::vector<float> straight = run(k(), p, keys, values, 0, 3, slots);
    // The same tiles, with the last one first in memory.
    Cache turned_keys = keys, turned_values = values;
    Problem turned = p;
    const size_t tile_bytes = dtype_bytes(type, static_cast<size_t>(kAttentionTile * dim));
    const auto turn = [](auto& list, size_t by) {
      std::rotate(list.begin(), list.end() - static_cast<std::ptrdiff_t>(by), list.end());
    };
    for (Cache* cache : {&turned_keys, &turned_values}) {
      turn(cache->data, tile_bytes);
      turn(cache->scales, 2 * kAttentionTile);
      cache->head.data = cache->data.data();
      cache->head.scale_and_min = cache->scales.data();
    }
    for (int64_t t = 0; t < p.tokens; ++t) {
      const auto row = turned.mask.begin() + t * p.mask_stride;
      std::rotate(row, row + slots - kAttentionTile, row + slots);
    }
    turned.first_tile = 1;
    EXPECT_EQ(run(k(), turned, turned_keys, turned_values, 0, 3, slots), straight) << name_of({type, quantized});
    turned.first_tile = 0;
    EXPECT_NE(run(k(), turned, turned_keys, turned_values, 0, 3, slots), straight) << name_of({type, quantized});
  }
}

// Every half float, and numbers that have to be rounded or overflow, in rows that no vector width divides.
TEST_P(Attention, StoredHalvesAreTheNearest) {
  Random random(38);
  std::vector<float> numbers(65536);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = f32_from_f16(static_cast<uint16_t>(i));
  for (int i = 0; i < 4096; ++i) {
    numbers.push_back(random.normal(std::pow(2.0f, static_cast<float>(random.integer(-28, 18)))));
  }
  for (const int64_t dim : {1, 7, 39, 64}) {
    for (const Cache::Kind kind : {Cache::kKeys, Cache::kValues}) {
      const int64_t slots = static_cast<int64_t>(numbers.size()) / dim;
      Cache cache(k(), kind, DType::kF16, slots, dim, random);
      for (int64_t s = 0; s < slots; ++s) {
        const float* const row = numbers.data() + s * dim;
        (kind == Cache::kKeys ? k().store_key : k().store_value)(row, dim, s, cache.head);
        for (int64_t d = 0; d < dim; ++d) {
          uint16_t stored;
          std::memcpy(&stored, cache.data.data() + cache.index(s, d) * 2, 2);
          if (std::isnan(row[d])) {
            ASSERT_GT(stored & 0x7fff, 0x7c00);
          } else {
            ASSERT_EQ(stored, f16_from_f32(row[d])) << row[d];
          }
        }
      }
    }
  }
}

// Constant rows among others; large and small numbers in one tile.
TEST_P(Attention, ConstantRowsAndMixedMagnitudesMatchTheReference) {
  Random random(39);
  Cache keys(k(), Cache::kKeys, DType::kU8, 100, 32, random), values(k(), Cache::kValues, DType::kU8, 100, 32, random);
  const auto put = [&](Cache& cache, int64_t slot, const std::vector<float>& row) {
    (cache.kind == Cache::kKeys ? k().store_key : k().store_value)(row.data(), 32, slot, cache.head);
  };
  put(values, 0, std::vector<float>(32, 3.0f));
  put(values, 1, std::vector<float>(32, 0.0f));
  put(values, 2, random.normals(32, 1e-6f));
  put(values, 70, random.normals(32, 1e3f));
  put(keys, 3, std::vector<float>(32, 0.0f));
  put(keys, 71, random.normals(32, 30.0f));
  Problem p = make_problem(9, 2, 32, 100, random);
  p.quantized = true;
  std::fill_n(p.q.begin() + p.q_stride, 32, 0.0f);
  for (const float mask : {-kInf, 0.0f}) {  // Without the large values, and with them.
    for (int64_t t = 0; t < p.tokens; ++t) p.mask[static_cast<size_t>(t * p.mask_stride + 70)] = mask;
    const std::vector<float> got = run(k(), p, keys, values, 0, p.tokens, 100);
    const std::vector<double> want = reference(p, keys, values);
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], want[i], mask == 0.0f ? 0.1 : 2e-4) << i;
  }
  // Only constants.
  for (int64_t s = 0; s < 100; ++s) put(values, s, std::vector<float>(32, 0.5f));
  for (const float v : run(k(), p, keys, values, 0, p.tokens, 100)) ASSERT_NEAR(v, 0.5f, 1e-6f);
}

// Every number of a head has its own index, and all indices are used.
TEST(KvLayout, IsAPermutation) {
  for (const auto& [slots, dim] : {std::pair<int64_t, int64_t>{1, 1}, {5, 3}, {16, 8}, {33, 7}, {100, 20}, {7, 128}}) {
    for (const auto index : {key_index, value_index}) {
      std::vector<int> seen(static_cast<size_t>(slots * dim));
      for (int64_t s = 0; s < slots; ++s) {
        for (int64_t d = 0; d < dim; ++d) ++seen.at(static_cast<size_t>(index(slots, dim, s, d)));
      }
      EXPECT_EQ(seen, std::vector<int>(seen.size(), 1)) << slots << " slots of " << dim;
    }
  }
}

TEST_P(Attention, StoredRowsAreRoundedToNearest) {
  Random random(36);
  for (int64_t dim = 1; dim < 70; ++dim) {
    const float spread = std::pow(10.0f, static_cast<float>(random.integer(-43, 36)));
    std::vector<float> row = random.normals(dim, spread);
    const auto [low, high] = std::minmax_element(row.begin(), row.end());
    const bool is_keys = dim % 2 == 0;
    const auto index = [&](int64_t slot, int64_t d) {
      return static_cast<size_t>(is_keys ? key_index(3, dim, slot, d) : value_index(3, dim, slot, d));
    };
    std::vector<uint8_t> quantized(static_cast<size_t>(3 * dim), 77);
    float scales[6] = {};
    (is_keys ? k().store_key : k().store_value)(row.data(), dim, 1, {DType::kU8, quantized.data(), 3, scales});
    const float step = (*high - *low) / 255.0f;
    ASSERT_EQ(scales[2], step);
    ASSERT_EQ(scales[3], *low);
    for (int64_t i = 0; i < dim; ++i) {
      const int q = quantized[index(1, i)];
      const float x = row[static_cast<size_t>(i)];
      if (step == 0) {
        ASSERT_EQ(q, 0);
      } else {
        ASSERT_NEAR(q, std::min(255.0, double{x - *low} / double{step}), 0.5001);
      }
      ASSERT_EQ(quantized[index(0, i)], 77);
      ASSERT_EQ(quantized[index(2, i)], 77);
    }
  }
  const std::vector<float> constant(9, -2.5f), odd = {1, 2, kNan, 4};
  std::vector<uint8_t> quantized(9, 77);
  float scales[2];
  k().store_key(constant.data(), 9, 0, {DType::kU8, quantized.data(), 1, scales});
  EXPECT_EQ(scales[0], 0.0f);
  EXPECT_EQ(scales[1], -2.5f);
  EXPECT_EQ(quantized, std::vector<uint8_t>(9, 0));
  k().store_value(odd.data(), 4, 0, {DType::kU8, quantized.data(), 1, scales});
  EXPECT_TRUE(std::isnan(scales[0]));
  EXPECT_TRUE(std::isnan(scales[1]));
}

}  // namespace attention_test
}  // namespace tandem::cpu
