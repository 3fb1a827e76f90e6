// Sessions: generating, scoring, callbacks, cancelling.
#include <math.h>
#include <stdlib.h>

#include "check.h"

static void sampling(tandem_session* session) {
  tandem_generate_options options = greedy_options(10);
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT, again = TANDEM_GENERATE_RESULT_INIT;
  // The same seed, the same tokens; what makes no sense is refused.
  options.temperature = 1.5f;
  options.seed = 7;
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &again));
  CHECK(result.token_count == 10 && again.token_count == 10 && memcmp(result.tokens, again.tokens, 40) == 0);
  CHECK(!is_greedy(&result, 10));
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_OK(tandem_generate_result_clear(&again));
  options.top_p = NAN;
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate_from(session, prompt_tokens, 1, &options, NULL));
  options.top_p = 0;
  options.max_new_tokens = -1;
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate_from(session, prompt_tokens, 1, &options, NULL));
}

void test_generating(void) {
  tandem_engine* engine = new_engine();
  tandem_session* session = new_session(engine);
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  tandem_generate_options options = greedy_options(GREEDY_COUNT);
  CHECK_OK(tandem_session_generate(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT) && result.finish == TANDEM_FINISH_LENGTH);
  CHECK(result.prompt_tokens == PROMPT_COUNT && result.reused_tokens == 0 && result.reserved == 0);
  CHECK(result.prompt_seconds > 0 && result.first_token_seconds >= result.prompt_seconds && result.decode_seconds > 0);
  CHECK(result.text_length == strlen(result.text) && result.text_length > 0);
  CHECK(result.reasoning[0] == '\0' && result.reasoning_length == 0 && result.stop_string[0] == '\0');
  char* decoded = NULL;
  CHECK_OK(tandem_engine_decode(engine, result.tokens, result.token_count, TANDEM_SKIP_SPECIAL, &decoded, NULL));
  CHECK(strcmp(decoded, result.text) == 0);
  tandem_free(decoded);
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK(result.text == NULL && result.tokens == NULL && result.token_count == 0 && result.size == sizeof(result));
  CHECK_OK(tandem_generate_result_clear(&result));

  // The cache has what both share; generate() would have gone on.
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT) && result.reused_tokens == PROMPT_COUNT - 1 && result.prompt_tokens == 1);
  CHECK_OK(tandem_generate_result_clear(&result));
  options.max_new_tokens = 0;
  CHECK_OK(tandem_session_generate(session, prompt_tokens, 1, &options, &result));
  CHECK(result.finish == TANDEM_FINISH_CONTEXT_FULL);
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_STATUS(TANDEM_RESOURCE_EXHAUSTED, tandem_session_generate(session, prompt_tokens, 3, &options, &result));
  CHECK(result.text == NULL);

  // Text that ends the answer: "::" are two tokens of bytes.
  const char* const stops[] = {"never", "::"};
  options = greedy_options(GREEDY_COUNT);
  options.stop_strings = stops;
  options.stop_string_count = 2;
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(result.finish == TANDEM_FINISH_STOP && strcmp(result.stop_string, "::") == 0 &&
        strchr(result.text, ':') == NULL);
  CHECK_OK(tandem_generate_result_clear(&result));
  options.stop_strings = NULL;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`stop_strings`",
              tandem_session_generate_from(session, prompt_tokens, 1, &options, NULL));
  options.stop_strings = (const char* const[]){"a", NULL};
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`stop_strings`[1]",
              tandem_session_generate_from(session, prompt_tokens, 1, &options, NULL));

  sampling(session);
  static const int32_t outside[] = {5, 288}, negative[] = {-1};
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate_from(session, outside, 2, NULL, NULL));
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate_from(session, negative, 1, NULL, NULL));
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate(session, NULL, 0, NULL, NULL));
  CHECK_OK(tandem_session_destroy(session));
  CHECK_OK(tandem_engine_destroy(engine));
}

struct rows {
  size_t count;
  size_t stop_after;
  size_t vocab;
  int32_t best;  // Of the last row.
  float first[4];
};

