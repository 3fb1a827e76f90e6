#include "bench/benchmark.h"

#include <sys/resource.h>

#include <algorithm>
#include <set>

#include "backends/interface/method_memory.h"
#include "backends/registry/registry.h"
#include "base/clock.h"
#include "base/error.h"
#include "runtime/loaded_engine.h"
#include "runtime/token_runner.h"

namespace tandem {
namespace {

const std::atomic<bool> kNeverStop{false};

// The bytes of the weights that the decode method multiplies with, each once, and of the keys and values that it reads.
// 0 if weights are inside a device's binaries: what is read from where is then the device's own business.
uint64_t bytes_per_token(const LoadedEngine& engine, int64_t positions) {
  const Artifact& artifact = engine.artifact();
  const ir::Graph* decode = artifact.find_method("decode");
  if (decode == nullptr) return 0;
  uint64_t bytes = 0;
  for (const ir::Op& op : decode->ops) {
    for (const ir::TensorId id : op.inputs) {
      const ir::Tensor& t = decode->at(id);
      if (t.role == ir::TensorRole::kWeight && op.kind == ir::OpKind::kLinear) {
        const WeightEntry* w = artifact.find_weight(t.name);
        if (w == nullptr) return 0;
        bytes += w->bytes();
      } else if (t.role == ir::TensorRole::kState && ir::is_attention(op.kind)) {
        bytes += tensor_bytes(t) / static_cast<uint64_t>(decode->context) * static_cast<uint64_t>(positions);
      }
    }
  }
  return bytes;
}

// Multiplications and additions of linear layers and attention for `tokens` tokens after `before` others, the LM head
// once.
double count_operations(const LoadedEngine& engine, int64_t before, int64_t tokens) {
  const ir::Graph* decode = engine.artifact().find_method("decode");
  if (decode == nullptr) return 0.0;
  const auto count = static_cast<double>(tokens);
  double operations = 0.0;
  for (const ir::Op& op : decode->ops) {
    if (op.kind == ir::OpKind::kLinear) {
      const ir::Tensor& weight = decode->at(op.inputs[1]);
      const double each = 2.0 * static_cast<double>(weight.shape[0]) * static_cast<double>(weight.shape[1]);
      operations += each * (weight.shape[0] == engine.vocab_size() ? 1.0 : count);
    } else if (ir::is_attention(op.kind)) {
      // Two products; on average a token sees the tokens before the call and half of the others, or its window.
      const double width = static_cast<double>(decode->at(op.inputs[0]).shape[1]);
      const double window = static_cast<double>(op.attributes.window);
      const double all = static_cast<double>(before) + count / 2.0;
      const double seen = window > 0.0 ? std::min(window, all) : all;
      operations += 4.0 * width * seen * count;
    }
  }
  return operations;
}

uint64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;
}

}  // namespace

double measure_read_bandwidth(ThreadPool& pool) {
  // Larger than what any known cache keeps, small enough for a phone.
  constexpr uint64_t kBytes = uint64_t{512} << 20;
  const AlignedMemory memory = allocate_aligned(kBytes);
  if (memory == nullptr) return 0.0;
  const auto* words = reinterpret_cast<const uint64_t*>(memory.get());
  constexpr int64_t kWords = kBytes / sizeof(uint64_t);
  const int64_t tasks = pool.size() * 8;
  std::fill_n(memory.get(), kBytes, uint8_t{1});
  std::vector<uint64_t> sums(static_cast<size_t>(tasks));
  double best = 0.0;
  for (int repeat = 0; repeat < 8; ++repeat) {
    const Clock::time_point start = Clock::now();
    pool.run(tasks, [&](int64_t task, int) {
      // Four streams with prefetching: a single stream does not keep enough reads in flight to saturate the memory
      // channels.
      const int64_t part = kWords / tasks / 4 / 8 * 8;
      const uint64_t* begin = words + kWords / tasks * task;
      uint64_t lanes[8] = {};
      for (int64_t i = 0; i < part; i += 8) {
        for (int64_t stream = 0; stream < 4; ++stream) {
          const uint64_t* at = begin + stream * part + i;
          __builtin_prefetch(at + 256);
          for (int lane = 0; lane < 8; ++lane) lanes[lane] += at[lane];
        }
      }
      for (const uint64_t lane : lanes) sums[static_cast<size_t>(task)] += lane;
    });
    best = std::max(best, static_cast<double>(kBytes) / seconds_since(start));
  }
  // Uses the sums, so that the reads cannot be optimized away.
  return std::ranges::max(sums) == 0 ? 0.0 : best;
}

double measure_int8_peak(ThreadPool& pool, const Processor& processor) {
  if (processor.multiply_int8 == nullptr) return 0.0;
  constexpr int64_t kRounds = 1 << 16;
  double best = 0.0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    std::vector<int64_t> done(static_cast<size_t>(pool.size()));
    const Clock::time_point start = Clock::now();
    pool.run(pool.size(),
             [&](int64_t task, int) { done[static_cast<size_t>(task)] = processor.multiply_int8(kRounds); });
    const double seconds = seconds_since(start);
    double operations = 0.0;
    for (const int64_t part : done) operations += static_cast<double>(part);
    best = std::max(best, operations / seconds);
  }
  return best;
}

