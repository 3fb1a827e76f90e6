// What callers get wrong: NULL, destroyed handles, structs of another size.
#include <stdlib.h>

#include "check.h"

#define REFUSED(call) CHECK_STATUS(TANDEM_INVALID_ARGUMENT, call)

static void null_engines(tandem_engine* engine) {
  tandem_engine* made = NULL;
  tandem_session* session = NULL;
  tandem_engine_info info = TANDEM_ENGINE_INFO_INIT;
  tandem_generate_options options = TANDEM_GENERATE_OPTIONS_INIT;
  const tandem_message hello = {"user", "Hi", NULL};
  int32_t* tokens = NULL;
  size_t count = 0;
  char* text = NULL;
  REFUSED(tandem_engine_load(NULL, NULL, &made));
  REFUSED(tandem_engine_load(model_path, NULL, NULL));
  REFUSED(tandem_engine_load_fd(0, 0, -1, NULL, NULL));
  CHECK_OK(tandem_engine_destroy(NULL));
  REFUSED(tandem_engine_get_info(NULL, &info));
  REFUSED(tandem_engine_get_info(engine, NULL));
  REFUSED(tandem_engine_default_options(NULL, &options));
  REFUSED(tandem_engine_default_options(engine, NULL));
  REFUSED(tandem_engine_eos_tokens(NULL, &tokens, &count));
  REFUSED(tandem_engine_eos_tokens(engine, NULL, &count));
  REFUSED(tandem_engine_eos_tokens(engine, &tokens, NULL));
  REFUSED(tandem_engine_encode(NULL, "a", 1, 0, &tokens, &count));
  REFUSED(tandem_engine_encode(engine, NULL, SIZE_MAX, 0, &tokens, &count));
  REFUSED(tandem_engine_encode(engine, NULL, 5, 0, &tokens, &count));
  REFUSED(tandem_engine_encode(engine, "a", 1, 0, NULL, NULL));
  REFUSED(tandem_engine_decode(NULL, prompt_tokens, 1, 0, &text, NULL));
  REFUSED(tandem_engine_decode(engine, prompt_tokens, 1, 0, NULL, NULL));
  REFUSED(tandem_engine_decode(engine, prompt_tokens, SIZE_MAX, 0, &text, NULL));
  REFUSED(tandem_engine_encode_chat(NULL, &hello, 1, NULL, 0, &tokens, &count));
  REFUSED(tandem_engine_encode_chat(engine, &hello, 1, NULL, 0, NULL, &count));
  REFUSED(tandem_engine_encode_chat_json(engine, NULL, NULL, 0, &tokens, &count));
  REFUSED(tandem_engine_encode_chat_json(NULL, "[]", NULL, 0, &tokens, &count));
  REFUSED(tandem_engine_render_chat(NULL, &hello, 1, NULL, 0, &text, NULL));
  REFUSED(tandem_engine_render_chat(engine, &hello, 1, NULL, 0, NULL, NULL));
  REFUSED(tandem_engine_render_chat_json(engine, NULL, NULL, 0, &text, NULL));
  REFUSED(tandem_probe(model_path, NULL, NULL));
  REFUSED(tandem_probe_fd(-1, 0, -1, NULL, &text));
  REFUSED(tandem_session_create(NULL, &session));
  REFUSED(tandem_session_create(engine, NULL));
  CHECK(made == NULL && session == NULL && tokens == NULL && count == 0 && text == NULL);
}

static void refuses_everything(tandem_session* session) {
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  result.text = (char*)&result;  // What was there is no longer there after a call that failed.
  const tandem_message hello = {"user", "Hi", NULL};
  int32_t* tokens = (int32_t*)&result.finish;
  size_t count = 9;
  char* text = (char*)&result;
  REFUSED(tandem_session_generate(session, prompt_tokens, 1, NULL, &result));
  REFUSED(tandem_session_generate_from(session, prompt_tokens, 1, NULL, &result));
  REFUSED(tandem_session_generate_chat(session, &hello, 1, NULL, &result));
  REFUSED(tandem_session_generate_chat_json(session, "[]", NULL, &result));
  REFUSED(tandem_session_cancel(session));
  REFUSED(tandem_session_clear_cancel(session));
  REFUSED(tandem_session_tokens(session, &tokens, &count));
  REFUSED(tandem_session_rewind(session, 0));
  REFUSED(tandem_session_score(session, prompt_tokens, 1, NULL, NULL));
  REFUSED(tandem_session_embed(session, prompt_tokens, 1, NULL, NULL));
  REFUSED(tandem_session_last_error(session, NULL, &text));
  CHECK(result.text == NULL && tokens == NULL && count == 0 && text == NULL && strlen(tandem_last_error()) > 0);
}

