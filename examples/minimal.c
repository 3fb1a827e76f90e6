// The smallest C program that talks to a model: it links libtandem and nothing else.
//
//   cc -std=c11 minimal.c $(pkg-config --cflags --libs tandem) -o minimal
//   ./minimal demo.tdm "Tell me a story about a fox named Leo."
#include <stdio.h>
#include <tandem/tandem.h>

static int32_t print_piece(const char* piece, size_t length, void* user_data) {
  fwrite(piece, 1, length, (FILE*)user_data);
  return 1;  // 0 would stop.
}

static int answer(tandem_session* session, const char* prompt) {
  const tandem_message messages[] = {{"user", prompt, NULL}};
  tandem_generate_options options = TANDEM_GENERATE_OPTIONS_INIT;  // Greedy; see tandem_engine_default_options().
  options.on_text = print_piece;
  options.user_data = stdout;
  tandem_generate_result result = TANDEM_GENERATE_RESULT_INIT;
  if (tandem_session_generate_chat(session, messages, 1, &options, &result) != TANDEM_OK) return 0;
  printf("\n[%zu tokens, finished: %s]\n", result.token_count, tandem_finish_reason_name(result.finish));
  tandem_generate_result_clear(&result);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s FILE PROMPT\n", argv[0]);
    return 2;
  }
  tandem_engine* engine = NULL;
  tandem_session* session = NULL;
  const int is_answered = tandem_engine_load(argv[1], NULL, &engine) == TANDEM_OK &&
                          tandem_session_create(engine, &session) == TANDEM_OK && answer(session, argv[2]);
  if (!is_answered) fprintf(stderr, "error: %s\n", tandem_last_error());
  tandem_session_destroy(session);
  tandem_engine_destroy(engine);
  return is_answered ? 0 : 1;
}
