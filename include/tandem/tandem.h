// The run time for C, and for every language that can call C: an engine is a loaded file, a session is one conversation
// with it. C11. What engine.h says of engines and sessions holds here too; docs/c-api.md has a complete program.
//
//   tandem_engine* engine = NULL;
//   tandem_session* session = NULL;
//   tandem_generate_result answer = TANDEM_GENERATE_RESULT_INIT;
//   const tandem_message question = {"user", "Tell me a story.", NULL};
//   if (tandem_engine_load("demo.tdm", NULL, &engine) != TANDEM_OK ||
//       tandem_session_create(engine, &session) != TANDEM_OK ||
//       tandem_session_generate_chat(session, &question, 1, NULL, &answer) != TANDEM_OK) {
//     fprintf(stderr, "%s\n", tandem_last_error());
//   } else {
//     puts(answer.text);
//   }
//   tandem_generate_result_clear(&answer);
//   tandem_session_destroy(session);
//   tandem_engine_destroy(engine);
//
// ERRORS. A function that can fail returns a tandem_status. When it is not TANDEM_OK, tandem_last_error() says in one
// sentence what is wrong and what to do, and what the call would have written is NULL or 0. NULL where something is
// needed, an unknown flag, a number out of range: TANDEM_INVALID_ARGUMENT, never a crash. No exception leaves a call.
//
// MEMORY. Strings and arrays that a call writes through a pointer (char**, int32_t**) belong to the caller, who gives
// them to tandem_free(). A tandem_generate_result is emptied by tandem_generate_result_clear(). What the caller passes
// is read during the call and not kept, but for the log function and its user data. Strings that are returned directly
// (tandem_version(), the names) are constants.
//
// TEXT is UTF-8 and ends with a zero byte; where a length is written besides, the text may have zero bytes in it. In
// messages, JSON and template variables, invalid UTF-8 is refused; in a text to encode it counts as U+FFFD.
//
// HANDLES. Engines and sessions are names of objects, not addresses, and no name is given twice: a call with a handle
// that was destroyed, or that is of the other kind, is refused with TANDEM_INVALID_ARGUMENT. Destroying NULL does
// nothing. A session keeps its engine alive: they may be destroyed in any order.
//
// THREADS. An engine may be used by any number of threads. A session takes one call at a time; another one, from a
// thread or from one of its callbacks, is refused. tandem_session_cancel(), tandem_session_clear_cancel() and
// tandem_session_destroy() may come at any time, from any thread, but not from a signal handler.
//
// STRUCTS GROW. The first field of a struct that may get more fields is its size in bytes: what the caller was compiled
// with. TANDEM_..._INIT sets it and leaves the rest zero, and zero in a field always means its default. A library that
// is newer than the caller takes the fields that the caller's struct lacks as zero, and writes none of them. An older
// library refuses a struct with TANDEM_UNSUPPORTED if a field that it does not know is not zero, and writes zeros
// there. A field that is only partly within `size` counts as lacking.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "tandem/export.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Codes ----

// Numbers and fields have fixed widths, so that other languages can declare them.
typedef int32_t tandem_status;
enum {
  TANDEM_OK = 0,
  TANDEM_INVALID_ARGUMENT = 1,    // The caller asked for something that makes no sense.
  TANDEM_NOT_FOUND = 2,           // A file or another thing that should be there is not.
  TANDEM_UNSUPPORTED = 3,         // Well-formed, but nothing here can do it.
  TANDEM_CORRUPT = 4,             // The bytes do not say what they should: truncated, flipped, hostile.
  TANDEM_IO = 5,                  // The operating system refused, or the file changed while it was in use.
  TANDEM_RESOURCE_EXHAUSTED = 6,  // Memory, context or another limit is used up.
  TANDEM_CANCELLED = 7,           // A callback or tandem_session_cancel() stopped tandem_session_score() or _embed().
  TANDEM_INTERNAL = 8             // A bug in tandem.
};

