// Engines: loading, what they are, text and tokens.
#include <memory>

#include "base/error.h"
#include "c_api/border.h"
#include "c_api/objects.h"
#include "c_api/options.h"
#include "c_api/structs.h"

namespace tandem::c_api {

HandleTable<Engine>& engines() {
  static auto* const table = new HandleTable<Engine>("engine");
  return *table;
}

namespace {

// open(options) loads a file.
tandem_status load(const tandem_engine_options* options, tandem_engine** engine,
                   FunctionRef<Result<std::shared_ptr<Engine>>(const EngineOptions&)> open) {
  return at_border([&]() -> Status {
    if (engine == nullptr) return invalid_argument("there is no place for the engine: its pointer is NULL");
    *engine = nullptr;
    TANDEM_ASSIGN(const EngineOptions given, to_engine_options(options));
    TANDEM_ASSIGN(std::shared_ptr<Engine> loaded, open(given));
    *engine = reinterpret_cast<tandem_engine*>(engines().add(std::move(loaded)));
    return ok_status();
  });
}

Status encode_chat(const tandem_engine* handle, const Result<std::vector<Message>>& messages, const char* variables,
                   uint32_t flags, int32_t** tokens, size_t* count) {
  TANDEM_TRY(clear(tokens, count));
  TANDEM_ASSIGN(const auto engine, engines().find(handle));
  TANDEM_TRY(check_flags(flags, TANDEM_ADD_GENERATION_PROMPT | TANDEM_PARSE_SPECIAL));
  TANDEM_TRY(messages.status());
  TANDEM_ASSIGN(const std::vector<int32_t> encoded,
                engine->encode_chat(*messages, (flags & TANDEM_ADD_GENERATION_PROMPT) != 0,
                                    variables == nullptr ? "" : variables, (flags & TANDEM_PARSE_SPECIAL) != 0));
  return copy_tokens(encoded, tokens, count);
}

Status render_chat(const tandem_engine* handle, const Result<std::vector<Message>>& messages, const char* variables,
                   uint32_t flags, char** text, size_t* length) {
  TANDEM_TRY(clear(text, length));
  TANDEM_ASSIGN(const auto engine, engines().find(handle));
  TANDEM_TRY(check_flags(flags, TANDEM_ADD_GENERATION_PROMPT));
  TANDEM_TRY(messages.status());
  TANDEM_ASSIGN(const std::string rendered, engine->render_chat(*messages, (flags & TANDEM_ADD_GENERATION_PROMPT) != 0,
                                                                variables == nullptr ? "" : variables));
  return copy_text(rendered, text, length);
}

}  // namespace
}  // namespace tandem::c_api

