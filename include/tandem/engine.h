// The run time: an Engine is a loaded file, a Session is one conversation with it.
//
//   auto engine = tandem::Engine::load("demo.tdm");
//   if (!engine.ok()) { std::puts(engine.error().message.c_str()); return; }
//   auto session = (*engine)->new_session();
//   auto result = (*session)->generate_chat({{"user", "Tell me a story."}}, (*engine)->default_options(),
//                                           [](std::string_view piece) { std::cout << piece; return true; });
//
// An engine is immutable and may be shared by any number of threads and sessions. A session belongs to one caller at a
// time; only Session::cancel() may be called from another thread meanwhile. A call that finds the session in another
// one, from a thread or from a callback, is refused and changes nothing.
//
// No call throws. Where memory, threads or file handles run out, the error is kResourceExhausted, and the same call may
// succeed later. An exception of the app's own callback ends the call with kInvalidArgument, and std::bad_alloc among
// them with kResourceExhausted. Callbacks may be empty.
//
// The file is used where it is mapped. A call that finds it changed or truncated returns kIo and nothing computed from
// it; the engine is then unusable, and a new one can be loaded once the file is whole. See mapping_guard.h for what
// happens between the change and the call that finds it. Replacing the file by a rename is safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/backend_options.h"
#include "tandem/export.h"
#include "tandem/file_region.h"
#include "tandem/log.h"
#include "tandem/message.h"
#include "tandem/sampler_options.h"
#include "tandem/status.h"

namespace tandem {

class Session;

// What a file's methods make possible.
enum class Mode {
  kKv,      // One token per call, prompts too.
  kHybrid,  // Prompts in chunks, then one token per call.
};
TANDEM_API const char* mode_name(Mode mode);  // "kv", "hybrid"

// When the checksums of the weights are verified. The header's is always verified when loading.
enum class VerifyWeights {
  kOnFirstUse,  // Before the first token: that reads all weights anyway, so it costs little, and loading only maps the
                // file.
  kAtLoad,
  kNever,
};

struct EngineOptions {
  int threads = 0;  // 0: one per core that this process may use.
  VerifyWeights verify = VerifyWeights::kOnFirstUse;
  // Receives warnings and notes that are not errors, as long as the engine or one of its sessions lives: that an NPU
  // runs without shared memory, say, and the vendor's library's own messages. That library's threads belong to no
  // particular engine: their messages go to the logs of all engines that use it.
  LogCallback log = {};
  LogLevel log_level = LogLevel::kWarning;  // The finest level that `log` gets.
  // Options of back ends. Those of a back end other than the file's have no effect, so that an app may pass the same
  // options for every file; a name that no back end of this build knows is refused. For files for an NPU:
  //   qnn-libs        folder of libQnnHtp.so; default: TANDEM_QNN_LIBS, build/qnn, or where the system finds libraries
  //   profile         how fast the NPU is clocked while the engine lives: burst (the default; as fast as it goes, until
  //                   it gets warm), sustained (as fast as it goes for long), balanced, power_saver
  //   signed-pd       true: run in a signed process on the DSP
  //   shared-buffers  false: no memory that the NPU sees without copies
  //   rpc-polling-us  how long the CPU spins for an answer before it sleeps, 0 (it does not) to 9999, the default
  // All but qnn-libs have no effect on Qualcomm's x86 emulator.
  BackendOptions backend = {};
  // A file for several targets has a program for each. The engine takes the first that works here, in the file's order,
  // and says in the log why not those before it. This names the one to take instead, by its target ("sm8750") or by its
  // back end ("cpu": the first of that back end which works).
  std::string run_on = {};
  // Names another program of the file, which computes single tokens while the one above computes prompts: an NPU for
  // long prompts and a CPU for answers, say. Keys and values are converted from one's cache to the other's and rounded
  // to what it holds, so answers may differ from those of either alone; a session has both caches. Where only one of
  // the two works, it does everything, and the log says why. Not for models with windows or rotary tables for two
  // lengths.
  std::string decode_on = {};
};

// Receives a piece of the answer, always whole characters; returning false stops.
using StreamCallback = std::function<bool(std::string_view piece)>;

struct GenerateOptions {
  SamplerOptions sampler = {};
  int64_t max_new_tokens = 0;                  // 0: until the model stops or the context is full.
  std::vector<std::string> stop_strings = {};  // Text that ends the answer; it is not part of it.
  bool ignore_eos = false;                     // Go on after end-of-text tokens; for measurements.
  // For generate_chat(): further variables for the model's chat template, as a JSON object; "": none.
  // {"enable_thinking": false, "tools": […]}
  std::string template_variables = {};
  // For generate_chat(): special tokens spelled in messages become tokens like those in the template's own text, as in
  // the hub's tokenizers. Whoever writes a message can then forge turns; see Engine::encode_chat().
  bool parse_special = false;
  // For generate_chat(): receives what a thinking model writes between <think> and </think> before its answer.
  StreamCallback on_reasoning = {};
};

enum class FinishReason {
  kStop,         // An end-of-text token or a stop string.
  kLength,       // max_new_tokens.
  kContextFull,  // No position is left.
  kCancelled,    // cancel(), or a callback that returned false.
};
TANDEM_API const char* finish_reason_name(FinishReason reason);  // "stop", "length", "context_full", "cancelled"

struct GenerateResult {
  std::string text;             // Of generate_chat(): without the reasoning.
  std::vector<int32_t> tokens;  // Without the end-of-text token.
  FinishReason finish = FinishReason::kStop;
  std::string stop_string;      // The one that ended the answer, if one did.
  int64_t prompt_tokens = 0;    // Computed ones; those that were still in the session's cache do not count.
  int64_t reused_tokens = 0;    // Tokens of the prompt that were in the cache.
  double prompt_seconds = 0.0;  // Until the prompt was computed.
  double first_token_seconds = 0.0;
  double decode_seconds = 0.0;  // After the first token.
  std::string reasoning = {};   // Of generate_chat(): what a thinking model wrote before its answer.
};

class TANDEM_API Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Maps the file and checks its header. The weights are not read.
  static Result<std::shared_ptr<Engine>> load(const std::filesystem::path& path, const EngineOptions& options = {});
  // The same for a model that is a part of a file.
  static Result<std::shared_ptr<Engine>> load(const FileRegion& region, const EngineOptions& options = {});

