// Engines: names, loading by path and by descriptor, text and tokens.
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"

void test_names(void) {
  CHECK(strcmp(tandem_version(), "0.1.0") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_OK), "ok") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_INVALID_ARGUMENT), "invalid_argument") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_NOT_FOUND), "not_found") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_UNSUPPORTED), "unsupported") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_CORRUPT), "corrupt") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_IO), "io") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_RESOURCE_EXHAUSTED), "resource_exhausted") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_CANCELLED), "cancelled") == 0);
  CHECK(strcmp(tandem_status_name(TANDEM_INTERNAL), "internal") == 0);
  CHECK(strcmp(tandem_mode_name(TANDEM_MODE_KV), "kv") == 0);
  CHECK(strcmp(tandem_mode_name(TANDEM_MODE_HYBRID), "hybrid") == 0);
  CHECK(strcmp(tandem_log_level_name(TANDEM_LOG_ERROR), "error") == 0);
  CHECK(strcmp(tandem_log_level_name(TANDEM_LOG_DEBUG), "debug") == 0);
  CHECK(strcmp(tandem_finish_reason_name(TANDEM_FINISH_STOP), "stop") == 0);
  CHECK(strcmp(tandem_finish_reason_name(TANDEM_FINISH_LENGTH), "length") == 0);
  CHECK(strcmp(tandem_finish_reason_name(TANDEM_FINISH_CONTEXT_FULL), "context_full") == 0);
  CHECK(strcmp(tandem_finish_reason_name(TANDEM_FINISH_CANCELLED), "cancelled") == 0);
  static const int32_t others[] = {-1, 99, INT32_MAX, INT32_MIN};
  for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
    CHECK(strcmp(tandem_status_name(others[i]), "unknown") == 0);
    CHECK(strcmp(tandem_mode_name(others[i]), "unknown") == 0);
    CHECK(strcmp(tandem_log_level_name(others[i]), "unknown") == 0);
    CHECK(strcmp(tandem_finish_reason_name(others[i]), "unknown") == 0);
  }
  CHECK_OK(tandem_guard_file_mappings());
  CHECK_OK(tandem_guard_file_mappings());
}

static void ignore_log(tandem_log_level level, const char* message, void* user_data) {
  (void)level;
  (void)message;
  (void)user_data;
}

static void check_info(const tandem_engine* engine) {
  tandem_engine_info info = TANDEM_ENGINE_INFO_INIT;
  CHECK_OK(tandem_engine_get_info(engine, &info));
  CHECK(info.mode == TANDEM_MODE_HYBRID && info.threads == 2 && info.context == 64 && info.vocab_size == 288);
  CHECK(info.has_tokenizer == 1 && info.hidden_size == 64);
  CHECK(strcmp(info.target, "cpu") == 0 && strcmp(info.backend, "cpu") == 0);
  int32_t* eos = NULL;
  size_t count = 0;
  CHECK_OK(tandem_engine_eos_tokens(engine, &eos, &count));
  CHECK(count == 2 && eos[0] == 258 && eos[1] == 256);
  tandem_free(eos);
  tandem_generate_options defaults = TANDEM_GENERATE_OPTIONS_INIT;
  defaults.user_data = &info;
  CHECK_OK(tandem_engine_default_options(engine, &defaults));
  CHECK(fabs(defaults.temperature - 0.7) < 1e-6 && defaults.top_k == 20 && fabs(defaults.top_p - 0.9) < 1e-6);
  CHECK(defaults.size == sizeof(defaults) && defaults.repetition_penalty == 1 && defaults.user_data == NULL);
}

void test_loading(void) {
  tandem_engine* engine = (tandem_engine*)&engine;
  CHECK_FAILS(TANDEM_NOT_FOUND, "/no such file", tandem_engine_load("/no such file", NULL, &engine));
  CHECK(engine == NULL);
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_engine_load("", NULL, &engine));
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_engine_load("/", NULL, &engine));
  CHECK_FAILS(TANDEM_CORRUPT, "v1.json",
              tandem_engine_load(TANDEM_SOURCE_DIR "/tests/data/artifact/v1.json", NULL, &engine));

  tandem_engine_options options = TANDEM_ENGINE_OPTIONS_INIT;
  options.threads = -1;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "-1 threads", tandem_engine_load(model_path, &options, &engine));
  options.threads = 2;
  options.verify = 3;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`verify`", tandem_engine_load(model_path, &options, &engine));
  options.verify = -1;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`verify`", tandem_engine_load(model_path, &options, &engine));
  options.verify = TANDEM_VERIFY_AT_LOAD;
  options.log_level = 5;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`log_level`", tandem_engine_load(model_path, &options, &engine));
  options.log_level = TANDEM_LOG_DEBUG;
  options.log = ignore_log;
  options.reserved = 1;
  CHECK_FAILS(TANDEM_UNSUPPORTED, "`reserved`", tandem_engine_load(model_path, &options, &engine));
  options.reserved = 0;
  options.backend_option_count = 1;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`backend_options`", tandem_engine_load(model_path, &options, &engine));
  tandem_backend_option backend[] = {{"no-such-option", "1"}, {"profile", "balanced"}};
  options.backend_options = backend;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "no-such-option", tandem_engine_load(model_path, &options, &engine));
  backend[0] = backend[1];
  options.backend_option_count = 2;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "twice", tandem_engine_load(model_path, &options, &engine));
  backend[0].value = NULL;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`backend_options`[0]", tandem_engine_load(model_path, &options, &engine));
  options.backend_options = backend + 1;
  options.backend_option_count = 1;
  CHECK(engine == NULL);
  CHECK_OK(tandem_engine_load(model_path, &options, &engine));
  check_info(engine);
  CHECK_OK(tandem_engine_destroy(engine));
  CHECK_OK(tandem_engine_load(model_path, NULL, &engine));
  CHECK_OK(tandem_engine_destroy(engine));
}