Result<BenchmarkReport> run_benchmark(const std::filesystem::path& file, const BenchmarkOptions& options,
                                      const ProgressCallback& progress) {
  const auto report_progress = [&](const char* stage, uint64_t done) {
    if (progress) progress({stage, done, 4});
  };
  BenchmarkReport report;
  report_progress("loading", 0);
  const Clock::time_point load_start = Clock::now();
  TANDEM_ASSIGN(const std::shared_ptr<LoadedEngine> engine, LoadedEngine::load(file, options.engine));
  report.load_seconds = seconds_since(load_start);
  if (options.prompt_tokens < 1 || options.new_tokens < 1 || options.repeats < 1) {
    return invalid_argument("prompt, new tokens and repeats must be at least 1");
  }
  if (options.prompt_tokens + options.new_tokens > engine->context()) {
    return invalid_argument("{} prompt and {} new tokens do not fit the context of {}; use fewer",
                            options.prompt_tokens, options.new_tokens, engine->context());
  }
  TANDEM_TRY(engine->verify_weights());
  TANDEM_ASSIGN(TokenRunner runner, TokenRunner::create(engine->program(), engine->table()));
  TANDEM_ASSIGN(const Backend* backend, backend_of(engine->artifact().header()));
  TANDEM_ASSIGN(const Processor processor, backend->processor());
  report.mode = mode_name(engine->mode());
  report.isa = processor.kernels;
  report.threads = engine->threads();
  report.prompt_tokens = options.prompt_tokens;
  report.new_tokens = options.new_tokens;
  report.file_bytes = engine->artifact().file_size();

  // Any tokens will do: the amount of work does not depend on them.
  std::vector<int32_t> prompt(static_cast<size_t>(options.prompt_tokens));
  for (size_t i = 0; i < prompt.size(); ++i)
    prompt[i] = static_cast<int32_t>(i * 7919 % static_cast<size_t>(engine->vocab_size()));
  const auto ignore = [](size_t, std::span<const float>) { return ok_status(); };
  const auto feed_one_by_one = [&](std::span<const int32_t> tokens, TokenRunner::Logits logits) -> Status {
    for (const int32_t& token : tokens) TANDEM_TRY(runner.feed({&token, 1}, logits, kNeverStop, ignore));
    return ok_status();
  };

  // As greedy sessions do.
  const auto wanted = runner.computes_argmax() ? TokenRunner::Logits::kArgmax : TokenRunner::Logits::kLast;
  report_progress("prompt", 1);
  TANDEM_TRY(runner.feed(prompt, wanted, kNeverStop, ignore));  // Faults the pages in.
  report.first_token_seconds = 1e30;
  double decode_seconds = 1e30;
  const std::vector<int32_t> next(static_cast<size_t>(options.new_tokens), prompt[0]);
  for (int repeat = 0; repeat < options.repeats; ++repeat) {
    runner.rewind(0);
    Clock::time_point start = Clock::now();
    TANDEM_TRY(runner.feed(prompt, wanted, kNeverStop, ignore));
    report.first_token_seconds = std::min(report.first_token_seconds, seconds_since(start));
    report_progress("decoding", 2);
    start = Clock::now();
    TANDEM_TRY(feed_one_by_one(next, wanted));
    decode_seconds = std::min(decode_seconds, seconds_since(start));
  }
  report.prompt_tokens_per_second = static_cast<double>(options.prompt_tokens) / report.first_token_seconds;
  report.decode_tokens_per_second = static_cast<double>(options.new_tokens) / decode_seconds;
  if (engine->mode() == Mode::kHybrid && options.one_by_one) {
    runner.rewind(0);
    const Clock::time_point start = Clock::now();
    // Only the logits of a prompt's last token are needed, in either mode.
    TANDEM_TRY(feed_one_by_one(std::span(prompt).first(prompt.size() - 1), TokenRunner::Logits::kNone));
    TANDEM_TRY(feed_one_by_one(std::span(prompt).last(1), wanted));
    report.kv_first_token_seconds = seconds_since(start);
  }
  report.peak_memory_bytes = peak_memory();  // Before the bandwidth test allocates its own.
  report_progress("memory bandwidth", 3);
  report.bytes_per_token = bytes_per_token(*engine, options.prompt_tokens + options.new_tokens / 2);
  if (report.bytes_per_token > 0) report.read_bytes_per_second = measure_read_bandwidth(engine->pool());
  report.prompt_operations = count_operations(*engine, 0, options.prompt_tokens);
  report.decode_operations = count_operations(*engine, options.prompt_tokens + options.new_tokens / 2, 1);
  // Every call of a method reads the weights once.
  for (int64_t left = options.prompt_tokens; left > 0; left -= engine->table().choose(left).tokens) {
    report.prompt_bytes += bytes_per_token(*engine, options.prompt_tokens - left);
  }
  report.int8_operations_per_second = measure_int8_peak(engine->pool(), processor);
  if (report.int8_operations_per_second > 0.0) {
    report.int8_share = report.prompt_operations / report.first_token_seconds / report.int8_operations_per_second;
  }
  if (report.read_bytes_per_second > 0.0) {
    report.bandwidth_share =
        static_cast<double>(report.bytes_per_token) * report.decode_tokens_per_second / report.read_bytes_per_second;
  }
  return report;
}

}  // namespace tandem
