// The engine behind include/tandem/engine.h.
#pragma once

#include <functional>
#include <mutex>
#include <optional>

#include "artifact/reader.h"
#include "backends/interface/program.h"
#include "base/thread_pool.h"
#include "chat/chat_template.h"
#include "runtime/hidden_output.h"
#include "runtime/kv_transfer.h"
#include "runtime/method_table.h"
#include "tandem/engine.h"
#include "tokenizer/token_rules.h"
#include "tokenizer/tokenizer.h"

namespace tandem {

// Whether they make sense, whatever the file. The back ends check their own.
Status check_engine_options(const EngineOptions& options);

class LoadedEngine final : public Engine {
 public:
  // Makes the program that runs a file's methods. The artifact and the pool outlive the program.
  using ProgramMaker = std::function<Result<std::unique_ptr<Program>>(const Artifact& artifact, ThreadPool& pool)>;

  // With `make_program`, the methods run on that instead of on the back end that the file is for; of a file for several
  // targets it gets the first program, or the one that `run_on` names.
  static Result<std::shared_ptr<LoadedEngine>> load(const std::filesystem::path& path, const EngineOptions& options,
                                                    const ProgramMaker& make_program = {});
  static Result<std::shared_ptr<LoadedEngine>> load(const FileRegion& region, const EngineOptions& options);

  Result<std::unique_ptr<Session>> new_session() override;
  Mode mode() const override { return table_.mode(); }
  int64_t context() const override { return table_.context(); }
  int64_t vocab_size() const override { return artifact_.header().model.vocab_size; }
  int threads() const override { return pool_.size(); }
  GenerateOptions default_options() const override;
  bool has_tokenizer() const override { return tokenizer_.has_value(); }
  Result<std::vector<int32_t>> encode(std::string_view text, bool add_special,
                                      bool parse_special = false) const override;
  Result<std::vector<int32_t>> encode_chat(std::span<const Message> messages, bool add_generation_prompt,
                                           std::string_view variables = {}, bool parse_special = false) const override;
  Result<std::string> decode(std::span<const int32_t> tokens, bool skip_special) const override;
  Result<std::string> render_chat(std::span<const Message> messages, bool add_generation_prompt,
                                  std::string_view variables = {}) const override;
  std::span<const int32_t> eos_tokens() const override { return artifact_.header().text.eos_ids; }
  std::string_view target() const override { return artifact_.header().target; }
  std::string_view backend() const override { return artifact_.header().backend; }
  int64_t hidden_size() const override;

  // A conversation as text and as tokens.
  struct ChatPrompt {
    std::string text;
    std::vector<int32_t> tokens;
  };
  Result<ChatPrompt> chat_prompt(std::span<const Message> messages, bool add_generation_prompt,
                                 std::string_view variables, bool parse_special) const;
  // With the program that runs.
  const Artifact& artifact() const { return artifact_; }
  Program& program() { return *program_; }
  // What computes single tokens, if it is not program(); null otherwise.
  struct DecodeProgram {
    Artifact artifact;
    std::unique_ptr<Program> program = nullptr;
    MethodTable table = {};
    KvTransfer from_prompt = {}, to_prompt = {};
  };
  const DecodeProgram* decode_program() const { return decode_.get(); }
  ThreadPool& pool() { return pool_; }
  const MethodTable& table() const { return table_; }
  const std::optional<Tokenizer>& tokenizer() const { return tokenizer_; }
  // Verifies the weights' checksums once; later calls return the same result immediately.
  Status verify_weights();

 private:
  LoadedEngine(Artifact artifact, const EngineOptions& options)
      : options_(options), artifact_(with_hidden_output(std::move(artifact))), pool_(options.threads) {}
  static Result<std::shared_ptr<LoadedEngine>> load(Result<Artifact> artifact, const EngineOptions& options,
                                                    const ProgramMaker& make_program);
  Status bind_program(const ProgramMaker& make_program);
  Status bind_text();
  // Of the file's programs, the one for single tokens.
  Status bind_decode(const Artifact& file);
  Status load_decode(DecodeProgram& decode);
  Status compare_checksums();
  template <typename Call>
  auto with_tokenizer(Call&& call) const -> decltype(call());
  // What the chat template names, determined when first needed.
  const ControlTokens* control_tokens() const;

  EngineOptions options_;
  Artifact artifact_;
  ThreadPool pool_;
  std::unique_ptr<Program> program_;
  MethodTable table_;
  std::unique_ptr<DecodeProgram> decode_;
  std::optional<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_template_;
  Error chat_template_error_;  // Why there is none.
  mutable std::once_flag control_once_;
  mutable ControlTokens control_;
  std::once_flag verify_once_;
  Status verified_;
};

}  // namespace tandem
