#include "generation/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/error.h"

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF  // A fused multiply-add rounds differently; GCC does not fuse in -std=c++20.
#endif

namespace tandem {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

uint64_t split_mix(uint64_t& state) {
  state += 0x9e3779b97f4a7c15u;
  uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Terms of the series below: its error is under 4e-12.
constexpr size_t kTerms = 10;
constexpr std::array<double, kTerms> kInverseFactorials = [] {
  std::array<double, kTerms> values{};
  double factorial = 1;
  for (size_t n = 0; n < values.size(); ++n) {
    if (n > 0) factorial *= static_cast<double>(n);
    values[n] = 1 / factorial;
  }
  return values;
}();

// Below e^-42 a token is less likely than the generator's resolution of 2^-53, even next to many others.
constexpr double kLeastExponent = -42;

// e^x for kLeastExponent <= x <= 0, from additions and multiplications only, because libraries differ in the last bit:
// x = k ln 2 + r with |r| <= ln 2 / 2, and the Taylor series of e^r.
double portable_exp(double x) {
  constexpr double kLog2E = 1.4426950408889634074;
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  constexpr double kRounder = 0x1.8p52;  // Adding it rounds to a whole number.
  const double k = (x * kLog2E + kRounder) - kRounder;
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = kInverseFactorials[kTerms - 1];
  for (size_t n = kTerms - 1; n-- > 0;) sum = sum * r + kInverseFactorials[n];
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(k) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

// The first index of the largest logit, ignoring NaN; -1 if none is above -infinity. Written with vectors, because
// compilers do not vectorize it on their own. Comparisons with NaN are false, so NaN is never selected.
int32_t find_argmax(std::span<const float> logits) {
  typedef float Four __attribute__((vector_size(16)));
  constexpr size_t kVectors = 4, kLanes = 4, kBlock = 4096;
  float highest = kMinusInfinity;
  size_t index = 0;  // At first the start of the block with the highest.
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, logits.size());
    Four largest[kVectors];
    for (Four& four : largest) four = Four{kMinusInfinity, kMinusInfinity, kMinusInfinity, kMinusInfinity};
    size_t i = begin;
    for (; i + kVectors * kLanes <= end; i += kVectors * kLanes) {
      for (size_t v = 0; v < kVectors; ++v) {
        Four values;
        std::memcpy(&values, logits.data() + i + v * kLanes, sizeof(values));
        largest[v] = values > largest[v] ? values : largest[v];
      }
    }
    float block_highest = kMinusInfinity;
    for (const Four& four : largest) {
      for (size_t lane = 0; lane < kLanes; ++lane) block_highest = std::max(block_highest, four[lane]);
    }
    for (; i < end; ++i) block_highest = logits[i] > block_highest ? logits[i] : block_highest;
    if (block_highest <= highest) continue;
    highest = block_highest;
    index = begin;
  }
  if (highest == kMinusInfinity) return -1;
  while (logits[index] != highest) ++index;
  return static_cast<int32_t>(index);
}

}  // namespace

Status validate(const SamplerOptions& options) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    return invalid_argument("temperature is {}, but must be 0 (greedy) or a positive number", options.temperature);
  }
  if (options.top_k < 0) return invalid_argument("top_k is {}, but must be 0 (off) or positive", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return invalid_argument("top_p is {}, but must be above 0 and at most 1", options.top_p);
  }
  if (!(options.min_p >= 0 && options.min_p <= 1)) {
    return invalid_argument("min_p is {}, but must be from 0 to 1", options.min_p);
  }
  if (!(options.repetition_penalty > 0) || std::isinf(options.repetition_penalty)) {
    return invalid_argument("repetition_penalty is {}, but must be a positive number (1 is off)",
                            options.repetition_penalty);
  }
  if (options.repetition_window < 0) {
    return invalid_argument("repetition_window is {}, but must be 0 (all tokens) or positive",
                            options.repetition_window);
  }
  return ok_status();
}

Result<Sampler> Sampler::create(const SamplerOptions& options) {
  TANDEM_TRY(validate(options));
  return Sampler(options);
}

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  uint64_t seed = options.seed;
  for (uint64_t& word : state_) word = split_mix(seed);
}

void Sampler::set_state(const State& state) {
  // The all-zero state is the one that the generator cannot leave.
  if (state != State{}) state_ = state;
}

double Sampler::next_uniform() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return static_cast<double>(result >> 11) * 0x1p-53;
}

