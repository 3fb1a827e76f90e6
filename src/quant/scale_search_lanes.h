// The body of scale_search.cpp, which includes this once per instruction set, each time inside another namespace and
// with TANDEM_SEARCH_TARGET saying what every function is compiled for. Hence no include guard and no #include here.
//
// One matrix row per vector lane, so no lane depends on another and there are no sums across lanes. Only adds,
// multiplies, divides and comparisons are used, and no target here has fused multiply-add: all instruction sets give
// the same bits. Rows come scaled by a power of two so that their largest magnitude is in [1, 2).

#define TANDEM_SEARCH_INLINE [[gnu::always_inline]] TANDEM_SEARCH_TARGET static inline

TANDEM_SEARCH_INLINE Vec broadcast(float x) { return Vec{x, x, x, x, x, x, x, x}; }
#if defined(TANDEM_SEARCH_AVX2)
// Equivalent to the expressions below, which gcc 12 compiles to a comparison and a blend: half the speed of the search.
TANDEM_SEARCH_INLINE Vec vmin(const Vec& a, const Vec& b) { return _mm256_min_ps(a, b); }
TANDEM_SEARCH_INLINE Vec vmax(const Vec& a, const Vec& b) { return _mm256_max_ps(a, b); }
#else
TANDEM_SEARCH_INLINE Vec vmin(const Vec& a, const Vec& b) { return a < b ? a : b; }
TANDEM_SEARCH_INLINE Vec vmax(const Vec& a, const Vec& b) { return a > b ? a : b; }
#endif
TANDEM_SEARCH_INLINE Vec clamp(const Vec& x, float low, float high) {
  return vmin(vmax(x, broadcast(low)), broadcast(high));
}
// Rounds to the nearest integer, ties to even, for |x| < 2^22: adding 1.5 * 2^23 leaves no bits for a fraction.
TANDEM_SEARCH_INLINE Vec round_small(const Vec& x) { return (x + broadcast(0x1.8p23f)) - broadcast(0x1.8p23f); }

TANDEM_SEARCH_INLINE Vec load(const float* from) {
  Vec x;
  std::memcpy(&x, from, sizeof(x));
  return x;
}
TANDEM_SEARCH_INLINE void store(float* to, const Vec& x) { std::memcpy(to, &x, sizeof(x)); }
TANDEM_SEARCH_INLINE DoubleVec widen(const Vec& x) { return __builtin_convertvector(x, DoubleVec); }

// Per lane: the squared errors of `count` columns at kScales scales at once, in units of the scale squared.
template <bool kWeighted, int kScales>
TANDEM_SEARCH_INLINE void squared_errors(const float* lanes, const float* importance, int64_t count, float low,
                                         float high, const Vec (&inverse)[kScales], Vec (&errors)[kScales]) {
  for (int k = 0; k < kScales; ++k) errors[k] = broadcast(0.0f);
  for (int64_t i = 0; i < count; ++i) {
    const Vec w = load(lanes + i * kSearchLanes);
    for (int k = 0; k < kScales; ++k) {
      const Vec scaled = w * inverse[k];
      const Vec error = scaled - round_small(clamp(scaled, low, high));
      if constexpr (kWeighted) {
        errors[k] += error * error * broadcast(importance[i]);
      } else {
        errors[k] += error * error;
      }
    }
  }
}

// For given scales: sums for the least-squares factor. With quantized values q, the error of w ~ t * (multiplier * q)
// is smallest at t = sum(w * multiplier * q) / sum((multiplier * q)^2).
template <bool kWeighted>
TANDEM_SEARCH_INLINE void least_squares_sums(const float* lanes, const float* importance, int64_t count, float low,
                                             float high, const Vec& inverse, const Vec& multiplier, DoubleVec& product,
                                             DoubleVec& square) {
  Vec products = broadcast(0.0f), squares = broadcast(0.0f);
  for (int64_t i = 0; i < count; ++i) {
    const Vec w = load(lanes + i * kSearchLanes);
    const Vec q = round_small(clamp(w * inverse, low, high));
    if constexpr (kWeighted) {
      const Vec weighted = q * broadcast(importance[i]);
      products += w * weighted;
      squares += q * weighted;
    } else {
      products += w * q;
      squares += q * q;
    }
  }
  product += widen(products * multiplier);
  square += widen(squares * multiplier * multiplier);
}