  virtual ~Engine() = default;

  virtual Result<std::unique_ptr<Session>> new_session() = 0;

  virtual Mode mode() const = 0;
  virtual int64_t context() const = 0;  // Positions of a session.
  virtual int64_t vocab_size() const = 0;
  virtual int threads() const = 0;
  // The sampling options that the model's authors recommend, from its generation_config.json.
  virtual GenerateOptions default_options() const = 0;

  virtual bool has_tokenizer() const = 0;
  // The tokens of a text. `add_special` puts those around it that the tokenizer adds, such as the beginning of text.
  //
  // What the text spells never becomes a control token: "<|im_end|>" in it is ordinary text, so that a user's words
  // cannot end a turn or begin another. Control tokens are those that the tokenizer flags as special, and other added
  // tokens that the model's chat template names (<tool_response>). `parse_special` turns them all into tokens, as the
  // hub's tokenizers do: for your own text, never for others'.
  virtual Result<std::vector<int32_t>> encode(std::string_view text, bool add_special,
                                              bool parse_special = false) const = 0;
  virtual Result<std::string> decode(std::span<const int32_t> tokens, bool skip_special) const = 0;
  // The tokens of a conversation, as Session::generate_chat() gives them to the model: by the chat template in the
  // file, up to where an answer begins with `add_generation_prompt`. `variables`: as in
  // GenerateOptions::template_variables.
  //
  // Control tokens come from the template alone. No words of a content, field, tool call or variable become one,
  // however the template cuts, joins or changes them; what the template writes itself because of them (a literal behind
  // an `if`, an item of its own list that they pick) is the template's word. Only a role that is a plain word (letters,
  // digits, '-', '_', up to 64) is taken for the app's own, because some templates make tokens of roles. In messages of
  // the role "assistant" the control tokens that are not flagged as special are kept, because a model's own answers
  // hold them. The token variables of the template (bos_token, eos_token, …) are the file's; a variable of such a name
  // with another text is data. `parse_special`: as in encode(); then content can forge turns.
  virtual Result<std::vector<int32_t>> encode_chat(std::span<const Message> messages, bool add_generation_prompt,
                                                   std::string_view variables = {},
                                                   bool parse_special = false) const = 0;
  // The conversation as the text that the model expects, for display. The text no longer says who wrote what: encoding
  // it with `parse_special` lets content forge turns. For tokens, use encode_chat().
  virtual Result<std::string> render_chat(std::span<const Message> messages, bool add_generation_prompt,
                                          std::string_view variables = {}) const = 0;
  virtual std::span<const int32_t> eos_tokens() const = 0;

