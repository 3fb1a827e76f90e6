// Sessions: generating, scoring, cancelling.
#include <cstdlib>
#include <type_traits>

#include "base/error.h"
#include "base/guarded.h"
#include "c_api/border.h"
#include "c_api/objects.h"
#include "c_api/options.h"
#include "c_api/structs.h"

namespace tandem::c_api {

HandleTable<SessionObject>& sessions() {
  static auto* const table = new HandleTable<SessionObject>("session");
  return *table;
}

namespace {

// Runs call(session) and remembers its error in the session too.
tandem_status with_session(const tandem_session* handle, FunctionRef<Status(SessionObject&)> call) {
  return at_border([&]() -> Status {
    TANDEM_ASSIGN(const std::shared_ptr<SessionObject> session, sessions().find(handle));
    Status status = guarded([&] { return call(*session); });
    if (!status.ok()) session->remember(status.error());
    return status;
  });
}

// What all generate functions share: start(session, call) is a call of the session.
tandem_status generate(tandem_session* handle, const tandem_generate_options* options, tandem_generate_result* result,
                       FunctionRef<Result<GenerateResult>(Session&, const GenerateCall&)> start) {
  if (result != nullptr) {
    const tandem_status cleared = at_border([&] { return clear_struct(kGenerateResultLayout, result); });
    if (cleared != TANDEM_OK) return cleared;
  }
  return with_session(handle, [&](SessionObject& session) -> Status {
    TANDEM_ASSIGN(const GenerateCall call, to_generate_call(options));
    return session.alone([&]() -> Status {
      TANDEM_ASSIGN(const GenerateResult made, start(session.session(), call));
      return result == nullptr ? ok_status() : write_result(made, result);
    });
  });
}

// read() gives the messages, or an error.
tandem_status generate_chat(tandem_session* handle, const tandem_generate_options* options,
                            tandem_generate_result* result, FunctionRef<Result<std::vector<Message>>()> read) {
  return generate(handle, options, result, [&](Session& session, const GenerateCall& call) -> Result<GenerateResult> {
    TANDEM_ASSIGN(const std::vector<Message> messages, read());
    return session.generate_chat(messages, call.options, call.callback);
  });
}

using RowFunction = std::function<Status(size_t, std::span<const float>)>;
static_assert(std::is_same_v<tandem_logits_function, tandem_hidden_function>);

RowFunction to_row_function(tandem_logits_function function, void* user_data) {
  if (function == nullptr) return {};
  return [=](size_t index, std::span<const float> row) -> Status {
    if (function(index, row.data(), row.size(), user_data) != 0) return ok_status();
    return cancelled("the function that receives the rows stopped the call");
  };
}

}  // namespace
}  // namespace tandem::c_api