static void check_answer(const tandem_engine* engine) {
  tandem_session* session = new_session(engine);
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  const tandem_generate_options options = greedy_options(GREEDY_COUNT);
  CHECK_OK(tandem_session_generate(session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(is_greedy(&result, GREEDY_COUNT));
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_OK(tandem_session_destroy(session));
}

// A file with the model from `offset` on and more behind it; the descriptor.
static int embed(const void* model, size_t size, size_t offset) {
  char name[] = "/tmp/tandem_c_api_XXXXXX";
  const int descriptor = mkstemp(name);
  unlink(name);
  static char filler[70000];
  memset(filler, 0x5a, sizeof(filler));
  CHECK(descriptor >= 0 && write(descriptor, filler, offset) == (ssize_t)offset &&
        write(descriptor, model, size) == (ssize_t)size && write(descriptor, filler, 1000) == 1000);
  return descriptor;
}

void test_file_regions(void) {
  tandem_engine* engine = NULL;
  const int file = open(model_path, O_RDONLY | O_CLOEXEC);
  const off_t end = lseek(file, 0, SEEK_END);
  CHECK(end > 0);
  const size_t size = (size_t)end;
  void* model = malloc(size);
  CHECK(model != NULL && pread(file, model, size, 0) == (ssize_t)size);

  CHECK_OK(tandem_engine_load_fd(file, 0, -1, NULL, &engine));
  CHECK_OK(tandem_engine_destroy(engine));
  static const size_t offsets[] = {0, 1, 63, 64, 4095, 4096, 4096 + 64, 16384, 65536 + 7};
  for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); ++i) {
    const int embedded = embed(model, size, offsets[i]);
    const int64_t offset = (int64_t)offsets[i];
    CHECK_OK(tandem_engine_load_fd(embedded, offset, (int64_t)size, NULL, &engine));
    CHECK_STATUS(TANDEM_CORRUPT,
                 tandem_engine_load_fd(embedded, offset + 128, (int64_t)size - 128, NULL, &(tandem_engine*){NULL}));
    CHECK_STATUS(TANDEM_CORRUPT,
                 tandem_engine_load_fd(embedded, offset, (int64_t)size - 1, NULL, &(tandem_engine*){NULL}));
    CHECK_STATUS(TANDEM_INVALID_ARGUMENT,
                 tandem_engine_load_fd(embedded, offset, (int64_t)size + 1001, NULL, &(tandem_engine*){NULL}));
    close(embedded);  // The engine has its own.
    check_answer(engine);
    CHECK_OK(tandem_engine_destroy(engine));
  }
  free(model);

  static const int64_t wrong[][2] = {{-1, -1},       {INT64_MIN, -1}, {INT64_MAX, -1},        {0, -2},
                                     {0, INT64_MIN}, {0, INT64_MAX},  {INT64_MAX, INT64_MAX}, {INT64_MIN, INT64_MIN},
                                     {1, 198328}};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "not inside the file",
                tandem_engine_load_fd(file, wrong[i][0], wrong[i][1], NULL, &engine));
    CHECK(engine == NULL);
  }
  CHECK_STATUS(TANDEM_CORRUPT, tandem_engine_load_fd(file, (int64_t)end, -1, NULL, &engine));
  close(file);
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "not an open one", tandem_engine_load_fd(file, 0, -1, NULL, &engine));
  CHECK_STATUS(TANDEM_INVALID_ARGUMENT, tandem_engine_load_fd(-1, 0, -1, NULL, &engine));
  int ends[2] = {-1, -1};
  CHECK(pipe(ends) == 0);
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "regular file", tandem_engine_load_fd(ends[0], 0, -1, NULL, &engine));
  close(ends[0]);
  close(ends[1]);
  const int folder = open("/", O_RDONLY | O_CLOEXEC);
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "regular file", tandem_engine_load_fd(folder, 0, -1, NULL, &engine));
  close(folder);
}

