// How fast the CPU kernels are, per instruction set and weight format, on one thread, next to the memory bandwidth that
// the same thread reaches by only reading.
//
//   bench_kernels --benchmark_filter=linear/.*lpbq4
//
// Decode is reported in bytes of packed weights per second (GB/s); prefill counts a multiply-add as two operations
// (GOPS). On a shared machine take the best of --benchmark_repetitions=N.
#include <benchmark/benchmark.h>

#include <cstring>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "backends/cpu/kernels/kernels.h"
#include "base/format.h"

namespace tandem::cpu {
namespace {

template <typename T>
struct Aligned {
  explicit Aligned(uint64_t count)
      : data(static_cast<T*>(::operator new (count * sizeof(T) + 64, std::align_val_t{64}))) {
    std::memset(static_cast<void*>(data), 0, count * sizeof(T));
  }
  ~Aligned() { ::operator delete (data, std::align_val_t{64}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  T* data;
};

WeightMatrix random_matrix(WeightFormat format, int64_t rows, int64_t cols, int block) {
  std::mt19937 random(1);
  WeightMatrix m;
  m.format = format;
  m.rows = rows;
  m.cols = cols;
  m.block = format == WeightFormat::kLpbq4 ? block : 0;
  const size_t count = static_cast<size_t>(rows * cols);
  if (format == WeightFormat::kF32) m.f32.assign(count, 0.25f);
  if (format == WeightFormat::kF16 || format == WeightFormat::kBF16) m.half.assign(count, 0x3400);
  if (is_quantized(format)) {
    m.quantized.resize(count);
    for (int8_t& q : m.quantized) q = static_cast<int8_t>(static_cast<int>(random() % 16) - 8);
    m.scales.assign(static_cast<size_t>(rows), 0.01f);
    m.multipliers.assign(static_cast<size_t>(rows * m.blocks_per_row()), 11);
  }
  return m;
}

// Four streams with prefetching, like the decode kernels: a single plain stream reads more slowly than they do, and
// would not measure what memory can deliver.
void read_bandwidth(benchmark::State& state, int64_t bytes) {
  Aligned<uint64_t> memory(static_cast<uint64_t>(bytes) / 8);
  const int64_t quarter = bytes / 8 / 4;
  uint64_t sums[8] = {};
  for (auto _ : state) {
    for (int64_t i = 0; i < quarter; i += 8) {
      for (int64_t stream = 0; stream < 4; ++stream) {
        const uint64_t* at = memory.data + stream * quarter + i;
        __builtin_prefetch(at + 256);
        for (int j = 0; j < 8; ++j) sums[j] += at[j];
      }
    }
    benchmark::DoNotOptimize(sums);
  }
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(bytes) * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void linear(benchmark::State& state, const KernelTable* kernels, WeightFormat format, int block, int64_t rows,
            int64_t cols, int64_t tokens) {
  // Uses several copies of the matrix in turn, so that decoding reads memory and not a cache.
  const int64_t wanted = tokens == 1 ? int64_t{512} << 20 : 1;
  const PackedStorage storage = pack_matrix(random_matrix(format, rows, cols, block));
  const uint64_t bytes = storage.data.size() + storage.multipliers.size();
  const uint64_t data_bytes = (storage.data.size() + 63) / 64 * 64;
  const uint64_t copies = static_cast<uint64_t>(wanted) / data_bytes + 1;
  Aligned<uint8_t> memory(copies * data_bytes);
  for (uint64_t i = 0; i < copies; ++i) {
    std::memcpy(memory.data + i * data_bytes, storage.data.data(), storage.data.size());
  }
  PackedMatrix w = storage.view();
  const int64_t stride = (cols + kColAlign - 1) / kColAlign * kColAlign;
  std::vector<float> x(static_cast<size_t>(tokens * cols), 0.5f), scales(static_cast<size_t>(tokens));
  std::vector<float> y(static_cast<size_t>(tokens * rows));
  std::vector<int8_t> quantized(static_cast<size_t>(tokens * stride));
  kernels->quantize_rows(x.data(), cols, tokens, cols, quantized.data(), stride, scales.data());
  Aligned<uint8_t> scratch(kernels->linear_scratch_bytes(w, tokens));
  LinearTask task;
  task.weight = &w;
  task.panel_end = w.panels();
  task.tokens = tokens;
  task.x = x.data();
  task.x_stride = cols;
  const QuantizedLayout* layout = kernels->quantized_layout(tokens);
  const int64_t groups = layout == nullptr ? 0 : (tokens + layout->group - 1) / layout->group;
  Aligned<uint8_t> arranged(static_cast<uint64_t>(groups == 0 ? 64 : groups * layout->group_bytes(stride)));
  for (int64_t i = 0; i < groups; ++i) {
    const int64_t first = i * layout->group;
    layout->arrange(quantized.data() + first * stride, stride, std::min(layout->group, tokens - first), stride,
                    arranged.data + i * layout->group_bytes(stride));
  }
  task.quantized = {quantized.data(), stride, scales.data(), arranged.data};
  task.y = y.data();
  task.y_stride = rows;
  task.scratch = scratch.data;
  uint64_t copy = 0;
  for (auto _ : state) {
    w.data = memory.data + copy * data_bytes;
    copy = (copy + 1) % copies;
    kernels->linear(task);
    benchmark::ClobberMemory();
  }
  const double per_call = tokens == 1 ? static_cast<double>(bytes) : 2.0 * static_cast<double>(rows * cols * tokens);
  state.counters[tokens == 1 ? "GB/s" : "GOPS"] =
      benchmark::Counter(per_call * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void attention(benchmark::State& state, const KernelTable* kernels, DType dtype, int64_t tokens, int64_t slots) {
  const int64_t group = 2, dim = 128;
  Aligned<uint8_t> k(dtype_bytes(dtype, static_cast<size_t>(slots * dim)));
  Aligned<uint8_t> v(dtype_bytes(dtype, static_cast<size_t>(slots * dim)));
  std::vector<float> scales(static_cast<size_t>(2 * slots), 0.01f), q(static_cast<size_t>(tokens * group * dim), 0.1f);
  std::vector<float> out(q.size()), mask(static_cast<size_t>(tokens * slots));
  Aligned<float> scratch(kernels->attention_scratch_floats(tokens, group, dim));
  AttentionTask task;
  task.q = q.data();
  task.out = out.data();
  task.q_stride = task.out_stride = group * dim;
  task.tokens = tokens;
  task.group = group;
  task.dim = dim;
  task.k = {dtype, k.data, slots, scales.data()};
  task.v = {dtype, v.data, slots, scales.data()};
  task.slots = slots;
  task.mask = mask.data();
  task.mask_stride = slots;
  task.scale = 0.088f;
  task.scratch = scratch.data;
  for (auto _ : state) {
    kernels->attention(task);
    benchmark::ClobberMemory();
  }
  const double bytes = 2.0 * static_cast<double>(dtype_bytes(dtype, static_cast<size_t>(slots * dim)));
  const double operations = 4.0 * static_cast<double>(tokens * group * slots * dim);
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["GOPS"] = benchmark::Counter(operations * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

template <typename Call>
void elementwise(benchmark::State& state, Call call) {
  std::vector<float> x(8192, 0.5f), y(8192, 0.25f), z(8192);
  std::vector<int8_t> quantized(8192);
  float scale;
  for (auto _ : state) {
    call(x.data(), y.data(), z.data(), quantized.data(), &scale);
    benchmark::ClobberMemory();
  }
  state.counters["Gelem/s"] = benchmark::Counter(8192e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void register_all() {
  benchmark::RegisterBenchmark("read_bandwidth/512MiB",
                               [](benchmark::State& state) { read_bandwidth(state, int64_t{512} << 20); });
  benchmark::RegisterBenchmark("read_bandwidth/1MiB",
                               [](benchmark::State& state) { read_bandwidth(state, int64_t{1} << 20); });
  struct Case {
    WeightFormat format;
    int block;
  };
  const Case cases[] = {{WeightFormat::kF32, 0},   {WeightFormat::kF16, 0},    {WeightFormat::kBF16, 0},
                        {WeightFormat::kI8, 0},    {WeightFormat::kLpbq4, 16}, {WeightFormat::kLpbq4, 32},
                        {WeightFormat::kLpbq4, 64}};
  for (const KernelTable* kernels : available_kernels()) {
    for (const Case& c : cases) {
      for (const int64_t tokens : {1, 2, 4, 8, 32, 128}) {
        const std::string format = c.block == 0 ? std::string(weight_format_name(c.format))
                                                : str_format("{}-{}", weight_format_name(c.format), c.block);
        const std::string name = str_format("linear/{}/{}/2048x2048/tokens:{}", kernels->isa, format, tokens);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          linear(state, kernels, c.format, c.block, 2048, 2048, tokens);
        })->Unit(benchmark::kMicrosecond);
      }
    }
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kU8}) {
      for (const int64_t tokens : {1, 32, 128}) {
        const std::string name =
            str_format("attention/{}/{}/dim:128/group:2/slots:2048/tokens:{}", kernels->isa, dtype_name(dtype), tokens);
        benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) {
          attention(state, kernels, dtype, tokens, 2048);
        })->Unit(benchmark::kMicrosecond);
      }
    }
    const auto add = [&](const char* what, auto call) {
      benchmark::RegisterBenchmark(str_format("{}/{}", what, kernels->isa).c_str(),
                                   [call](benchmark::State& state) { elementwise(state, call); });
    };
    add("silu_mul", [=](float* x, float* y, float* z, int8_t*, float*) { kernels->silu_mul(x, y, 8192, z); });
    add("gelu_tanh_mul", [=](float* x, float* y, float* z, int8_t*, float*) { kernels->gelu_tanh_mul(x, y, 8192, z); });
    add("rms_norm",
        [=](float* x, float* y, float* z, int8_t*, float*) { kernels->rms_norm(x, 1, 8192, y, 0.0f, 1e-6f, z); });
    add("quantize_rows", [=](float* x, float*, float*, int8_t* quantized, float* scale) {
      kernels->quantize_rows(x, 8192, 1, 8192, quantized, 8192, scale);
    });
    add("argmax",
        [=](float* x, float*, float*, int8_t*, float*) { benchmark::DoNotOptimize(kernels->argmax(x, 8192)); });
  }
}

}  // namespace
}  // namespace tandem::cpu

int main(int argc, char** argv) {
  tandem::cpu::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