  // What the file's program that runs was compiled for ("sm8750"), and its back end ("qnn").
  virtual std::string_view target() const = 0;
  virtual std::string_view backend() const = 0;

  // Floats of a row of Session::embed(); 0: the program that runs gives none.
  virtual int64_t hidden_size() const = 0;
};

class TANDEM_API Session {
 public:
  virtual ~Session() = default;

  // Computes `prompt` after the session's tokens, then generates. If it fails, the session holds the tokens it held
  // before the call and remains usable; a failed generate_from() or generate_chat() leaves of them the prefix that they
  // share with the new tokens.
  virtual Result<GenerateResult> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                          const StreamCallback& callback) = 0;
  // Answers the last message of a conversation. Tokens that the cache still holds from earlier turns are reused.
  // The callback gets the answer; reasoning before it goes to options.on_reasoning. To keep it in the conversation, put
  // it into the message's fields: {"reasoning_content": "…"}.
  virtual Result<GenerateResult> generate_chat(std::span<const Message> messages, const GenerateOptions& options,
                                               const StreamCallback& callback) = 0;
  // Makes the session hold exactly these tokens and generates from there; a common prefix stays in the cache.
  virtual Result<GenerateResult> generate_from(std::span<const int32_t> tokens, const GenerateOptions& options,
                                               const StreamCallback& callback) = 0;

  // Stops the running generate, score or embed call, from any thread. Without one the next such call is stopped at
  // once, so that a request that comes just before a call is not lost: a generate call ends with kCancelled and
  // computes nothing, score() and embed() with the error kCancelled. A call takes the request with it when it ends.
  virtual void cancel() = 0;
  // Withdraws a request that no call has taken yet. For an app whose stop button can be pressed when nothing runs.
  virtual void clear_cancel() = 0;

  // The tokens in the cache.
  virtual std::span<const int32_t> tokens() const = 0;
  // Forgets all tokens from `length` on.
  virtual Status rewind(int64_t length) = 0;

  // Appends these tokens to the session's and passes the logits after each of them to on_row(index, logits). Without
  // on_row the tokens are computed and appended, and no logits are computed. After an error the session holds the
  // tokens computed until then.
  virtual Status score(std::span<const int32_t> tokens,
                       const std::function<Status(size_t index, std::span<const float> logits)>& on_row) = 0;

  // Appends these tokens to the session's and passes the hidden state of each of them to on_row(index, hidden): the
  // output of the model's final norm, hidden_size() floats, which the LM head would multiply. No logits are computed.
  // Errors and cancel() as with score(). kUnsupported where hidden_size() is 0: a program whose graphs are compiled for
  // a device gives logits alone.
  virtual Status embed(std::span<const int32_t> tokens,
                       const std::function<Status(size_t index, std::span<const float> hidden)>& on_row) = 0;
};

}  // namespace tandem