typedef int32_t tandem_mode;  // What a file's methods make possible.
enum {
  TANDEM_MODE_KV = 0,     // One token per call, prompts too.
  TANDEM_MODE_HYBRID = 1  // Prompts in chunks, then one token per call.
};

typedef int32_t tandem_verify;  // When the checksums of the weights are verified.
enum {
  TANDEM_VERIFY_ON_FIRST_USE = 0,  // Before the first token.
  TANDEM_VERIFY_AT_LOAD = 1,
  TANDEM_VERIFY_NEVER = 2
};

typedef int32_t tandem_log_level;
enum {
  TANDEM_LOG_DEFAULT = 0,  // In options: TANDEM_LOG_WARNING.
  TANDEM_LOG_ERROR = 1,
  TANDEM_LOG_WARNING = 2,
  TANDEM_LOG_INFO = 3,
  TANDEM_LOG_DEBUG = 4
};

typedef int32_t tandem_finish_reason;
enum {
  TANDEM_FINISH_STOP = 0,          // An end-of-text token or a stop string.
  TANDEM_FINISH_LENGTH = 1,        // `max_new_tokens`.
  TANDEM_FINISH_CONTEXT_FULL = 2,  // No position is left.
  TANDEM_FINISH_CANCELLED = 3      // tandem_session_cancel(), or a callback that returned 0.
};

// "ok", "not_found"; "kv", "hybrid"; "error", "warning"; "stop", "context_full". "unknown" for any other number.
TANDEM_API const char* tandem_status_name(tandem_status status);
TANDEM_API const char* tandem_mode_name(tandem_mode mode);
TANDEM_API const char* tandem_log_level_name(tandem_log_level level);
TANDEM_API const char* tandem_finish_reason_name(tandem_finish_reason reason);

// ---- The library ----

// The version of the library that is running: "0.1.0".
TANDEM_API const char* tandem_version(void);

// The message of this thread's last call that failed, until the next one that fails; "" if none has. Never NULL.
TANDEM_API const char* tandem_last_error(void);

// Frees what a call has given to the caller. NULL is fine.
TANDEM_API void tandem_free(void* memory);

// From now on a file that is truncated while it is in use gives an error instead of SIGBUS; see mapping_guard.h.
TANDEM_API tandem_status tandem_guard_file_mappings(void);

// ---- Engines ----

typedef struct tandem_engine tandem_engine;
typedef struct tandem_session tandem_session;

// Receives warnings and notes that are not errors of a call. It may be called from any thread, from several at once,
// as long as the engine or one of its sessions exists or is in a call; it must not call tandem.
typedef void (*tandem_log_function)(tandem_log_level level, const char* message, void* user_data);

// An option of a back end by name, as text: {"profile", "sustained"}. See EngineOptions::backend in engine.h. This
// struct will not grow.
typedef struct tandem_backend_option {
  const char* name;
  const char* value;
} tandem_backend_option;

typedef struct tandem_engine_options {
  size_t size;
  int32_t threads;  // 0: one per core that this process may use.
  tandem_verify verify;
  tandem_log_level log_level;  // The finest level that `log` gets.
  int32_t reserved;
  tandem_log_function log;
  void* log_user_data;
  const tandem_backend_option* backend_options;
  size_t backend_option_count;
  // Of a file for several targets: the program to take, by its target or back end, and another one for single tokens.
  // NULL: the first that works, for everything. See EngineOptions::run_on and decode_on in engine.h.
  const char* run_on;
  const char* decode_on;
} tandem_engine_options;

// Maps the file and checks its header; the weights are not read. `options` may be NULL.
TANDEM_API tandem_status tandem_engine_load(const char* path, const tandem_engine_options* options,
                                            tandem_engine** engine);
// The same for a model that is a part of a file, such as an APK: `length` bytes from `offset` on; a length of -1 means
// up to the file's end. The descriptor must be of a regular file that is open for reading; it is duplicated, and the
// caller may close its own after the call. See file_region.h about offsets.
TANDEM_API tandem_status tandem_engine_load_fd(int32_t descriptor, int64_t offset, int64_t length,
                                               const tandem_engine_options* options, tandem_engine** engine);
