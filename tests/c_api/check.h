// Checks for the C interface's tests, which are a C program: they print what failed and go on.
#pragma once

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "tandem/tandem.h"

extern atomic_int failures;
extern const char* model_path;  // tests/data/artifact/v1.tdm

// What tandem 0.1.0 computed with that file; tests/data/artifact/v1.json.
#define PROMPT_COUNT 7
#define GREEDY_COUNT 16
extern const int32_t prompt_tokens[PROMPT_COUNT];
extern const int32_t greedy_tokens[GREEDY_COUNT];

#define CHECK(condition)                                                              \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: this is not so: %s\n", __FILE__, __LINE__, #condition); \
      atomic_fetch_add(&failures, 1);                                                 \
    }                                                                                 \
  } while (0)

#define CHECK_STATUS(wanted, call) check_status(wanted, call, #call, __FILE__, __LINE__)
#define CHECK_OK(call) CHECK_STATUS(TANDEM_OK, call)
// A failure whose message has these words.
#define CHECK_FAILS(wanted, words, call) check_fails(wanted, words, call, #call, __FILE__, __LINE__)

// Whether it has the code.
int check_status(tandem_status wanted, tandem_status got, const char* what, const char* file, int line);
void check_fails(tandem_status wanted, const char* words, tandem_status got, const char* what, const char* file,
                 int line);

// Engines and sessions of the model, with two threads; NULL after a failure, which was counted.
tandem_engine* new_engine(void);
tandem_session* new_session(const tandem_engine* engine);
// Options for `count` greedy tokens, whichever they are.
tandem_generate_options greedy_options(int64_t count);
// Whether a result has the first `count` of greedy_tokens.
int is_greedy(const tandem_generate_result* result, size_t count);

void test_names(void);
void test_loading(void);
void test_file_regions(void);
void test_text(void);
void test_chat(void);
void test_probe(void);
void test_generating(void);
void test_scoring(void);
void test_callbacks(void);
void test_cancelling(void);
void test_growing_structs(void);
void test_nulls(void);
void test_handles(void);
void test_threads(void);
