#include "runtime/loaded_engine.h"

#include <algorithm>

#include "backends/registry/registry.h"
#include "base/error.h"
#include "base/guarded.h"
#include "base/log.h"
#include "base/version.h"
#include "runtime/chat_session.h"
#include "runtime/program_choice.h"
#include "tandem/version.h"

namespace tandem {

namespace {

// By segment: whether its weights are multiplied. The others' are only looked up, so their pages are released once
// their checksum has been verified.
std::vector<bool> multiplied_segments(const Artifact& artifact) {
  std::vector<bool> multiplied(artifact.header().segments.size(), false);
  for (const ir::Graph& graph : artifact.header().methods) {
    for (const ir::Op& op : graph.ops) {
      if (op.kind == ir::OpKind::kEmbedding) continue;
      for (const ir::TensorId id : op.inputs) {
        if (graph.at(id).role != ir::TensorRole::kWeight) continue;
        if (const WeightEntry* entry = artifact.find_weight(graph.at(id).name)) multiplied[entry->data.segment] = true;
      }
    }
  }
  return multiplied;
}

}  // namespace

const char* version() { return kVersion.data(); }

const char* mode_name(Mode mode) { return mode == Mode::kKv ? "kv" : "hybrid"; }

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kContextFull: return "context_full";
    case FinishReason::kCancelled: return "cancelled";
  }
  return "unknown";
}

namespace {

Result<std::shared_ptr<Engine>> as_engine(Result<std::shared_ptr<LoadedEngine>> engine) {
  if (!engine.ok()) return std::move(engine).error();
  return std::shared_ptr<Engine>(std::move(engine).value());
}

}  // namespace

Status check_engine_options(const EngineOptions& options) {
  if (options.threads >= 0 && options.threads <= 1024) return ok_status();
  return invalid_argument("{} threads make no sense; give 1 to 1024, or 0 for all cores", options.threads);
}

Result<std::shared_ptr<Engine>> Engine::load(const std::filesystem::path& path, const EngineOptions& options) {
  return as_engine(LoadedEngine::load(path, options));
}

Result<std::shared_ptr<Engine>> Engine::load(const FileRegion& region, const EngineOptions& options) {
  return as_engine(LoadedEngine::load(region, options));
}

Result<std::shared_ptr<LoadedEngine>> LoadedEngine::load(const std::filesystem::path& path,
                                                         const EngineOptions& options,
                                                         const ProgramMaker& make_program) {
  return guarded([&]() -> Result<std::shared_ptr<LoadedEngine>> {
    TANDEM_TRY(check_engine_options(options));
    return load(Artifact::open(path), options, make_program);
  });
}

Result<std::shared_ptr<LoadedEngine>> LoadedEngine::load(const FileRegion& region, const EngineOptions& options) {
  return guarded([&]() -> Result<std::shared_ptr<LoadedEngine>> {
    TANDEM_TRY(check_engine_options(options));
    return load(Artifact::open(region), options, {});
  });
}

Result<std::shared_ptr<LoadedEngine>> LoadedEngine::load(Result<Artifact> artifact, const EngineOptions& options,
                                                         const ProgramMaker& make_program) {
  if (!artifact.ok()) return std::move(artifact).error();
  const Log log(options.log, options.log_level);
  if (artifact->is_copy()) {
    log.write(LogLevel::kWarning,
              str_format("the model does not begin at a multiple of {} bytes of its file; {} bytes were copied",
                         MappedFile::kRegionAlignment, artifact->file_size()));
  }
  const std::string path = artifact->path().string();
  auto candidates = candidate_programs(artifact->header(), options.run_on);
  if (!candidates.ok()) return with_context(std::move(candidates).error(), "{}", path);
  if (make_program) candidates->resize(1);
  // Options that make no sense are no reason to try the next program.
  if (!make_program) TANDEM_TRY(check_program_options(artifact->header(), *candidates, options.backend));
  std::shared_ptr<LoadedEngine> engine;
  std::vector<FailedProgram> failed;
  for (const size_t index : *candidates) {
    engine.reset(new LoadedEngine(artifact->program(index), options));
    Status status = engine->bind_program(make_program);
    TANDEM_TRY(artifact->check());
    if (status.ok()) break;
    failed.push_back({std::string(engine->target()), std::move(status).error()});
    engine.reset();
  }
  if (engine == nullptr) return with_context(no_program_works(failed), "{}", path);
  for (const FailedProgram& program : failed) {
    log.write(LogLevel::kWarning, str_format("the model runs on {} and not on {}: {}", engine->target(), program.target,
                                             program.error.message));
  }
  if (!make_program) {
    if (Status status = engine->bind_decode(*artifact); !status.ok()) {
      TANDEM_TRY(artifact->check());
      return with_context(std::move(status).error(), "{}", path);
    }
  }
  const Status text = engine->bind_text();
  TANDEM_TRY(artifact->check());
  if (!text.ok()) return with_context(text.error(), "{}", path);
  if (options.verify == VerifyWeights::kAtLoad) TANDEM_TRY(engine->verify_weights());
  return engine;
}