// Its sessions remain usable; the file is unmapped after the last of them.
TANDEM_API tandem_status tandem_engine_destroy(tandem_engine* engine);

typedef struct tandem_engine_info {
  size_t size;
  tandem_mode mode;
  int32_t threads;
  int64_t context;     // Positions of a session.
  int64_t vocab_size;  // Logits of a row.
  int32_t has_tokenizer;
  int32_t reserved;
  // What the program that runs was compiled for ("sm8750"), and its back end ("qnn"). Valid as long as the engine or
  // one of its sessions exists.
  const char* target;
  const char* backend;
  int64_t hidden_size;  // Floats of a row of tandem_session_embed(). 0: the program that runs gives none.
} tandem_engine_info;

TANDEM_API tandem_status tandem_engine_get_info(const tandem_engine* engine, tandem_engine_info* info);
// The tokens that end an answer.
TANDEM_API tandem_status tandem_engine_eos_tokens(const tandem_engine* engine, int32_t** tokens, size_t* count);

// ---- Text and tokens ----

// A turn of a conversation. This struct will not grow: what else a turn may have goes into `fields`.
typedef struct tandem_message {
  const char* role;  // "system", "user", "assistant", ...
  const char* content;
  // More of it, as a JSON object for the model's chat template: {"tool_calls": [...]}, {"reasoning_content": "..."}.
  // NULL: nothing.
  const char* fields;
} tandem_message;

// Functions whose names end in _json take a conversation as a JSON array instead, as chat APIs write it:
// [{"role": "user", "content": "Hello"}, ...]. Further keys, and a content that is not a string, go to the model's chat
// template as they are.

// Flags. A function refuses those that it does not name.
enum {
  TANDEM_ADD_SPECIAL = 1,           // Put tokens around the text that the tokenizer adds: the beginning of text.
  TANDEM_PARSE_SPECIAL = 2,         // What spells a control token becomes one: for your own text, never for others'.
  TANDEM_SKIP_SPECIAL = 4,          // Leave special tokens out of the text.
  TANDEM_ADD_GENERATION_PROMPT = 8  // Go on up to where an answer begins.
};

// The tokens of a text of `length` bytes; SIZE_MAX: it ends with a zero byte. Flags: TANDEM_ADD_SPECIAL,
// TANDEM_PARSE_SPECIAL.
TANDEM_API tandem_status tandem_engine_encode(const tandem_engine* engine, const char* text, size_t length,
                                              uint32_t flags, int32_t** tokens, size_t* count);
// `length` may be NULL. Flags: TANDEM_SKIP_SPECIAL.
TANDEM_API tandem_status tandem_engine_decode(const tandem_engine* engine, const int32_t* tokens, size_t count,
                                              uint32_t flags, char** text, size_t* length);
// The tokens of a conversation, as tandem_session_generate_chat() gives them to the model. `variables`: further
// variables of the chat template, as a JSON object, or NULL. Control tokens come from the template alone; see
// Engine::encode_chat() in engine.h. Flags: TANDEM_ADD_GENERATION_PROMPT, TANDEM_PARSE_SPECIAL.
TANDEM_API tandem_status tandem_engine_encode_chat(const tandem_engine* engine, const tandem_message* messages,
                                                   size_t message_count, const char* variables, uint32_t flags,
                                                   int32_t** tokens, size_t* count);
TANDEM_API tandem_status tandem_engine_encode_chat_json(const tandem_engine* engine, const char* messages,
                                                        const char* variables, uint32_t flags, int32_t** tokens,
                                                        size_t* count);
// The conversation as the text that the model expects, for display. `length` may be NULL. Flags:
// TANDEM_ADD_GENERATION_PROMPT.
TANDEM_API tandem_status tandem_engine_render_chat(const tandem_engine* engine, const tandem_message* messages,
                                                   size_t message_count, const char* variables, uint32_t flags,
                                                   char** text, size_t* length);