// "Once upon a time, naïve ☂." and a control token.
static const char text[] = "Once upon a time, na\xc3\xafve \xe2\x98\x82.<|im_end|>";
static const int32_t text_tokens[] = {79,  110, 99, 101, 32, 117, 112, 111, 110, 32, 97,  32,  116, 105, 109,
                                      101, 44,  32, 110, 97, 195, 175, 118, 101, 32, 226, 152, 130, 46,  258};
enum { TEXT_TOKENS = sizeof(text_tokens) / sizeof(text_tokens[0]) };

void test_text(void) {
  tandem_engine* engine = new_engine();
  int32_t* tokens = NULL;
  size_t count = 0, length = 0;
  char* back = NULL;
  CHECK_OK(tandem_engine_encode(engine, text, SIZE_MAX, TANDEM_PARSE_SPECIAL, &tokens, &count));
  CHECK(count == TEXT_TOKENS && memcmp(tokens, text_tokens, sizeof(text_tokens)) == 0);
  CHECK_OK(tandem_engine_decode(engine, tokens, count, 0, &back, &length));
  CHECK(strcmp(back, text) == 0 && length == strlen(text));
  tandem_free(back);
  CHECK_OK(tandem_engine_decode(engine, tokens, count, TANDEM_SKIP_SPECIAL, &back, NULL));
  CHECK(strlen(back) == strlen(text) - strlen("<|im_end|>") && strncmp(back, text, strlen(back)) == 0);
  tandem_free(back);
  tandem_free(tokens);
  // Without the flag it is somebody's text.
  CHECK_OK(tandem_engine_encode(engine, text, strlen(text), 0, &tokens, &count));
  CHECK(count == TEXT_TOKENS - 1 + strlen("<|im_end|>"));
  tandem_free(tokens);
  CHECK_OK(tandem_engine_encode(engine, "a\0b", 3, 0, &tokens, &count));
  CHECK(count == 3 && tokens[1] == 0);
  CHECK_OK(tandem_engine_decode(engine, tokens, count, 0, &back, &length));
  CHECK(length == 3 && memcmp(back, "a\0b", 4) == 0);
  tandem_free(back);
  tandem_free(tokens);
  CHECK_OK(tandem_engine_encode(engine, "\xff", SIZE_MAX, 0, &tokens, &count));  // U+FFFD has three bytes.
  CHECK(count == 3 && tokens[0] == 0xef);
  tandem_free(tokens);
  CHECK_OK(tandem_engine_encode(engine, NULL, 0, 0, &tokens, &count));
  CHECK(count == 0 && tokens == NULL);
  CHECK_OK(tandem_engine_decode(engine, NULL, 0, 0, &back, &length));
  CHECK(length == 0 && back != NULL && back[0] == '\0');
  tandem_free(back);

  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "0x4",
              tandem_engine_encode(engine, text, SIZE_MAX, TANDEM_SKIP_SPECIAL, &tokens, &count));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "0x80000000",
              tandem_engine_encode(engine, text, SIZE_MAX, 0x80000000u, &tokens, &count));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "0x1",
              tandem_engine_decode(engine, text_tokens, 1, TANDEM_ADD_SPECIAL, &back, &length));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`tokens` is NULL", tandem_engine_decode(engine, NULL, 5, 0, &back, &length));
  CHECK(back == NULL);
  static const int32_t strange[] = {-1, 100000, INT32_MIN, INT32_MAX};
  if (tandem_engine_decode(engine, strange, 4, 0, &back, &length) == TANDEM_OK) tandem_free(back);
  CHECK_OK(tandem_engine_destroy(engine));
}

static void check_same(const tandem_engine* engine, const tandem_message* messages, size_t message_count,
                       const char* json) {
  int32_t *from_messages = NULL, *from_json = NULL;
  size_t count = 0, json_count = 0;
  CHECK_OK(tandem_engine_encode_chat(engine, messages, message_count, NULL, TANDEM_ADD_GENERATION_PROMPT,
                                     &from_messages, &count));
  CHECK_OK(tandem_engine_encode_chat_json(engine, json, NULL, TANDEM_ADD_GENERATION_PROMPT, &from_json, &json_count));
  CHECK(count > 0 && count == json_count && memcmp(from_messages, from_json, count * sizeof(int32_t)) == 0);
  char *rendered = NULL, *rendered_json = NULL, *decoded = NULL;
  size_t length = 0;
  CHECK_OK(tandem_engine_render_chat(engine, messages, message_count, NULL, TANDEM_ADD_GENERATION_PROMPT, &rendered,
                                     &length));
  CHECK_OK(tandem_engine_render_chat_json(engine, json, NULL, TANDEM_ADD_GENERATION_PROMPT, &rendered_json, NULL));
  CHECK(strcmp(rendered, rendered_json) == 0 && length == strlen(rendered));
  CHECK_OK(tandem_engine_decode(engine, from_json, json_count, 0, &decoded, NULL));
  CHECK(strcmp(decoded, rendered) == 0);
  tandem_free(decoded);
  tandem_free(rendered);
  tandem_free(rendered_json);
  tandem_free(from_messages);
  tandem_free(from_json);
}