void test_nulls(void) {
  tandem_engine* engine = new_engine();
  tandem_session* session = new_session(engine);
  int32_t* tokens = NULL;
  size_t count = 0;
  null_engines(engine);
  refuses_everything(NULL);
  CHECK_OK(tandem_session_destroy(NULL));
  CHECK_OK(tandem_generate_result_clear(NULL));
  tandem_free(NULL);
  REFUSED(tandem_session_generate(session, NULL, 3, NULL, NULL));
  REFUSED(tandem_session_generate_from(session, NULL, 3, NULL, NULL));
  REFUSED(tandem_session_generate_chat(session, NULL, 3, NULL, NULL));
  REFUSED(tandem_session_generate_chat_json(session, NULL, NULL, NULL));
  REFUSED(tandem_session_score(session, NULL, 3, NULL, NULL));
  REFUSED(tandem_session_embed(session, NULL, 3, NULL, NULL));
  REFUSED(tandem_session_tokens(session, NULL, &count));
  REFUSED(tandem_session_tokens(session, &tokens, NULL));
  REFUSED(tandem_session_last_error(session, NULL, NULL));
  CHECK_OK(tandem_session_destroy(session));
  CHECK_OK(tandem_engine_destroy(engine));
}

void test_handles(void) {
  tandem_engine* engine = new_engine();
  tandem_session* session = new_session(engine);
  tandem_engine_info info = TANDEM_ENGINE_INFO_INIT;
  // One for the other, an address, a number.
  refuses_everything((tandem_session*)(void*)engine);
  refuses_everything((tandem_session*)(void*)&info);
  refuses_everything((tandem_session*)(uintptr_t)1000000);
  REFUSED(tandem_engine_get_info((tandem_engine*)(void*)session, &info));
  REFUSED(tandem_engine_destroy((tandem_engine*)(void*)session));
  REFUSED(tandem_session_destroy((tandem_session*)(void*)engine));

  // A session keeps its engine.
  CHECK_OK(tandem_engine_destroy(engine));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "destroyed", tandem_engine_destroy(engine));
  REFUSED(tandem_engine_get_info(engine, &info));
  tandem_session* other = NULL;
  REFUSED(tandem_session_create(engine, &other));
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  const tandem_generate_options options = greedy_options(GREEDY_COUNT);
  CHECK_OK(tandem_session_generate(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT));
  CHECK_OK(tandem_generate_result_clear(&result));
  tandem_status code = 5;
  char* message = NULL;
  CHECK_OK(tandem_session_last_error(session, &code, &message));
  CHECK(code == TANDEM_OK && strcmp(message, "") == 0);
  tandem_free(message);
  CHECK_OK(tandem_session_destroy(session));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "destroyed", tandem_session_destroy(session));
  // A new one does not get the old one's handle.
  engine = new_engine();
  other = new_session(engine);
  CHECK(other != session);
  refuses_everything(session);
  CHECK_OK(tandem_session_destroy(other));
  CHECK_OK(tandem_engine_destroy(engine));
}

// What a newer header would have.
struct newer_options {
  tandem_generate_options known;
  int64_t added[2];
};
struct newer_result {
  tandem_generate_result known;
  int64_t added[2];
};

