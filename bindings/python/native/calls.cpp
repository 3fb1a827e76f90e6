#include "calls.h"

#include <algorithm>

#include "failure.h"

namespace tandem::python {

Generation::Generation(std::shared_ptr<SessionHandle> session, Prompt prompt, GenerateOptions options)
    : session_(std::move(session)), prompt_(std::move(prompt)), options_(std::move(options)) {}

void Generation::run() {
  Session& session = session_->session();
  const auto on_piece = [this](std::string_view piece) { return emit(false, piece); };
  options_.on_reasoning = [this](std::string_view piece) { return emit(true, piece); };
  switch (prompt_.kind) {
    case Prompt::Kind::kAppend: result_ = session.generate(prompt_.tokens, options_, on_piece); break;
    case Prompt::Kind::kFrom: result_ = session.generate_from(prompt_.tokens, options_, on_piece); break;
    case Prompt::Kind::kChat: result_ = session.generate_chat(prompt_.messages, options_, on_piece); break;
  }
}

void Generation::stop_library() { session_->session().cancel(); }

void Generation::ended() {
  // A stop is for this call alone, even if it came too late for it.
  if (stop_requested()) session_->session().clear_cancel();
  session_->end(this);
  std::shared_ptr<SessionHandle> session;  // Freed without the lock.
  const std::scoped_lock lock(mutex_);
  session = std::move(session_);
}

bool Generation::emit(bool is_reasoning, std::string_view text) {
  std::unique_lock lock(mutex_);
  if (stop_) return false;
  if (!keeps_pieces_) return true;
  pieces_.push_back({is_reasoning, std::string(text)});
  paused_ = true;
  changed_.notify_all();
  changed_.wait(lock, [&] { return stop_ || !waits_for_reader_ || (asked_ && pieces_.empty()); });
  paused_ = false;
  return !stop_;
}

Generation::Event Generation::next(std::chrono::milliseconds most, Piece& piece) {
  check_process(pid_);
  const Unlocked unlocked;
  std::unique_lock lock(mutex_);
  asked_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, most, [&] { return !pieces_.empty() || done_; });
  if (!pieces_.empty()) {
    asked_ = false;
    piece = std::move(pieces_.front());
    pieces_.pop_front();
    return Event::kPiece;
  }
  return done_ ? Event::kDone : Event::kNothingYet;
}

void Generation::finish() {
  check_process(pid_);
  const std::scoped_lock lock(mutex_);
  keeps_pieces_ = false;
  waits_for_reader_ = false;
  pieces_.clear();
  changed_.notify_all();
}

const GenerateResult& Generation::result() {
  check_process(pid_);
  if (!done()) throw Failure({ErrorCode::kInvalidArgument, "the generation has not ended"});
  if (!result_->ok()) throw Failure(result_->error());
  return result_->value();
}

bool Generation::while_paused(const std::function<void()>& action) {
  const std::scoped_lock lock(mutex_);
  // Once asked for the next piece the thread may wake up, but not before it gets this lock.
  if (!paused_) return false;
  action();
  return true;
}

void Generation::release() {
  const std::scoped_lock lock(mutex_);
  waits_for_reader_ = false;
  changed_.notify_all();
}

Scoring::Scoring(std::shared_ptr<SessionHandle> session, std::vector<int32_t> tokens, Rows rows)
    : session_(std::move(session)),
      tokens_(std::move(tokens)),
      rows_(rows),
      columns_(rows == Rows::kHidden ? session_->hidden_size() : session_->vocab_size()) {
  const int64_t context = session_->context();
  if (tokens_.empty()) throw Failure({ErrorCode::kInvalidArgument, "there are no tokens to compute"});
  if (static_cast<int64_t>(tokens_.size()) > context) {  // Before memory is taken for so many rows.
    throw Failure({ErrorCode::kResourceExhausted, std::to_string(tokens_.size()) +
                                                      " tokens are more than the context of " +
                                                      std::to_string(context) + " positions"});
  }
  if (row_count() > 0 && columns_ > 0) logits_.reset(new float[static_cast<size_t>(row_count() * columns_)]);
}

int64_t Scoring::row_count() const {
  switch (rows_) {
    case Rows::kNone: return 0;
    case Rows::kLast: return 1;
    case Rows::kAll:
    case Rows::kHidden: break;
  }
  return static_cast<int64_t>(tokens_.size());
}

Status Scoring::score() {
  Session& session = session_->session();
  const auto columns = static_cast<size_t>(columns_);
  const auto keep = [&](size_t index, std::span<const float> row) -> Status {
    if (row.size() != columns) return Error{ErrorCode::kInternal, "a row is not as long as the engine said"};
    std::ranges::copy(row, logits_.get() + index * columns);
    return {};
  };
  const std::span<const int32_t> tokens = tokens_;
  if (rows_ == Rows::kAll) return session.score(tokens, keep);
  if (rows_ == Rows::kHidden) return session.embed(tokens, keep);  // Says so if the file has none.
  if (rows_ == Rows::kNone) return session.score(tokens, {});
  if (tokens.size() > 1) {
    if (Status status = session.score(tokens.first(tokens.size() - 1), {}); !status.ok()) return status;
  }
  return session.score(tokens.last(1), keep);
}

void Scoring::run() { status_ = score(); }
void Scoring::stop_library() { session_->session().cancel(); }

void Scoring::ended() {
  if (stop_requested()) session_->session().clear_cancel();
  session_->end(this);
}

void Scoring::check_result() const { check(*status_); }

Compilation::Compilation(std::filesystem::path checkpoint, std::filesystem::path output, CompileModelOptions options)
    : checkpoint_(std::move(checkpoint)), output_(std::move(output)), options_(std::move(options)) {
  options_.stop = [this] { return stop_requested(); };
  options_.log = push_log;
  options_.progress = [this](const CompileProgress& progress) {
    const std::scoped_lock lock(mutex_);
    if (!progress_.empty() && progress_.back().stage == progress.stage) {
      progress_.back() = progress;
    } else {
      progress_.push_back(progress);
    }
    changed_.notify_all();
  };
}

std::optional<std::vector<CompileProgress>> Compilation::next(std::chrono::milliseconds most) {
  const Unlocked unlocked;
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return !progress_.empty() || done_; });
  if (progress_.empty() && done_) return std::nullopt;
  return std::exchange(progress_, {});
}

const CompiledModel& Compilation::result() const {
  if (!result_->ok()) throw Failure(result_->error());
  return result_->value();
}

void Compilation::run() { result_ = compile_model(checkpoint_, output_, options_); }

}  // namespace tandem::python