static int32_t take_row(size_t index, const float* logits, size_t count, void* user_data) {
  struct rows* rows = user_data;
  CHECK(index == rows->count);
  if (index == 0) memcpy(rows->first, logits, sizeof(rows->first));
  ++rows->count;
  rows->vocab = count;
  rows->best = 0;
  for (size_t i = 1; i < count; ++i) {
    if (logits[i] > logits[rows->best]) rows->best = (int32_t)i;
  }
  return rows->count != rows->stop_after;
}

void test_scoring(void) {
  tandem_engine* engine = new_engine();
  tandem_session* session = new_session(engine);
  int32_t* tokens = NULL;
  size_t count = 99;
  CHECK_OK(tandem_session_tokens(session, &tokens, &count));
  CHECK(tokens == NULL && count == 0);
  struct rows rows = {0};
  CHECK_OK(tandem_session_score(session, prompt_tokens, PROMPT_COUNT, take_row, &rows));
  CHECK(rows.count == PROMPT_COUNT && rows.vocab == 288 && rows.best == greedy_tokens[0]);
  static const double wanted[] = {2.85535, 0.52822, 4.74076, 2.41029};
  for (int i = 0; i < 4; ++i) CHECK(fabs(rows.first[i] - wanted[i]) < 0.01);
  CHECK_OK(tandem_session_tokens(session, &tokens, &count));
  CHECK(count == PROMPT_COUNT && memcmp(tokens, prompt_tokens, sizeof(prompt_tokens)) == 0);
  tandem_free(tokens);

  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "go back to 8", tandem_session_rewind(session, PROMPT_COUNT + 1));
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_rewind(session, -1));
  CHECK_OK(tandem_session_rewind(session, 0));
  CHECK_OK(tandem_session_score(session, prompt_tokens, PROMPT_COUNT - 1, NULL, NULL));
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  const tandem_generate_options options = greedy_options(GREEDY_COUNT);
  CHECK_OK(tandem_session_generate(session, prompt_tokens + PROMPT_COUNT - 1, 1, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT));
  CHECK_OK(tandem_generate_result_clear(&result));

  CHECK_OK(tandem_session_rewind(session, 0));
  rows = (struct rows){.stop_after = 2};
  CHECK_STATUS(TANDEM_CANCELLED, tandem_session_score(session, prompt_tokens, PROMPT_COUNT, take_row, &rows));
  CHECK(rows.count == 2);
  CHECK_OK(tandem_session_cancel(session));
  CHECK_STATUS(TANDEM_CANCELLED, tandem_session_score(session, prompt_tokens, 1, NULL, NULL));
  CHECK_OK(tandem_session_score(session, NULL, 0, NULL, NULL));

  // Hidden states, after which the session goes on as after logits.
  CHECK_OK(tandem_session_rewind(session, 0));
  rows = (struct rows){.stop_after = 3};
  CHECK_STATUS(TANDEM_CANCELLED, tandem_session_embed(session, prompt_tokens, PROMPT_COUNT, take_row, &rows));
  CHECK(rows.count == 3);
  CHECK_OK(tandem_session_rewind(session, 0));
  rows = (struct rows){0};
  CHECK_OK(tandem_session_embed(session, prompt_tokens, PROMPT_COUNT - 1, take_row, &rows));
  CHECK(rows.count == PROMPT_COUNT - 1 && rows.vocab == 64);
  CHECK_OK(tandem_session_generate(session, prompt_tokens + PROMPT_COUNT - 1, 1, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT));
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_OK(tandem_session_destroy(session));
  CHECK_OK(tandem_engine_destroy(engine));
}

struct stream {
  tandem_session* session;
  char text[4096];
  size_t length;
  int pieces;
  int stop_after;
  int destroy_after;
};

static int32_t append(const char* piece, size_t length, void* user_data) {
  struct stream* stream = user_data;
  CHECK(piece[length] == '\0' && stream->length + length < sizeof(stream->text));
  memcpy(stream->text + stream->length, piece, length + 1);
  stream->length += length;
  ++stream->pieces;
  if (stream->pieces == stream->destroy_after) CHECK_OK(tandem_session_destroy(stream->session));
  return stream->pieces != stream->stop_after;
}

