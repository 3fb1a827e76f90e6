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
// it; the engine is of no more use then, and a new one can be loaded once the file is whole. See mapping_guard.h for
// what happens between the change and the call that finds it. A file that is replaced by a rename does no harm.
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

// When the checksums of the weights are compared. The head's is always compared when loading.
enum class VerifyWeights {
  kOnFirstUse,  // Before the first token: that reads all weights anyway, so it costs little then, and loading stays a
                // map.
  kAtLoad,
  kNever,
};

struct EngineOptions {
  int threads = 0;  // 0: one per core that this process may use.
  VerifyWeights verify = VerifyWeights::kOnFirstUse;
  // Takes what is worth knowing and is no error, as long as the engine or one of its sessions lives: that an NPU runs
  // without shared memory, say, and what its vendor's library says itself. Threads of that library cannot be told apart
  // by engine: what they say goes to the logs of all engines that use it.
  LogCallback log = {};
  LogLevel log_level = LogLevel::kWarning;  // The finest level that `log` gets.
  // Of back ends. What is meant for another back end than the file's has no effect, so that an app may give the same
  // options for every file; a name that no back end of this build knows is refused. For files for an NPU:
  //   qnn-libs        folder of libQnnHtp.so; default: TANDEM_QNN_LIBS, build/qnn, or where the system finds libraries
  //   profile         how fast the NPU is clocked while the engine lives: burst (the default; as fast as it goes, until
  //                   it gets warm), sustained (as fast as it goes for long), balanced, power_saver
  //   signed-pd       true: run in a signed process on the DSP
  //   shared-buffers  false: no memory that the NPU sees without copies
  //   rpc-polling-us  how long the CPU spins for an answer before it sleeps, 0 (it does not) to 9999, the default
  // All but qnn-libs have no effect on Qualcomm's x86 emulator.
  BackendOptions backend = {};
};

// Takes a piece of the answer, always whole characters; false stops.
using StreamCallback = std::function<bool(std::string_view piece)>;

struct GenerateOptions {
  SamplerOptions sampler = {};
  int64_t max_new_tokens = 0;                  // 0: until the model stops or the context is full.
  std::vector<std::string> stop_strings = {};  // Text that ends the answer; it is not part of it.
  bool ignore_eos = false;                     // Go on after end-of-text tokens; for measurements.
  // Of generate_chat(): what else the model's chat template may ask for, as a JSON object; "": nothing.
  // {"enable_thinking": false, "tools": […]}
  std::string template_variables = {};
  // Of generate_chat(): what messages spell becomes special tokens as the template's own text does, as the tokenizers
  // of the hub do it. Whoever writes a message can then forge turns; see Engine::encode_chat().
  bool parse_special = false;
  // Of generate_chat(): takes what a thinking model writes between <think> and </think> before its answer.
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
  int64_t prompt_tokens = 0;    // That were computed; what the session still had in its cache is not among them.
  int64_t reused_tokens = 0;    // Of the prompt, that were in the cache.
  double prompt_seconds = 0.0;  // Until the prompt was computed.
  double first_token_seconds = 0.0;
  double decode_seconds = 0.0;  // After the first token.
  std::string reasoning = {};   // Of generate_chat(): what a thinking model wrote before its answer.
};

class TANDEM_API Engine : public std::enable_shared_from_this<Engine> {
 public:
  // Maps the file and checks its head. The weights are not read.
  static Result<std::shared_ptr<Engine>> load(const std::filesystem::path& path, const EngineOptions& options = {});

  virtual ~Engine() = default;

  virtual Result<std::unique_ptr<Session>> new_session() = 0;

  virtual Mode mode() const = 0;
  virtual int64_t context() const = 0;  // Positions of a session.
  virtual int64_t vocab_size() const = 0;
  virtual int threads() const = 0;
  // The sampling that the model's makers recommend, from its generation_config.json.
  virtual GenerateOptions default_options() const = 0;

  virtual bool has_tokenizer() const = 0;
  // The tokens of a text. `add_special` puts those around it that the tokenizer adds, such as the beginning of text.
  //
  // What the text spells never becomes a control token: "<|im_end|>" in it is ordinary text, so that a user's words
  // cannot end a turn or begin another. Control tokens are those that the tokenizer flags as special, and other added
  // tokens that the model's chat template names (<tool_response>). `parse_special` makes tokens of them all, as the
  // tokenizers of the hub do: for text that is your own, never for text of others.
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
  // The conversation as the text that the model expects, to look at. The text no longer says who wrote what: encoding
  // it with `parse_special` lets content forge turns. For tokens there is encode_chat().
  virtual Result<std::string> render_chat(std::span<const Message> messages, bool add_generation_prompt,
                                          std::string_view variables = {}) const = 0;
  virtual std::span<const int32_t> eos_tokens() const = 0;
};

class TANDEM_API Session {
 public:
  virtual ~Session() = default;

  // Computes `prompt` after what the session already holds, then generates. If it fails, the session holds what it
  // held before the call, and can go on; of generate_from() and generate_chat(), the beginning that it has in common
  // with the new tokens.
  virtual Result<GenerateResult> generate(std::span<const int32_t> prompt, const GenerateOptions& options,
                                          const StreamCallback& callback) = 0;
  // Answers the last message of a conversation. What the cache holds of it from earlier turns is not computed again.
  // The callback gets the answer; reasoning before it goes to options.on_reasoning. To keep it in the conversation, put
  // it into the message's fields: {"reasoning_content": "…"}.
  virtual Result<GenerateResult> generate_chat(std::span<const Message> messages, const GenerateOptions& options,
                                               const StreamCallback& callback) = 0;
  // Makes the session hold exactly these tokens and generates from there; a common beginning stays in the cache.
  virtual Result<GenerateResult> generate_from(std::span<const int32_t> tokens, const GenerateOptions& options,
                                               const StreamCallback& callback) = 0;

  // Stops a generate call that is running, from any thread. Without one, it does nothing.
  virtual void cancel() = 0;

  // The tokens in the cache.
  virtual std::span<const int32_t> tokens() const = 0;
  // Forgets all tokens from `length` on.
  virtual Status rewind(int64_t length) = 0;

  // The scores of the token after each of these, which are appended to what the session holds: on_row(index, scores).
  // Without on_row the tokens are computed and appended, and no scores are. After an error the session holds the tokens
  // that were computed until then.
  virtual Status score(std::span<const int32_t> tokens,
                       const std::function<Status(size_t index, std::span<const float> logits)>& on_row) = 0;
};

}  // namespace tandem