extern "C" {

using namespace tandem::c_api;  // NOLINT: every function below is of it.
using tandem::Engine;
using tandem::EngineOptions;
using tandem::ok_status;
using tandem::Result;
using tandem::Status;

tandem_status tandem_engine_load(const char* path, const tandem_engine_options* options, tandem_engine** engine) {
  return load(options, engine, [&](const EngineOptions& given) -> Result<std::shared_ptr<Engine>> {
    TANDEM_ASSIGN(const std::string_view name, text_view(path, "`path`"));
    return Engine::load(std::filesystem::path(name), given);
  });
}

tandem_status tandem_engine_load_fd(int32_t descriptor, int64_t offset, int64_t length,
                                    const tandem_engine_options* options, tandem_engine** engine) {
  return load(options, engine, [&](const EngineOptions& given) {
    return Engine::load(tandem::FileRegion{descriptor, offset, length}, given);
  });
}

tandem_status tandem_engine_destroy(tandem_engine* engine) {
  if (engine == nullptr) return TANDEM_OK;
  return at_border([&]() -> Status { return engines().remove(engine).status(); });
}

tandem_status tandem_engine_get_info(const tandem_engine* handle, tandem_engine_info* info) {
  return at_border([&]() -> Status {
    TANDEM_TRY(clear_struct(kEngineInfoLayout, info));
    TANDEM_ASSIGN(const auto engine, engines().find(handle));
    tandem_engine_info known = TANDEM_ENGINE_INFO_INIT;
    known.mode = static_cast<tandem_mode>(engine->mode());
    known.threads = engine->threads();
    known.context = engine->context();
    known.vocab_size = engine->vocab_size();
    known.has_tokenizer = engine->has_tokenizer() ? 1 : 0;
    known.target = engine->target().data();  // Both end with a zero byte: they are strings of the file's header.
    known.backend = engine->backend().data();
    known.hidden_size = engine->hidden_size();
    write_struct(kEngineInfoLayout, &known, info);
    return ok_status();
  });
}

tandem_status tandem_engine_eos_tokens(const tandem_engine* handle, int32_t** tokens, size_t* count) {
  return at_border([&]() -> Status {
    TANDEM_TRY(clear(tokens, count));
    TANDEM_ASSIGN(const auto engine, engines().find(handle));
    return copy_tokens(engine->eos_tokens(), tokens, count);
  });
}

tandem_status tandem_engine_default_options(const tandem_engine* handle, tandem_generate_options* options) {
  return at_border([&]() -> Status {
    TANDEM_TRY(clear_struct(kGenerateOptionsLayout, options));
    TANDEM_ASSIGN(const auto engine, engines().find(handle));
    from_generate_options(engine->default_options(), options);
    return ok_status();
  });
}

tandem_status tandem_engine_encode(const tandem_engine* handle, const char* text, size_t length, uint32_t flags,
                                   int32_t** tokens, size_t* count) {
  return at_border([&]() -> Status {
    TANDEM_TRY(clear(tokens, count));
    TANDEM_ASSIGN(const auto engine, engines().find(handle));
    TANDEM_TRY(check_flags(flags, TANDEM_ADD_SPECIAL | TANDEM_PARSE_SPECIAL));
    std::string_view view;
    if (length == SIZE_MAX || (text == nullptr && length > 0)) {
      TANDEM_ASSIGN(view, text_view(text, "`text`"));
    } else {
      view = std::string_view(text, length);
    }
    TANDEM_ASSIGN(const std::vector<int32_t> encoded,
                  engine->encode(view, (flags & TANDEM_ADD_SPECIAL) != 0, (flags & TANDEM_PARSE_SPECIAL) != 0));
    return copy_tokens(encoded, tokens, count);
  });
}

tandem_status tandem_engine_decode(const tandem_engine* handle, const int32_t* tokens, size_t count, uint32_t flags,
                                   char** text, size_t* length) {
  return at_border([&]() -> Status {
    TANDEM_TRY(clear(text, length));
    TANDEM_ASSIGN(const auto engine, engines().find(handle));
    TANDEM_TRY(check_flags(flags, TANDEM_SKIP_SPECIAL));
    TANDEM_ASSIGN(const auto ids, token_span(tokens, count));
    TANDEM_ASSIGN(const std::string decoded, engine->decode(ids, (flags & TANDEM_SKIP_SPECIAL) != 0));
    return copy_text(decoded, text, length);
  });
}

tandem_status tandem_engine_encode_chat(const tandem_engine* engine, const tandem_message* messages,
                                        size_t message_count, const char* variables, uint32_t flags, int32_t** tokens,
                                        size_t* count) {
  return at_border(
      [&] { return encode_chat(engine, to_messages(messages, message_count), variables, flags, tokens, count); });
}

tandem_status tandem_engine_encode_chat_json(const tandem_engine* engine, const char* messages, const char* variables,
                                             uint32_t flags, int32_t** tokens, size_t* count) {
  return at_border([&] { return encode_chat(engine, to_messages(messages), variables, flags, tokens, count); });
}

tandem_status tandem_engine_render_chat(const tandem_engine* engine, const tandem_message* messages,
                                        size_t message_count, const char* variables, uint32_t flags, char** text,
                                        size_t* length) {
  return at_border(
      [&] { return render_chat(engine, to_messages(messages, message_count), variables, flags, text, length); });
}

tandem_status tandem_engine_render_chat_json(const tandem_engine* engine, const char* messages, const char* variables,
                                             uint32_t flags, char** text, size_t* length) {
  return at_border([&] { return render_chat(engine, to_messages(messages), variables, flags, text, length); });
}
}