Status LoadedEngine::bind_program(const ProgramMaker& make_program) {
  const Log log(options_.log, options_.log_level);
  TANDEM_ASSIGN(program_,
                make_program ? make_program(artifact_, pool_) : load_methods(artifact_, pool_, options_.backend, log));
  TANDEM_ASSIGN(table_, MethodTable::read(*program_, artifact_.header().model.vocab_size));
  return ok_status();
}

Status LoadedEngine::bind_decode(const Artifact& file) {
  if (options_.decode_on.empty()) return ok_status();
  TANDEM_ASSIGN(const std::vector<size_t> candidates,
                candidate_programs(file.header(), options_.decode_on, "decode_on"));
  TANDEM_TRY(check_program_options(file.header(), candidates, options_.backend));
  const Log log(options_.log, options_.log_level);
  for (const size_t index : candidates) {
    auto decode = std::make_unique<DecodeProgram>(DecodeProgram{with_hidden_output(file.program(index))});
    if (decode->artifact.header().target == target()) return ok_status();
    Status status = load_decode(*decode);
    TANDEM_TRY(file.check());
    if (status.ok()) {
      TANDEM_ASSIGN(decode->from_prompt, KvTransfer::plan(*program_, table_, *decode->program, decode->table));
      TANDEM_ASSIGN(decode->to_prompt, KvTransfer::plan(*decode->program, decode->table, *program_, table_));
      decode_ = std::move(decode);
      return ok_status();
    }
    log.write(LogLevel::kWarning, str_format("tokens are decoded on {} too and not on {}: {}", target(),
                                             decode->artifact.header().target, status.error().message));
  }
  return ok_status();
}

Status LoadedEngine::load_decode(DecodeProgram& decode) {
  const Log log(options_.log, options_.log_level);
  TANDEM_ASSIGN(decode.program, load_methods(decode.artifact, pool_, options_.backend, log));
  TANDEM_ASSIGN(decode.table, MethodTable::read(*decode.program, decode.artifact.header().model.vocab_size));
  return ok_status();
}

Status LoadedEngine::bind_text() {
  const ArtifactHeader& header = artifact_.header();
  chat_template_error_ = unsupported("the file has no tokenizer, so it cannot chat; give token ids");
  if (!header.text.has_tokenizer) return ok_status();
  TANDEM_TRY(artifact_.verify_segment(header.text.tokenizer.segment));
  TANDEM_ASSIGN(Tokenizer tokenizer, Tokenizer::from_blob(artifact_.bytes(header.text.tokenizer)));
  tokenizer_ = std::move(tokenizer);
  const TextInfo& text = header.text;
  auto chat_template = make_chat_template(
      {text.chat_template, text.tool_template, text.bos_token, text.eos_token, text.special_tokens}, &*tokenizer_);
  if (chat_template.ok()) {
    chat_template_ = std::move(chat_template).value();
  } else {
    chat_template_error_ = std::move(chat_template).error();
  }
  return ok_status();
}

// An exception leaves the flag as it was: the next call verifies.
Status LoadedEngine::verify_weights() {
  std::call_once(verify_once_, [this] {
    if (options_.verify != VerifyWeights::kNever) verified_ = compare_checksums();
  });
  return verified_;
}

Status LoadedEngine::compare_checksums() {
  const size_t count = artifact_.header().segments.size();
  std::vector<Status> results(count);
  // Not those of programs that do not run. Shards were verified before they were passed to the vendor's library, and
  // their pages are no longer needed.
  std::vector<bool> used(count, false), multiplied(count, false), shards(count, false);
  const auto add = [&](const Artifact& program) {
    const std::vector<bool> of_program = used_segments(program.header()), products = multiplied_segments(program);
    for (size_t i = 0; i < count; ++i) {
      used[i] = used[i] || of_program[i];
      multiplied[i] = multiplied[i] || products[i];
    }
    for (const Shard& shard : program.header().shards) shards[shard.binary.segment] = true;
  };
  add(artifact_);
  if (decode_ != nullptr) add(decode_->artifact);
  pool_.run(static_cast<int64_t>(count), [&](int64_t i, int) {
    const auto segment = static_cast<size_t>(i);
    if (!used[segment] || shards[segment]) return;
    results[segment] = artifact_.verify_segment(segment);
    if (!multiplied[segment]) artifact_.release_segment(segment);
  });
  for (Status& result : results) TANDEM_TRY(std::move(result));
  return ok_status();
}