static int32_t meddle(const char* piece, size_t length, void* user_data) {
  struct stream* stream = user_data;
  int32_t* tokens = NULL;
  size_t count = 0;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "in another call", tandem_session_rewind(stream->session, 0));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "in another call",
              tandem_session_generate(stream->session, prompt_tokens, 1, NULL, NULL));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "in another call",
              tandem_session_generate_chat_json(stream->session, "[{\"role\": \"user\"}]", NULL, NULL));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "in another call",
              tandem_session_score(stream->session, prompt_tokens, 1, NULL, NULL));
  CHECK_OK(tandem_session_tokens(stream->session, &tokens, &count));
  CHECK(count >= PROMPT_COUNT && memcmp(tokens, prompt_tokens, sizeof(prompt_tokens)) == 0);
  tandem_free(tokens);
  return append(piece, length, user_data);
}

void test_callbacks(void) {
  tandem_engine* engine = new_engine();
  tandem_session* session = new_session(engine);
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  struct stream stream = {.session = session};
  tandem_generate_options options = greedy_options(GREEDY_COUNT);
  options.on_text = append;
  options.user_data = &stream;
  CHECK_OK(tandem_session_generate(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(strcmp(stream.text, result.text) == 0 && stream.pieces > 1);
  CHECK_OK(tandem_generate_result_clear(&result));

  stream = (struct stream){.session = session, .stop_after = 2};
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(result.finish == TANDEM_FINISH_CANCELLED && stream.pieces == 2 && strcmp(stream.text, result.text) == 0);
  CHECK_OK(tandem_generate_result_clear(&result));

  stream = (struct stream){.session = session};
  options.on_text = meddle;
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT) && strcmp(stream.text, result.text) == 0);
  CHECK_OK(tandem_generate_result_clear(&result));

  // A conversation, by messages and as JSON, with and without a result.
  const tandem_message question = {"user", "Hi", NULL};
  const char* const json = "[{\"role\": \"user\", \"content\": \"Hi\"}]";
  struct stream from_json = {.session = session};
  stream = (struct stream){.session = session};
  options.on_text = options.on_reasoning = append;
  CHECK_OK(tandem_session_generate_chat(session, &question, 1, &options, &result));
  CHECK(result.token_count == GREEDY_COUNT && result.prompt_tokens > 0);
  options.user_data = &from_json;
  CHECK_OK(tandem_session_generate_chat_json(session, json, &options, NULL));
  CHECK(strcmp(stream.text, from_json.text) == 0 && strcmp(stream.text, result.text) == 0);
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate_chat_json(session, "[1]", &options, &result));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "no messages",
              tandem_session_generate_chat(session, NULL, 0, &options, &result));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "no messages",
              tandem_session_generate_chat_json(session, "[]", &options, &result));
  options.template_variables = "no JSON";
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate_chat(session, &question, 1, &options, &result));
  tandem_status code = TANDEM_OK;
  char* message = NULL;
  CHECK_OK(tandem_session_last_error(session, &code, &message));
  CHECK(code == TANDEM_INVALID_ARGUMENT && strcmp(message, tandem_last_error()) == 0 && strlen(message) > 0);
  tandem_free(message);
  CHECK(result.text == NULL);

  // A session that is destroyed by its own callback lives until its call returns.
  stream = (struct stream){.session = session, .destroy_after = 2};
  options = greedy_options(GREEDY_COUNT);
  options.on_text = append;
  options.user_data = &stream;
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(result.finish == TANDEM_FINISH_CANCELLED && result.token_count < GREEDY_COUNT);
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_session_generate_from(session, prompt_tokens, 1, &options, &result));
  CHECK_OK(tandem_engine_destroy(engine));
}

void test_cancelling(void) {
  tandem_engine* engine = new_engine();
  tandem_session* session = new_session(engine);
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  const tandem_generate_options options = greedy_options(GREEDY_COUNT);
  // Before the call: it ends at once, and the next one does not.
  CHECK_OK(tandem_session_cancel(session));
  CHECK_OK(tandem_session_cancel(session));
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(result.finish == TANDEM_FINISH_CANCELLED && result.token_count == 0 && result.tokens == NULL);
  CHECK(result.text != NULL && result.text[0] == '\0');
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT));
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_OK(tandem_session_cancel(session));
  CHECK_OK(tandem_session_clear_cancel(session));
  CHECK_OK(tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT));
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_OK(tandem_session_destroy(session));
  CHECK_OK(tandem_engine_destroy(engine));
}
