// The calls that take long: generating, computing tokens, compiling.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "handles.h"
#include "tandem/compile.h"

namespace tandem::python {

struct Piece {
  bool is_reasoning = false;
  std::string text;
};

// What a generation starts from.
struct Prompt {
  enum class Kind { kAppend, kFrom, kChat };
  Kind kind = Kind::kAppend;
  std::vector<int32_t> tokens = {};
  std::vector<Message> messages = {};  // Of kChat.
};

// Generates as far as it is read: after each piece the library's callback waits until the reader asks for the next one.
// So a reader that stops leaves the session with the tokens that it has seen.
class Generation final : public BackgroundCall {
 public:
  Generation(std::shared_ptr<SessionHandle> session, Prompt prompt, GenerateOptions options);

  enum class Event { kPiece, kDone, kNothingYet };
  // The next piece, waiting for at most so long.
  Event next(std::chrono::milliseconds most, Piece& piece);
  // From now on pieces are dropped, and nothing waits for a reader.
  void finish();
  // Once done.
  const GenerateResult& result();

  bool while_paused(const std::function<void()>& action) override;
  void release() override;

 private:
  void run() override;
  void stop_library() override;
  void ended() override;
  bool emit(bool is_reasoning, std::string_view text);

  std::shared_ptr<SessionHandle> session_;  // Until the call has ended.
  Prompt prompt_;
  GenerateOptions options_;
  std::optional<Result<GenerateResult>> result_;
  // Under mutex_.
  std::deque<Piece> pieces_;
  bool asked_ = false;
  bool paused_ = false;
  bool waits_for_reader_ = true;
  bool keeps_pieces_ = true;
};

// Appends tokens to a session, and keeps the logits after each of them, after the last one, or none; or the hidden
// state of each.
class Scoring final : public BackgroundCall {
 public:
  enum class Rows { kNone, kLast, kAll, kHidden };
  Scoring(std::shared_ptr<SessionHandle> session, std::vector<int32_t> tokens, Rows rows);
  // Once done.
  void check_result() const;
  // Rows of the vocabulary's or the hidden state's size; null if no row is wanted.
  const std::shared_ptr<float[]>& logits() const { return logits_; }
  int64_t row_count() const;
  int64_t columns() const { return columns_; }

 private:
  void run() override;
  void stop_library() override;
  void ended() override;
  Status score();

  std::shared_ptr<SessionHandle> session_;
  std::vector<int32_t> tokens_;
  Rows rows_;
  int64_t columns_;
  std::shared_ptr<float[]> logits_;
  std::optional<Status> status_;
};

class Compilation final : public BackgroundCall {
 public:
  Compilation(std::filesystem::path checkpoint, std::filesystem::path output, CompileModelOptions options);

  // What has happened since the last call, waiting for at most so long; nothing once done. Progress of one stage is
  // only the latest.
  std::optional<std::vector<CompileProgress>> next(std::chrono::milliseconds most);
  const CompiledModel& result() const;

 private:
  void run() override;

  std::filesystem::path checkpoint_;
  std::filesystem::path output_;
  CompileModelOptions options_;
  std::vector<CompileProgress> progress_;  // Under mutex_.
  std::optional<Result<CompiledModel>> result_;
};

}  // namespace tandem::python