Result<std::unique_ptr<Session>> LoadedEngine::new_session() {
  return make_session(std::static_pointer_cast<LoadedEngine>(shared_from_this()));
}

int64_t LoadedEngine::hidden_size() const {
  return decode_ == nullptr || decode_->table.hidden_size() == table_.hidden_size() ? table_.hidden_size() : 0;
}

GenerateOptions LoadedEngine::default_options() const {
  const GenerationDefaults& g = artifact_.header().generation;
  GenerateOptions options;
  options.max_new_tokens = std::max(g.max_new_tokens, 0);
  if (g.do_sample) {
    options.sampler.temperature = g.temperature;
    options.sampler.top_k = g.top_k;
    options.sampler.top_p = g.top_p;
    options.sampler.min_p = g.min_p;
  }
  options.sampler.repetition_penalty = g.repetition_penalty;
  return options;
}

// The tokenizer reads its tables in the mapped file: nothing computed from a changed file is returned.
template <typename Call>
auto LoadedEngine::with_tokenizer(Call&& call) const -> decltype(call()) {
  return guarded([&]() -> decltype(call()) {
    TANDEM_TRY(artifact_.check());
    auto result = call();
    TANDEM_TRY(artifact_.check());
    return result;
  });
}

const ControlTokens* LoadedEngine::control_tokens() const {
  std::call_once(control_once_, [this] {
    control_ = tokenizer_->control_tokens(chat_template_ != nullptr ? chat_template_->source() : std::string());
  });
  return &control_;
}

Result<std::vector<int32_t>> LoadedEngine::encode(std::string_view text, bool add_special, bool parse_special) const {
  return with_tokenizer([&]() -> Result<std::vector<int32_t>> {
    if (!tokenizer_) return unsupported("the file has no tokenizer; give token ids");
    if (parse_special) return tokenizer_->encode(text, add_special);
    const OriginSpan all{0, text.size(), Origin::kData};
    return tokenizer_->encode(text, {add_special, {&all, 1}, control_tokens()});
  });
}

Result<LoadedEngine::ChatPrompt> LoadedEngine::chat_prompt(std::span<const Message> messages,
                                                           bool add_generation_prompt, std::string_view variables,
                                                           bool parse_special) const {
  return with_tokenizer([&]() -> Result<ChatPrompt> {
    if (chat_template_ == nullptr) return chat_template_error_;
    TANDEM_ASSIGN(jinja::MarkedText text, chat_template_->render_marked(messages, add_generation_prompt, variables));
    std::vector<OriginSpan> origins;
    if (!parse_special) origins = text.spans();
    // Templates write their own special tokens; the tokenizer adds none.
    TANDEM_ASSIGN(std::vector<int32_t> tokens, tokenizer_->encode(text.bytes(), {false, origins, control_tokens()}));
    return ChatPrompt{std::move(text).take(), std::move(tokens)};
  });
}

Result<std::vector<int32_t>> LoadedEngine::encode_chat(std::span<const Message> messages, bool add_generation_prompt,
                                                       std::string_view variables, bool parse_special) const {
  TANDEM_ASSIGN(ChatPrompt prompt, chat_prompt(messages, add_generation_prompt, variables, parse_special));
  return std::move(prompt.tokens);
}

Result<std::string> LoadedEngine::decode(std::span<const int32_t> tokens, bool skip_special) const {
  return with_tokenizer([&]() -> Result<std::string> {
    if (!tokenizer_) return unsupported("the file has no tokenizer");
    return tokenizer_->decode(tokens, skip_special);
  });
}

Result<std::string> LoadedEngine::render_chat(std::span<const Message> messages, bool add_generation_prompt,
                                              std::string_view variables) const {
  return guarded([&]() -> Result<std::string> {
    if (chat_template_ == nullptr) return chat_template_error_;
    return chat_template_->render(messages, add_generation_prompt, variables);
  });
}

}  // namespace tandem