void test_chat(void) {
  tandem_engine* engine = new_engine();
  const tandem_message hello[] = {{"system", "Be brief.", NULL}, {"user", "Hello \xe2\x98\x82", "{\"name\": \"Ann\"}"}};
  check_same(engine, hello, 2,
             "[{\"role\": \"system\", \"content\": \"Be brief.\"},\n {\"content\": \"Hello \\u2602\", \"role\": "
             "\"user\", \"name\": \"Ann, [1] {2} \\\"\"}] ");
  check_same(engine, hello, 1, "[{\"role\":\"system\",\"content\":\"Be brief.\"}]");

  int32_t* tokens = NULL;
  size_t count = 0, plain = 0;
  char* rendered = NULL;
  CHECK_OK(tandem_engine_encode_chat(engine, hello, 2, NULL, 0, &tokens, &plain));
  tandem_free(tokens);
  CHECK_OK(tandem_engine_encode_chat(engine, hello, 2, "{\"enable_thinking\": false}",
                                     TANDEM_ADD_GENERATION_PROMPT | TANDEM_PARSE_SPECIAL, &tokens, &count));
  CHECK(count > plain);
  tandem_free(tokens);
  CHECK_OK(tandem_engine_render_chat_json(engine, "[]", NULL, 0, &rendered, NULL));
  tandem_free(rendered);

  const tandem_message no_role = {NULL, "a", NULL}, no_content = {"user", NULL, NULL};
  const tandem_message no_utf8 = {"user", "\xff", NULL}, no_object = {"user", "a", "[1]"};
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "message 0",
              tandem_engine_encode_chat(engine, &no_role, 1, NULL, 0, &tokens, &count));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "message 0",
              tandem_engine_render_chat(engine, &no_content, 1, NULL, 0, &rendered, NULL));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "UTF-8",
              tandem_engine_encode_chat(engine, &no_utf8, 1, NULL, 0, &tokens, &count));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "object",
              tandem_engine_encode_chat(engine, &no_object, 1, NULL, 0, &tokens, &count));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`messages`",
              tandem_engine_encode_chat(engine, NULL, 2, NULL, 0, &tokens, &count));
  CHECK(tandem_engine_encode_chat(engine, hello, 2, "no JSON", 0, &tokens, &count) != TANDEM_OK);
  static const char* const wrong[] = {"",
                                      "{}",
                                      "[",
                                      "[1]",
                                      "[{}]",
                                      "[{\"role\": 1}]",
                                      "[null]",
                                      "[{\"content\": \"a\"}]",
                                      "[] []",
                                      "\xff",
                                      "[{\"role\": \"user\", \"content\": \"\xff\"}]"};
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
    CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "conversation",
                tandem_engine_encode_chat_json(engine, wrong[i], NULL, 0, &tokens, &count));
    CHECK(tokens == NULL && count == 0);
  }
  CHECK_OK(tandem_engine_destroy(engine));
}

void test_probe(void) {
  char* json = NULL;
  CHECK_OK(tandem_probe(NULL, NULL, &json));
  CHECK(strstr(json, "\"backends\"") != NULL && strstr(json, "\"cpu\"") != NULL);
  tandem_free(json);
  CHECK_OK(tandem_probe(model_path, NULL, &json));
  CHECK(strstr(json, "\"usable\"") != NULL && strstr(json, "v1.tdm") != NULL);
  tandem_free(json);
  const int file = open(model_path, O_RDONLY | O_CLOEXEC);
  CHECK_OK(tandem_probe_fd(file, 0, -1, NULL, &json));
  CHECK(strstr(json, "\"cpu\"") != NULL);
  tandem_free(json);
  CHECK_STATUS(TANDEM_CORRUPT, tandem_probe_fd(file, 64, -1, NULL, &json));
  CHECK(json == NULL);
  close(file);
  CHECK_FAILS(TANDEM_NOT_FOUND, "/no such file", tandem_probe("/no such file", NULL, &json));
  tandem_engine_options options = TANDEM_ENGINE_OPTIONS_INIT;
  options.verify = 7;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "`verify`", tandem_probe(NULL, &options, &json));
  CHECK(json == NULL);
}