// product / square if that is a good positive scale, otherwise `fallback`.
TANDEM_SEARCH_INLINE Vec least_squares_scale(const DoubleVec& product, const DoubleVec& square, const Vec& fallback) {
  Vec scale;
  for (int lane = 0; lane < kSearchLanes; ++lane) {
    const double best = square[lane] > 0 ? product[lane] / square[lane] : 0;
    scale[lane] = best > 1e-6 && best < 4.0 ? static_cast<float>(best) : fallback[lane];
  }
  return scale;
}

TANDEM_SEARCH_INLINE void write_quantized(const float* lanes, int64_t count, float low, float high, const Vec& inverse,
                                          int8_t* quantized) {
  for (int64_t i = 0; i < count; ++i) {
    const Vec q = round_small(clamp(load(lanes + i * kSearchLanes) * inverse, low, high));
    for (int lane = 0; lane < kSearchLanes; ++lane) {
      quantized[i * kSearchLanes + lane] = static_cast<int8_t>(static_cast<int32_t>(q[lane]));
    }
  }
}

// The best multiplier of one block for the channel scale `scale`, out of the three around target / scale and the one
// nearest to `nearest` / scale, and its error.
template <bool kWeighted>
TANDEM_SEARCH_INLINE void best_multiplier(const float* lanes, const float* importance, int64_t count, const Vec& scale,
                                          const Vec& target, const Vec& nearest, Vec& multiplier, Vec& error) {
  const Vec centre = round_small(clamp(target / scale, 1.0f, 16.0f));
  const Vec m[4] = {centre, vmax(centre - broadcast(1.0f), broadcast(1.0f)),
                    vmin(centre + broadcast(1.0f), broadcast(16.0f)), round_small(clamp(nearest / scale, 1.0f, 16.0f))};
  Vec inverse[4], errors[4];
  for (int k = 0; k < 4; ++k) inverse[k] = broadcast(1.0f) / (scale * m[k]);
  squared_errors<kWeighted>(lanes, importance, count, kLpbqLowest, kLpbqHighest, inverse, errors);
  for (int k = 0; k < 4; ++k) errors[k] *= (scale * m[k]) * (scale * m[k]);
  multiplier = m[0];
  error = errors[0];
  for (int k = 1; k < 4; ++k) {
    multiplier = errors[k] < error ? m[k] : multiplier;
    error = vmin(errors[k], error);
  }
}

// The best real-valued scale of every block, and the one that clips nothing with 7 steps on either side (round to
// nearest).
template <bool kWeighted>
TANDEM_SEARCH_INLINE void best_block_scales(const Rows& rows, float* best, float* nearest) {
  for (int64_t b = 0; b < rows.blocks; ++b) {
    const float* lanes = rows.lanes + b * rows.block * kSearchLanes;
    const float* importance = kWeighted ? rows.importance + b * rows.block : nullptr;
    Vec low = broadcast(0.0f), high = broadcast(0.0f);
    for (int64_t i = 0; i < rows.block; ++i) {
      const Vec w = load(lanes + i * kSearchLanes);
      low = vmin(low, w);
      high = vmax(high, w);
    }
    // -8 has no counterpart: a block whose extreme is negative needs a smaller scale. The floor keeps inverses finite;
    // blocks below it are zeros at multiplier 1 anyway.
    const Vec floor = broadcast(kBlockFloor);
    const Vec whole = vmax(vmax(high * broadcast(1.0f / 7.0f), low * broadcast(-1.0f / 8.0f)), floor);
    store(nearest + b * kSearchLanes, vmax(vmax(high, -low) * broadcast(1.0f / 7.0f), floor));

    Vec best_scale = whole, best_error = broadcast(std::numeric_limits<float>::max());
    for (int group = 0; group < kBlockRatioCount; group += 4) {
      Vec scale[4], inverse[4], errors[4];
      for (int k = 0; k < 4; ++k) {
        scale[k] = whole * broadcast(kBlockRatios[group + k]);
        inverse[k] = broadcast(1.0f) / scale[k];
      }
      squared_errors<kWeighted>(lanes, importance, rows.block, kLpbqLowest, kLpbqHighest, inverse, errors);
      for (int k = 0; k < 4; ++k) {
        const Vec error = errors[k] * scale[k] * scale[k];
        best_scale = error < best_error ? scale[k] : best_scale;
        best_error = vmin(error, best_error);
      }
    }
    store(best + b * kSearchLanes, best_scale);
  }
}

