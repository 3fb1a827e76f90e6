#include "compiler/calibration/self_samples.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "compiler/calibration/batch_decoder.h"
#include "ir/verifier.h"
#include "models/builder.h"
#include "reference/interpreter.h"
#include "reference/softmax.h"

namespace tandem {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();

// SplitMix64's output function (Steele, Lea, Flood, 2014).
uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

// The first tensor that is not finite when the tokens are computed, for people. The logits are not finite after them.
Error blame(const SelfSampling& job, const std::vector<int32_t>& tokens, ThreadPool& pool) {
  const auto run = [&]() -> Status {
    const auto length = static_cast<int64_t>(tokens.size());
    ir::Graph graph = build_graph(job.plan, {"blame", length, length});
    TANDEM_TRY(ir::verify(graph));
    const auto program = make_reference_program(
        {std::move(graph)}, job.weights, pool,
        [](const ir::Op& op, const ir::Tensor& output, std::span<const float> values) -> Status {
          if (op.kind == ir::OpKind::kMaskToFloat) return ok_status();
          if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) return ok_status();
          return corrupt("\"{}\" has values that are not finite; the model or its checkpoint is broken", output.name);
        });
    TANDEM_ASSIGN(MethodMemory memory, MethodMemory::allocate(*program));
    TANDEM_ASSIGN(const ir::MethodInputs inputs, ir::MethodInputs::read(program->method(0)));
    ir::fill_inputs(program->method(0), inputs, {tokens, 0, length > inputs.rope_limit}, memory.bindings(0));
    TANDEM_ASSIGN(const auto context, program->new_context());
    return context->run(0, memory.bindings(0));
  };
  Status status = run();
  return status.ok() ? corrupt("the model's logits are not finite; its checkpoint is broken")
                     : std::move(status).error();
}

// Samples that are decoded together.
class Wave {
 public:
  Wave(const SelfSampling& job, ThreadPool& pool, int64_t first, int64_t count)
      : job_(job), pool_(pool), first_(first), samples_(static_cast<size_t>(count)), given_(samples_.size()) {
    for (size_t i = 0; i < samples_.size(); ++i) begin_document(i);
  }

  Result<TokenSamples> run() {
    const auto count = static_cast<int64_t>(samples_.size());
    TANDEM_ASSIGN(const auto decoder, BatchDecoder::create(job_.plan, job_.weights, {count, job_.length}, pool_));
    std::vector<int32_t> tokens(samples_.size());
    for (int64_t position = 0; position < job_.length; ++position) {
      if (job_.stop && job_.stop()) return cancelled("stopped; the same command starts again with the samples");
      if (job_.progress) {
        job_.progress({"sampling", static_cast<uint64_t>(first_ * job_.length + position * count),
                       static_cast<uint64_t>(job_.samples * job_.length)});
      }
      if (position == 0) {
        for (size_t i = 0; i < samples_.size(); ++i) take_given(i);
      } else {
        TANDEM_ASSIGN(const std::span<const float> logits, decoder->step(tokens));
        TANDEM_TRY(append(logits));
      }
      for (size_t i = 0; i < samples_.size(); ++i) tokens[i] = samples_[i].back();
    }
    return std::move(samples_);
  }

 private:
  // Tokens that are given and not drawn, the next one last.
  struct Given {
    std::vector<int32_t> tokens;
    bool is_user = false;  // What is drawn is a user's message.
  };

  bool is_chat(size_t index) const {
    return !job_.documents.user.empty() && (static_cast<size_t>(first_) + index) % 4 != 3;
  }

  void begin_document(size_t index) {
    const DocumentTokens& documents = job_.documents;
    Given& given = given_[index];
    if (is_chat(index)) {
      given = {{documents.user.rbegin(), documents.user.rend()}, true};
    } else if (documents.begin) {
      given.tokens = {*documents.begin};
    } else if (samples_[index].empty()) {
      given.tokens = {documents.first[(static_cast<size_t>(first_) + index) % documents.first.size()]};
    }
  }

  // After the end of a message or a document: what comes before the next one.
  void go_on(size_t index) {
    Given& given = given_[index];
    const std::vector<int32_t>& answer = job_.documents.assistant;
    if (!given.is_user || answer.empty()) return begin_document(index);
    given = {{answer.rbegin(), answer.rend()}, false};
  }