static void growing_options(tandem_engine* engine, tandem_session* session) {
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  struct newer_options newer = {.known = greedy_options(4)};
  newer.known.size = sizeof(newer);
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &newer.known, &result));
  CHECK(is_greedy(&result, 4));
  CHECK_OK(tandem_generate_result_clear(&result));
  newer.added[1] = 1;
  CHECK_FAILS(TANDEM_UNSUPPORTED, "does not know",
              tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &newer.known, &result));
  CHECK_OK(tandem_engine_default_options(engine, &newer.known));
  CHECK(newer.added[1] == 0 && newer.known.size == sizeof(newer) && newer.known.top_k == 20);

  // Older headers lack fields: the last three bytes of one are none of it.
  tandem_generate_options older = greedy_options(3);
  older.on_text = (tandem_text_function)(void (*)(void))abort;
  older.size = offsetof(tandem_generate_options, on_text);
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &older, &result));
  CHECK(is_greedy(&result, 3));
  CHECK_OK(tandem_generate_result_clear(&result));
  older.size += 3;
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &older, &result));
  CHECK_OK(tandem_generate_result_clear(&result));
  older.size = sizeof(size_t);
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &older, &result));
  CHECK(result.token_count > 3 || result.finish == TANDEM_FINISH_STOP);
  CHECK_OK(tandem_generate_result_clear(&result));
  static const size_t sizes[] = {0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    older.size = sizes[i];
    CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "sizeof(tandem_generate_options)",
                tandem_session_generate_from(session, prompt_tokens, 1, &older, &result));
    REFUSED(tandem_engine_default_options(engine, &older));
    tandem_engine_options loading = TANDEM_ENGINE_OPTIONS_INIT;
    loading.size = sizes[i];
    tandem_engine* made = NULL;
    REFUSED(tandem_engine_load(model_path, &loading, &made));
    result.size = sizes[i];
    REFUSED(tandem_session_generate_from(session, prompt_tokens, 1, NULL, &result));
    REFUSED(tandem_generate_result_clear(&result));
    result.size = sizeof(result);
    tandem_engine_info info = {.size = sizes[i]};
    REFUSED(tandem_engine_get_info(engine, &info));
  }
}

static void growing_results(tandem_engine* engine, tandem_session* session) {
  const tandem_generate_options options = greedy_options(4);
  struct newer_result newer;
  memset(&newer, 0x77, sizeof(newer));
  newer.known.size = sizeof(newer);
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &newer.known));
  CHECK(is_greedy(&newer.known, 4) && newer.added[0] == 0 && newer.added[1] == 0);
  CHECK_OK(tandem_generate_result_clear(&newer.known));

  // Nothing is written behind an older struct, nor allocated for fields that it lacks.
  tandem_generate_result older;
  memset(&older, 0x77, sizeof(older));
  older.size = offsetof(tandem_generate_result, reasoning) + 3;
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &older));
  CHECK(older.text != NULL && older.text_length == strlen(older.text) &&
        older.token_count == (size_t)0x7777777777777777);
  unsigned char pattern[sizeof(older)];
  memset(pattern, 0x77, sizeof(pattern));
  CHECK(memcmp((char*)&older + older.size, pattern, sizeof(older) - older.size) == 0);
  CHECK_OK(tandem_generate_result_clear(&older));
  CHECK(older.text == NULL && memcmp((char*)&older + older.size, pattern, sizeof(older) - older.size) == 0);
  tandem_engine_info info;
  memset(&info, 0x77, sizeof(info));
  info.size = offsetof(tandem_engine_info, context);
  CHECK_OK(tandem_engine_get_info(engine, &info));
  CHECK(info.threads == 2 && memcmp(&info.context, pattern, sizeof(info.context)) == 0);
}

void test_growing_structs(void) {
  tandem_engine* engine = new_engine();
  tandem_session* session = new_session(engine);
  growing_options(engine, session);
  growing_results(engine, session);
  // As long as a handle is a number and size_t has 64 bits, these are what other languages declare.
  if (sizeof(void*) == 8) {
    CHECK(sizeof(tandem_engine_options) == 72 && sizeof(tandem_engine_info) == 64);
    CHECK(sizeof(tandem_generate_options) == 104 && sizeof(tandem_generate_result) == 112);
  }
  CHECK_OK(tandem_session_destroy(session));
  CHECK_OK(tandem_engine_destroy(engine));
}