template <bool kWeighted>
TANDEM_SEARCH_INLINE void search_lpbq4_rows(const Rows& rows, Found& found) {
  float* best = rows.block_scale;
  float* nearest = rows.block_scale + rows.blocks * kSearchLanes;
  best_block_scales<kWeighted>(rows, best, nearest);

  Vec top = broadcast(kBlockFloor), nearest_top = broadcast(kBlockFloor);
  for (int64_t b = 0; b < rows.blocks; ++b) {
    top = vmax(top, load(best + b * kSearchLanes));
    nearest_top = vmax(nearest_top, load(nearest + b * kSearchLanes));
  }

  // Channel scales to try: around the one at which multiplier 16 gives the block with the largest scale its best; and
  // that of round to nearest, so that the result is never worse.
  Vec scales[kChannelRatioCount + 1];
  for (int j = 0; j < kChannelRatioCount; ++j) scales[j] = top * broadcast(kChannelRatios[j] / 16.0f);
  scales[kChannelRatioCount] = nearest_top * broadcast(1.0f / 16.0f);
  DoubleVec totals[kChannelRatioCount + 1] = {};
  for (int64_t b = 0; b < rows.blocks; ++b) {
    const float* lanes = rows.lanes + b * rows.block * kSearchLanes;
    const float* importance = kWeighted ? rows.importance + b * rows.block : nullptr;
    for (int j = 0; j <= kChannelRatioCount; ++j) {
      Vec multiplier, error;
      best_multiplier<kWeighted>(lanes, importance, rows.block, scales[j], load(best + b * kSearchLanes),
                                 load(nearest + b * kSearchLanes), multiplier, error);
      totals[j] += widen(error);
    }
  }
  Vec scale = scales[0];
  DoubleVec total = totals[0];
  for (int j = 1; j <= kChannelRatioCount; ++j) {
    for (int lane = 0; lane < kSearchLanes; ++lane) {
      if (totals[j][lane] >= total[lane]) continue;
      total[lane] = totals[j][lane];
      scale[lane] = scales[j][lane];
    }
  }

  // Alternate: the best factor for these quantized values and multipliers, then the best multipliers and values for
  // that factor.
  Vec trial = scale;
  for (int round = 0; round <= kLpbqRefinements; ++round) {
    DoubleVec trial_total = {}, product = {}, square = {};
    for (int64_t b = 0; b < rows.blocks; ++b) {
      const float* lanes = rows.lanes + b * rows.block * kSearchLanes;
      const float* importance = kWeighted ? rows.importance + b * rows.block : nullptr;
      Vec multiplier, error;
      best_multiplier<kWeighted>(lanes, importance, rows.block, trial, load(best + b * kSearchLanes),
                                 load(nearest + b * kSearchLanes), multiplier, error);
      trial_total += widen(error);
      if (round == kLpbqRefinements) continue;
      least_squares_sums<kWeighted>(lanes, importance, rows.block, kLpbqLowest, kLpbqHighest,
                                    broadcast(1.0f) / (trial * multiplier), multiplier, product, square);
    }
    for (int lane = 0; lane < kSearchLanes; ++lane) {
      if (trial_total[lane] >= total[lane]) continue;
      total[lane] = trial_total[lane];
      scale[lane] = trial[lane];
    }
    if (round < kLpbqRefinements) trial = least_squares_scale(product, square, scale);
  }

  for (int64_t b = 0; b < rows.blocks; ++b) {
    const float* lanes = rows.lanes + b * rows.block * kSearchLanes;
    const float* importance = kWeighted ? rows.importance + b * rows.block : nullptr;
    Vec multiplier, error;
    best_multiplier<kWeighted>(lanes, importance, rows.block, scale, load(best + b * kSearchLanes),
                               load(nearest + b * kSearchLanes), multiplier, error);
    store(best + b * kSearchLanes, multiplier);
    write_quantized(lanes, rows.block, kLpbqLowest, kLpbqHighest, broadcast(1.0f) / (scale * multiplier),
                    rows.quantized + b * rows.block * kSearchLanes);
  }
  store(found.scales, scale);
}