  bool take_given(size_t index) {
    std::vector<int32_t>& given = given_[index].tokens;
    if (given.empty()) return false;
    samples_[index].push_back(given.back());
    given.pop_back();
    return true;
  }

  bool ends(int32_t token) const { return std::ranges::find(job_.documents.end, token) != job_.documents.end.end(); }

  Status append(std::span<const float> logits) {
    const auto vocabulary = static_cast<size_t>(job_.plan.vocab_size);
    std::vector<std::vector<float>> scratch(static_cast<size_t>(pool_.size()));
    std::vector<Status> failures(samples_.size());
    pool_.run(static_cast<int64_t>(samples_.size()), [&](int64_t row, int thread) {
      const auto i = static_cast<size_t>(row);
      std::vector<int32_t>& sample = samples_[i];
      const std::optional<int32_t>& begin = job_.documents.begin;
      const bool was_given = is_given_[i] != 0;
      if (!was_given && ends(sample.back())) go_on(i);
      is_given_[i] = take_given(i) ? 1 : 0;
      if (is_given_[i] != 0) return;
      // An empty document teaches nothing, and some models would write nothing else.
      const bool is_new = was_given || ends(sample.back()) || sample.back() == begin;
      const auto excluded = is_new ? std::span<const int32_t>(job_.documents.end) : std::span<const int32_t>();
      const auto usable = static_cast<size_t>(std::min(job_.documents.vocabulary, job_.plan.vocab_size));
      const auto token = draw_token(logits.subspan(i * vocabulary, usable), excluded,
                                    uniform_at(job_.seed, static_cast<uint64_t>(first_) + i, sample.size()),
                                    scratch[static_cast<size_t>(thread)]);
      if (token.ok()) {
        sample.push_back(*token);
      } else {
        failures[i] = token.error();
      }
    });
    for (size_t i = 0; i < failures.size(); ++i) {
      if (!failures[i].ok()) return blame(job_, samples_[i], pool_);
    }
    return ok_status();
  }

  const SelfSampling& job_;
  ThreadPool& pool_;
  int64_t first_;
  TokenSamples samples_;
  std::vector<Given> given_;                                                  // By sample.
  std::vector<uint8_t> is_given_ = std::vector<uint8_t>(samples_.size(), 1);  // Whether its last token was.
};

}  // namespace

double uniform_at(uint64_t seed, uint64_t sample, uint64_t position) {
  const uint64_t bits = mixed(mixed(mixed(seed) ^ sample) ^ position);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

Result<int32_t> draw_token(std::span<const float> logits, std::span<const int32_t> excluded, double uniform,
                           std::vector<float>& weights) {
  weights.assign(logits.begin(), logits.end());
  float highest = kExcluded;
  bool is_nan = false;
  for (const float logit : weights) is_nan |= std::isnan(logit);
  for (const int32_t token : excluded) {
    if (token >= 0 && static_cast<size_t>(token) < weights.size()) weights[static_cast<size_t>(token)] = kExcluded;
  }
  for (const float logit : weights) highest = std::max(highest, logit);
  if (is_nan || !std::isfinite(highest)) {
    return corrupt("the model's logits are not finite");
  }
  exp_row(weights.data(), static_cast<int64_t>(weights.size()), highest);
  double sum = 0.0;
  for (const float weight : weights) sum += weight;
  const double wanted = uniform * sum;
  double running = 0.0;
  size_t last = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0f) continue;
    last = i;
    running += weights[i];
    if (running > wanted) break;
  }
  return static_cast<int32_t>(last);
}

Result<TokenSamples> sample_from_model(const SelfSampling& job, ThreadPool& pool) {
  if (!job.documents.begin && job.documents.first.empty()) return internal_error("no token to start samples with");
  const uint64_t each = BatchDecoder::cache_bytes(job.plan, job.length);
  const auto together = static_cast<int64_t>(std::max<uint64_t>(job.cache_limit / each, 1));
  // Waves of about the same size.
  const int64_t waves = (job.samples + together - 1) / together;
  TokenSamples samples;
  for (int64_t wave = 0; wave < waves; ++wave) {
    const int64_t begin = job.samples * wave / waves, end = job.samples * (wave + 1) / waves;
    TANDEM_ASSIGN(TokenSamples some, Wave(job, pool, begin, end - begin).run());
    for (auto& sample : some) samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace tandem
