// Several threads: messages are each thread's own, cancels arrive, and what is destroyed while it is used goes quietly.
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "check.h"

enum { THREADS = 8, SLOTS = 4 };

struct waiting {
  tandem_session* session;
  atomic_int is_running;
  atomic_int is_cancelled;
};

static int32_t wait_for_cancel(const char* piece, size_t length, void* user_data) {
  (void)piece;
  (void)length;
  struct waiting* waiting = user_data;
  atomic_store(&waiting->is_running, 1);
  while (!atomic_load(&waiting->is_cancelled)) sched_yield();
  return 1;
}

static void* cancel_when_running(void* user_data) {
  struct waiting* waiting = user_data;
  while (!atomic_load(&waiting->is_running)) sched_yield();
  int32_t* tokens = NULL;
  size_t count = 0;
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "in another call", tandem_session_tokens(waiting->session, &tokens, &count));
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "in another call", tandem_session_rewind(waiting->session, 0));
  CHECK_OK(tandem_session_cancel(waiting->session));
  atomic_store(&waiting->is_cancelled, 1);
  return NULL;
}

static void cancel_from_another_thread(const tandem_engine* engine) {
  struct waiting waiting = {.session = new_session(engine)};
  pthread_t canceller;
  CHECK(pthread_create(&canceller, NULL, cancel_when_running, &waiting) == 0);
  tandem_generate_options options = greedy_options(0);
  options.on_text = wait_for_cancel;
  options.user_data = &waiting;
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  CHECK_OK(tandem_session_generate(waiting.session, prompt_tokens, PROMPT_COUNT, &options, &result));
  CHECK(pthread_join(canceller, NULL) == 0);
  CHECK(result.finish == TANDEM_FINISH_CANCELLED && result.token_count < GREEDY_COUNT);
  CHECK_OK(tandem_generate_result_clear(&result));
  CHECK_OK(tandem_session_destroy(waiting.session));
}

static void* fail_alone(void* user_data) {
  (void)user_data;
  CHECK(strcmp(tandem_last_error(), "") == 0);
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "engine", tandem_engine_eos_tokens(NULL, &(int32_t*){NULL}, &(size_t){0}));
  return NULL;
}

static void messages_are_the_threads_own(void) {
  CHECK_FAILS(TANDEM_INVALID_ARGUMENT, "session", tandem_session_cancel(NULL));
  pthread_t other;
  CHECK(pthread_create(&other, NULL, fail_alone, NULL) == 0);
  CHECK(pthread_join(other, NULL) == 0);
  CHECK(strstr(tandem_last_error(), "session") != NULL);
}

struct chaos {
  tandem_engine* engine;
  _Atomic(tandem_session*) slots[SLOTS];
  atomic_int answers;
};

static void check_ok_or_refused(tandem_status status) {
  if (status != TANDEM_INVALID_ARGUMENT) CHECK_OK(status);
}

static void generate_in(struct chaos* chaos, tandem_session* session) {
  const tandem_generate_options options = greedy_options(GREEDY_COUNT);
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  const tandem_status status = tandem_session_generate_from(session, prompt_tokens, PROMPT_COUNT, &options, &result);
  check_ok_or_refused(status);
  if (status == TANDEM_OK && result.finish == TANDEM_FINISH_LENGTH) {
    CHECK(is_greedy(&result, GREEDY_COUNT));
    atomic_fetch_add(&chaos->answers, 1);
  } else if (status == TANDEM_OK) {
    CHECK(result.finish == TANDEM_FINISH_CANCELLED && memcmp(result.tokens == NULL ? greedy_tokens : result.tokens,
                                                             greedy_tokens, result.token_count * sizeof(int32_t)) == 0);
  }
  CHECK_OK(tandem_generate_result_clear(&result));
}

static atomic_uint next_seed = 1;

static void* make_chaos(void* user_data) {
  struct chaos* chaos = user_data;
  uint32_t random = atomic_fetch_add(&next_seed, 1) * 2654435761u;
  for (int i = 0; i < 300; ++i) {
    random = random * 1664525u + 1013904223u;
    _Atomic(tandem_session*)* slot = &chaos->slots[(random >> 16) % SLOTS];
    int32_t* tokens = NULL;
    size_t count = 0;
    switch ((random >> 24) % 8) {
      case 0: check_ok_or_refused(tandem_session_destroy(atomic_exchange(slot, new_session(chaos->engine)))); break;
      case 1: check_ok_or_refused(tandem_session_destroy(atomic_load(slot))); break;  // Remains in its slot.
      case 2: check_ok_or_refused(tandem_session_cancel(atomic_load(slot))); break;
      case 3: check_ok_or_refused(tandem_session_rewind(atomic_load(slot), 0)); break;
      case 4:
        check_ok_or_refused(tandem_session_tokens(atomic_load(slot), &tokens, &count));
        tandem_free(tokens);
        break;
      default: generate_in(chaos, atomic_load(slot));
    }
  }
  // One's own session is nobody else's.
  tandem_session* own = new_session(chaos->engine);
  generate_in(chaos, own);
  CHECK_OK(tandem_session_destroy(own));
  return NULL;
}

static void random_calls(tandem_engine* engine) {
  struct chaos chaos = {.engine = engine};
  for (int i = 0; i < SLOTS; ++i) atomic_store(&chaos.slots[i], new_session(engine));
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_create(&threads[i], NULL, make_chaos, &chaos) == 0);
  for (int i = 0; i < THREADS; ++i) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(atomic_load(&chaos.answers) >= THREADS);
  for (int i = 0; i < SLOTS; ++i) check_ok_or_refused(tandem_session_destroy(atomic_load(&chaos.slots[i])));
}

void test_threads(void) {
  messages_are_the_threads_own();
  tandem_engine* engine = new_engine();
  for (int i = 0; i < 5; ++i) cancel_from_another_thread(engine);
  random_calls(engine);
  CHECK_OK(tandem_engine_destroy(engine));
}