template <bool kWeighted>
TANDEM_SEARCH_INLINE void search_int8_rows(const Rows& rows, Found& found) {
  Vec largest = broadcast(kBlockFloor);
  for (int64_t i = 0; i < rows.blocks * rows.block; ++i) {
    const Vec w = load(rows.lanes + i * kSearchLanes);
    largest = vmax(largest, vmax(w, -w));
  }

  Vec scales[kInt8RatioCount], inverse[kInt8RatioCount];
  for (int j = 0; j < kInt8RatioCount; ++j) {
    scales[j] = largest * broadcast(kInt8Ratios[j] / 127.0f);
    inverse[j] = broadcast(1.0f) / scales[j];
  }
  DoubleVec totals[kInt8RatioCount] = {};
  for (int64_t b = 0; b < rows.blocks; ++b) {
    const float* lanes = rows.lanes + b * rows.block * kSearchLanes;
    const float* importance = kWeighted ? rows.importance + b * rows.block : nullptr;
    for (int group = 0; group < kInt8RatioCount; group += 4) {
      const Vec some[4] = {inverse[group], inverse[group + 1], inverse[group + 2], inverse[group + 3]};
      Vec errors[4];
      squared_errors<kWeighted>(lanes, importance, rows.block, -127.0f, 127.0f, some, errors);
      for (int k = 0; k < 4; ++k) totals[group + k] += widen(errors[k] * scales[group + k] * scales[group + k]);
    }
  }
  Vec scale = scales[0];
  DoubleVec total = totals[0];
  for (int j = 1; j < kInt8RatioCount; ++j) {
    for (int lane = 0; lane < kSearchLanes; ++lane) {
      if (totals[j][lane] >= total[lane]) continue;
      total[lane] = totals[j][lane];
      scale[lane] = scales[j][lane];
    }
  }

  Vec trial = scale;
  for (int round = 0; round < kInt8Refinements; ++round) {
    DoubleVec product = {}, square = {}, trial_total = {};
    for (int64_t b = 0; b < rows.blocks; ++b) {
      least_squares_sums<kWeighted>(rows.lanes + b * rows.block * kSearchLanes,
                                    kWeighted ? rows.importance + b * rows.block : nullptr, rows.block, -127.0f, 127.0f,
                                    broadcast(1.0f) / trial, broadcast(1.0f), product, square);
    }
    trial = least_squares_scale(product, square, scale);
    const Vec one[1] = {broadcast(1.0f) / trial};
    for (int64_t b = 0; b < rows.blocks; ++b) {
      Vec errors[1];
      squared_errors<kWeighted>(rows.lanes + b * rows.block * kSearchLanes,
                                kWeighted ? rows.importance + b * rows.block : nullptr, rows.block, -127.0f, 127.0f,
                                one, errors);
      trial_total += widen(errors[0] * trial * trial);
    }
    for (int lane = 0; lane < kSearchLanes; ++lane) {
      if (trial_total[lane] >= total[lane]) continue;
      total[lane] = trial_total[lane];
      scale[lane] = trial[lane];
    }
  }
  write_quantized(rows.lanes, rows.blocks * rows.block, -127.0f, 127.0f, broadcast(1.0f) / scale, rows.quantized);
  store(found.scales, scale);
}

TANDEM_SEARCH_TARGET static void lpbq4(const Rows& rows, Found& found) {
  rows.importance != nullptr ? search_lpbq4_rows<true>(rows, found) : search_lpbq4_rows<false>(rows, found);
}
TANDEM_SEARCH_TARGET static void int8(const Rows& rows, Found& found) {
  rows.importance != nullptr ? search_int8_rows<true>(rows, found) : search_int8_rows<false>(rows, found);
}

#undef TANDEM_SEARCH_INLINE