TANDEM_API tandem_status tandem_engine_render_chat_json(const tandem_engine* engine, const char* messages,
                                                        const char* variables, uint32_t flags, char** text,
                                                        size_t* length);

// ---- Sessions ----

// Receives a piece of the answer, always whole characters, on the thread that called generate. The piece ends with a
// zero byte and is valid during the call. Return 0 to stop, anything else to go on.
typedef int32_t (*tandem_text_function)(const char* piece, size_t length, void* user_data);

// Receives the logits after the token `index` of those that are scored. Return 0 to stop, anything else to go on.
typedef int32_t (*tandem_logits_function)(size_t index, const float* logits, size_t count, void* user_data);

// Receives the hidden state of the token `index` of those that are embedded. Return 0 to stop, anything else to go on.
typedef int32_t (*tandem_hidden_function)(size_t index, const float* hidden, size_t count, void* user_data);

typedef struct tandem_generate_options {
  size_t size;
  float temperature;                // 0: always the most likely token. The other filters then have no effect.
  int32_t top_k;                    // Keep the k most likely. 0: off.
  float top_p;                      // Keep the most likely that together have this probability. 0 or 1: off.
  float min_p;                      // Keep what has at least this share of the most likely one's probability. 0: off.
  float repetition_penalty;         // Above 1: tokens of the history get less likely. 0 or 1: off.
  int32_t repetition_window;        // How many of the last tokens of the history count; 0: all of them.
  uint64_t seed;                    // The same seed gives the same answer.
  int64_t max_new_tokens;           // 0: until the model stops or the context is full.
  const char* const* stop_strings;  // Text that ends the answer; it is not part of it.
  size_t stop_string_count;
  const char* template_variables;  // For chats: further variables of the template, as a JSON object; NULL: none.
  int32_t parse_special;           // For chats: not 0: special tokens spelled in messages become tokens.
  int32_t ignore_eos;              // Not 0: go on after end-of-text tokens; for measurements.
  tandem_text_function on_text;    // The answer, piece by piece; NULL: only in the result.
  // For chats: what a thinking model writes before its answer.
  tandem_text_function on_reasoning;
  void* user_data;  // For both functions.
} tandem_generate_options;

// What the model's authors recommend. Set `size` first; functions and user data are set to NULL.
TANDEM_API tandem_status tandem_engine_default_options(const tandem_engine* engine, tandem_generate_options* options);

typedef struct tandem_generate_result {
  size_t size;
  char* text;  // Of a chat: without the reasoning. Not NULL after a call that succeeded, nor are the other strings.
  size_t text_length;
  char* reasoning;  // Of a chat: what a thinking model wrote before its answer.
  size_t reasoning_length;
  char* stop_string;  // The one that ended the answer, or "".
  int32_t* tokens;    // Without the end-of-text token. NULL if there are none.
  size_t token_count;
  int64_t prompt_tokens;  // Computed ones; those that were still in the session's cache do not count.
  int64_t reused_tokens;  // Tokens of the prompt that were in the cache.
  double prompt_seconds;  // Until the prompt was computed.
  double first_token_seconds;
  double decode_seconds;  // After the first token.
  tandem_finish_reason finish;
  int32_t reserved;
} tandem_generate_result;

// Frees what is in a result and zeroes it but for its size. Call it between two uses, too: a generate call overwrites
// the pointers of an earlier answer without freeing them.
TANDEM_API tandem_status tandem_generate_result_clear(tandem_generate_result* result);

TANDEM_API tandem_status tandem_session_create(const tandem_engine* engine, tandem_session** session);
// A call that is running in another thread, or whose callback this is, is cancelled and returns by itself; until then
// its callbacks may still be called.
TANDEM_API tandem_status tandem_session_destroy(tandem_session* session);

// Answers the last message of a conversation. Tokens that the cache still holds from earlier turns are reused.
// `options` may be NULL: greedy, without callbacks. `result` may be NULL if the callbacks are enough.
TANDEM_API tandem_status tandem_session_generate_chat(tandem_session* session, const tandem_message* messages,
                                                      size_t message_count, const tandem_generate_options* options,
                                                      tandem_generate_result* result);