extern "C" {

using namespace tandem::c_api;  // NOLINT: every function below is of it.
using tandem::ok_status;
using tandem::Status;

tandem_status tandem_session_create(const tandem_engine* handle, tandem_session** session) {
  return at_border([&]() -> Status {
    if (session == nullptr) return tandem::invalid_argument("there is no place for the session: its pointer is NULL");
    *session = nullptr;
    TANDEM_ASSIGN(const auto engine, engines().find(handle));
    TANDEM_ASSIGN(auto made, engine->new_session());
    *session = reinterpret_cast<tandem_session*>(sessions().add(std::make_shared<SessionObject>(std::move(made))));
    return ok_status();
  });
}

tandem_status tandem_session_destroy(tandem_session* handle) {
  if (handle == nullptr) return TANDEM_OK;
  return at_border([&]() -> Status {
    TANDEM_ASSIGN(const auto session, sessions().remove(handle));
    session->session().cancel();  // A call that is running holds on to the session, and lets go of it when it returns.
    return ok_status();
  });
}

tandem_status tandem_session_generate_chat(tandem_session* session, const tandem_message* messages,
                                           size_t message_count, const tandem_generate_options* options,
                                           tandem_generate_result* result) {
  return generate_chat(session, options, result, [&] { return to_messages(messages, message_count); });
}

tandem_status tandem_session_generate_chat_json(tandem_session* session, const char* messages,
                                                const tandem_generate_options* options,
                                                tandem_generate_result* result) {
  return generate_chat(session, options, result, [&] { return to_messages(messages); });
}

tandem_status tandem_session_generate(tandem_session* session, const int32_t* tokens, size_t count,
                                      const tandem_generate_options* options, tandem_generate_result* result) {
  return generate(session, options, result,
                  [&](tandem::Session& s, const GenerateCall& call) -> tandem::Result<tandem::GenerateResult> {
                    TANDEM_ASSIGN(const auto ids, token_span(tokens, count));
                    return s.generate(ids, call.options, call.callback);
                  });
}

tandem_status tandem_session_generate_from(tandem_session* session, const int32_t* tokens, size_t count,
                                           const tandem_generate_options* options, tandem_generate_result* result) {
  return generate(session, options, result,
                  [&](tandem::Session& s, const GenerateCall& call) -> tandem::Result<tandem::GenerateResult> {
                    TANDEM_ASSIGN(const auto ids, token_span(tokens, count));
                    return s.generate_from(ids, call.options, call.callback);
                  });
}

tandem_status tandem_generate_result_clear(tandem_generate_result* result) {
  if (result == nullptr) return TANDEM_OK;
  return at_border([&]() -> Status {
    tandem_generate_result known = TANDEM_GENERATE_RESULT_INIT;
    TANDEM_TRY(read_struct(kGenerateResultLayout, result, &known));
    TANDEM_TRY(clear_struct(kGenerateResultLayout, result));
    std::free(known.text);
    std::free(known.reasoning);
    std::free(known.stop_string);
    std::free(known.tokens);
    return ok_status();
  });
}

tandem_status tandem_session_cancel(tandem_session* handle) {
  return with_session(handle, [](SessionObject& session) {
    session.session().cancel();
    return ok_status();
  });
}

tandem_status tandem_session_clear_cancel(tandem_session* handle) {
  return with_session(handle, [](SessionObject& session) {
    session.session().clear_cancel();
    return ok_status();
  });
}

tandem_status tandem_session_tokens(tandem_session* handle, int32_t** tokens, size_t* count) {
  const tandem_status cleared = at_border([&] { return clear(tokens, count); });
  if (cleared != TANDEM_OK) return cleared;
  return with_session(handle, [&](SessionObject& session) -> Status {
    const auto copy = [&] { return copy_tokens(session.session().tokens(), tokens, count); };
    return session.is_in_callback() ? copy() : session.alone(copy);
  });
}

tandem_status tandem_session_rewind(tandem_session* handle, int64_t length) {
  return with_session(
      handle, [&](SessionObject& session) { return session.alone([&] { return session.session().rewind(length); }); });
}

tandem_status tandem_session_score(tandem_session* handle, const int32_t* tokens, size_t count,
                                   tandem_logits_function on_logits, void* user_data) {
  return with_session(handle, [&](SessionObject& session) -> Status {
    TANDEM_ASSIGN(const auto ids, token_span(tokens, count));
    const RowFunction on_row = to_row_function(on_logits, user_data);
    return session.alone([&] { return session.session().score(ids, on_row); });
  });
}

tandem_status tandem_session_embed(tandem_session* handle, const int32_t* tokens, size_t count,
                                   tandem_hidden_function on_hidden, void* user_data) {
  return with_session(handle, [&](SessionObject& session) -> Status {
    TANDEM_ASSIGN(const auto ids, token_span(tokens, count));
    const RowFunction on_row = to_row_function(on_hidden, user_data);
    return session.alone([&] { return session.session().embed(ids, on_row); });
  });
}

tandem_status tandem_session_last_error(tandem_session* handle, tandem_status* code, char** message) {
  return at_border([&]() -> Status {
    if (code != nullptr) *code = TANDEM_OK;
    TANDEM_TRY(clear(message, nullptr));
    TANDEM_ASSIGN(const auto session, sessions().find(handle));
    const auto error = session->last_error();
    TANDEM_TRY(copy_text(error ? error->message : "", message, nullptr));
    if (code != nullptr && error) *code = code_of(*error);
    return ok_status();
  });
}
}