void Sampler::penalize(std::span<float> logits, std::span<const int32_t> history) {
  if (options_.repetition_penalty == 1) return;
  const auto window = static_cast<size_t>(options_.repetition_window);
  if (window > 0 && history.size() > window) history = history.last(window);
  if (seen_.size() < logits.size()) seen_.resize(logits.size(), 0);
  if (++call_ == 0) {  // Wrapped around: old marks would look new.
    std::fill(seen_.begin(), seen_.end(), 0);
    call_ = 1;
  }
  for (const int32_t id : history) {
    if (id < 0 || static_cast<size_t>(id) >= logits.size()) continue;
    const auto index = static_cast<size_t>(id);
    if (seen_[index] == call_) continue;  // Once per token, however often it occurred.
    seen_[index] = call_;
    float& logit = logits[index];
    logit = logit < 0 ? logit * options_.repetition_penalty : logit / options_.repetition_penalty;
  }
}

float Sampler::kth_largest(std::span<const float> logits) {
  const auto k = static_cast<size_t>(options_.top_k);
  heap_.clear();
  heap_.reserve(k);
  // A heap of the k largest so far, the smallest on top: for a small k nearly every logit fails the first comparison.
  for (const float logit : logits) {
    if (heap_.size() < k) {
      heap_.push_back(std::isnan(logit) ? kMinusInfinity : logit);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    } else if (logit > heap_.front()) {
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.back() = logit;
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }
  return heap_.front();
}

void Sampler::keep_top_p() {
  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const double wanted = static_cast<double>(options_.top_p) * total;
  // All candidates below this weight together have less than what may be left out: no need to sort them.
  const double negligible = (total - wanted) / static_cast<double>(candidates_.size());
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.weight < negligible; });
  const auto less_likely = [](const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight < b.weight : a.id > b.id;
  };
  // Most likely first, only as far as needed: popped candidates collect at the end.
  std::make_heap(candidates_.begin(), candidates_.end(), less_likely);
  double sum = 0;
  auto end = candidates_.end();
  while (end != candidates_.begin() && (sum < wanted || end == candidates_.end())) {
    std::pop_heap(candidates_.begin(), end, less_likely);
    --end;
    sum += end->weight;
  }
  candidates_.erase(candidates_.begin(), end);
}

void Sampler::keep_min_p() {
  // The most likely token has weight 1.
  const double least = static_cast<double>(options_.min_p);
  std::erase_if(candidates_, [&](const Candidate& candidate) { return candidate.weight < least; });
}

Result<int32_t> Sampler::consume_argmax(int32_t argmax, size_t vocabulary) {
  if (argmax < 0) return invalid_argument("no token can be picked: all {} logits are -inf or NaN", vocabulary);
  return argmax;
}

Result<int32_t> Sampler::sample(std::span<const float> logits, std::span<const int32_t> history) {
  if (logits.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return invalid_argument("{} logits are more than any vocabulary has", logits.size());
  }
  if (options_.repetition_penalty != 1) {
    changed_.assign(logits.begin(), logits.end());
    penalize(changed_, history);
    logits = changed_;
  }
  TANDEM_ASSIGN(const int32_t argmax, consume_argmax(find_argmax(logits), logits.size()));
  const float highest = logits[static_cast<size_t>(argmax)];
  if (options_.temperature == 0 || std::isinf(highest)) return argmax;

  float threshold = kMinusInfinity;
  if (options_.top_k > 0 && static_cast<size_t>(options_.top_k) < logits.size()) threshold = kth_largest(logits);
  candidates_.clear();
  candidates_.reserve(logits.size());
  const auto temperature = static_cast<double>(options_.temperature);
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] < threshold) continue;
    // The difference first: a tiny temperature must not turn large logits into infinities.
    const double scaled = (static_cast<double>(logits[i]) - static_cast<double>(highest)) / temperature;
    if (scaled >= kLeastExponent) candidates_.push_back({scaled, static_cast<int32_t>(i)});
  }
  for (Candidate& candidate : candidates_) candidate.weight = portable_exp(candidate.weight);
  if (options_.top_p < 1) keep_top_p();
  if (options_.min_p > 0) keep_min_p();

  double total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  const double point = next_uniform() * total;
  double sum = 0;
  for (const Candidate& candidate : candidates_) {
    sum += candidate.weight;
    if (point < sum) return candidate.id;
  }
  return argmax;  // Only if rounding kept the sum below the point.
}

}  // namespace tandem