TANDEM_API tandem_status tandem_session_generate_chat_json(tandem_session* session, const char* messages,
                                                           const tandem_generate_options* options,
                                                           tandem_generate_result* result);
// Computes these tokens after the session's and generates from there. If it fails, the session holds the tokens it held
// before.
TANDEM_API tandem_status tandem_session_generate(tandem_session* session, const int32_t* tokens, size_t count,
                                                 const tandem_generate_options* options,
                                                 tandem_generate_result* result);
// Makes the session hold exactly these tokens and generates from there; a common prefix stays in the cache.
TANDEM_API tandem_status tandem_session_generate_from(tandem_session* session, const int32_t* tokens, size_t count,
                                                      const tandem_generate_options* options,
                                                      tandem_generate_result* result);

// Stops the running call, from any thread, within a token. Without one the next generate or score call is stopped at
// once, so that no request is lost. A generate call that is stopped succeeds, with what it has and
// TANDEM_FINISH_CANCELLED.
TANDEM_API tandem_status tandem_session_cancel(tandem_session* session);
// Withdraws a request that no call has taken yet.
TANDEM_API tandem_status tandem_session_clear_cancel(tandem_session* session);

// The tokens in the cache, copied. A callback of the session may ask, another thread only between its calls.
TANDEM_API tandem_status tandem_session_tokens(tandem_session* session, int32_t** tokens, size_t* count);
// Forgets all tokens from `length` on.
TANDEM_API tandem_status tandem_session_rewind(tandem_session* session, int64_t length);
// Appends these tokens to the session's and passes the logits after each of them to `on_logits`. With NULL the tokens
// are computed and appended, and no logits are computed. After an error the session holds the tokens computed until
// then.
TANDEM_API tandem_status tandem_session_score(tandem_session* session, const int32_t* tokens, size_t count,
                                              tandem_logits_function on_logits, void* user_data);
// Appends these tokens to the session's and passes the hidden state of each of them to `on_hidden`: the output of the
// model's final norm, which the LM head would multiply. No logits are computed. NULL and errors as above;
// TANDEM_UNSUPPORTED where `hidden_size` of the engine is 0.
TANDEM_API tandem_status tandem_session_embed(tandem_session* session, const int32_t* tokens, size_t count,
                                              tandem_hidden_function on_hidden, void* user_data);

// The code and the message of the session's last call that failed, whatever thread it was on; TANDEM_OK and "" if none
// has. `code` may be NULL.
TANDEM_API tandem_status tandem_session_last_error(tandem_session* session, tandem_status* code, char** message);

// ---- Can it run here? ----

// Says as a JSON object which back ends can run a file on this machine, and for the others why not and what to do; see
// probe.h for its fields. The weights are not read. `path` may be NULL: every back end of this library. A file that is
// absent or broken is an error; that nothing can run it is none. `options`: as for tandem_engine_load().
TANDEM_API tandem_status tandem_probe(const char* path, const tandem_engine_options* options, char** json);
// The same for a model that is a part of a file; see tandem_engine_load_fd().
TANDEM_API tandem_status tandem_probe_fd(int32_t descriptor, int64_t offset, int64_t length,
                                         const tandem_engine_options* options, char** json);

// ---- Structs that hold their defaults ----

#define TANDEM_ENGINE_OPTIONS_INIT \
  { sizeof(tandem_engine_options), 0, 0, 0, 0, NULL, NULL, NULL, 0, NULL, NULL }
#define TANDEM_ENGINE_INFO_INIT \
  { sizeof(tandem_engine_info), 0, 0, 0, 0, 0, 0, NULL, NULL, 0 }
#define TANDEM_GENERATE_OPTIONS_INIT \
  { sizeof(tandem_generate_options), 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, NULL, 0, 0, NULL, NULL, NULL }
#define TANDEM_GENERATE_RESULT_INIT \
  { sizeof(tandem_generate_result), NULL, 0, NULL, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, 0, 0 }

#ifdef __cplusplus
}  // extern "C"
#endif
