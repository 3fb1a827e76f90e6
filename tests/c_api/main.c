// test_c_api FILE [TEST]: tests include/tandem/tandem.h as a C program sees it.
#include <stdlib.h>

#include "check.h"

atomic_int failures = 0;
const char* model_path = NULL;

const int32_t prompt_tokens[PROMPT_COUNT] = {142, 187, 174, 204, 268, 257, 108};
const int32_t greedy_tokens[GREEDY_COUNT] = {233, 118, 198, 58,  58,  208, 202, 230,
                                             69,  202, 230, 206, 230, 206, 230, 206};

int check_status(tandem_status wanted, tandem_status got, const char* what, const char* file, int line) {
  if (got == wanted) return 1;
  fprintf(stderr, "%s:%d: %s is %s, not %s: %s\n", file, line, what, tandem_status_name(got),
          tandem_status_name(wanted), tandem_last_error());
  atomic_fetch_add(&failures, 1);
  return 0;
}

void check_fails(tandem_status wanted, const char* words, tandem_status got, const char* what, const char* file,
                 int line) {
  if (!check_status(wanted, got, what, file, line) || strstr(tandem_last_error(), words) != NULL) return;
  fprintf(stderr, "%s:%d: %s: the message lacks \"%s\": %s\n", file, line, what, words, tandem_last_error());
  atomic_fetch_add(&failures, 1);
}

tandem_engine* new_engine(void) {
  tandem_engine* engine = NULL;
  tandem_engine_options options = TANDEM_ENGINE_OPTIONS_INIT;
  options.threads = 2;
  CHECK_OK(tandem_engine_load(model_path, &options, &engine));
  return engine;
}

tandem_session* new_session(const tandem_engine* engine) {
  tandem_session* session = NULL;
  CHECK_OK(tandem_session_create(engine, &session));
  return session;
}

tandem_generate_options greedy_options(int64_t count) {
  tandem_generate_options options = TANDEM_GENERATE_OPTIONS_INIT;
  options.max_new_tokens = count;
  options.ignore_eos = 1;
  return options;
}

int is_greedy(const tandem_generate_result* result, size_t count) {
  return result->token_count == count && memcmp(result->tokens, greedy_tokens, count * sizeof(int32_t)) == 0;
}

static const struct {
  const char* name;
  void (*run)(void);
} tests[] = {
    {"names", test_names},
    {"loading", test_loading},
    {"file_regions", test_file_regions},
    {"text", test_text},
    {"chat", test_chat},
    {"probe", test_probe},
    {"generating", test_generating},
    {"scoring", test_scoring},
    {"callbacks", test_callbacks},
    {"cancelling", test_cancelling},
    {"growing_structs", test_growing_structs},
    {"nulls", test_nulls},
    {"handles", test_handles},
    {"threads", test_threads},
};

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: %s FILE [TEST]\n", argv[0]);
    return 2;
  }
  model_path = argv[1];
  int run = 0;
  for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); ++i) {
    if (argc == 3 && strcmp(argv[2], tests[i].name) != 0) continue;
    const int before = atomic_load(&failures);
    tests[i].run();
    printf("%s %s\n", atomic_load(&failures) == before ? "passed" : "FAILED", tests[i].name);
    ++run;
  }
  if (run == 0) fprintf(stderr, "there is no test %s\n", argv[2]);
  return run == 0 || atomic_load(&failures) != 0 ? 1 : 0;
}
