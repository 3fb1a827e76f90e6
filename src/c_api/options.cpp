#include "c_api/options.h"

#include <cstdlib>

#include "base/error.h"
#include "base/scope_exit.h"
#include "c_api/border.h"
#include "c_api/structs.h"
#include "chat/messages_json.h"

namespace tandem::c_api {
namespace {

static_assert(TANDEM_VERIFY_ON_FIRST_USE == static_cast<int>(VerifyWeights::kOnFirstUse));
static_assert(TANDEM_VERIFY_AT_LOAD == static_cast<int>(VerifyWeights::kAtLoad));
static_assert(TANDEM_VERIFY_NEVER == static_cast<int>(VerifyWeights::kNever));
static_assert(TANDEM_LOG_ERROR == static_cast<int>(LogLevel::kError) + 1);
static_assert(TANDEM_LOG_DEBUG == static_cast<int>(LogLevel::kDebug) + 1);
static_assert(TANDEM_FINISH_STOP == static_cast<int>(FinishReason::kStop));
static_assert(TANDEM_FINISH_CANCELLED == static_cast<int>(FinishReason::kCancelled));

Status set_backend_options(const tandem_engine_options& given, BackendOptions& backend) {
  if (given.backend_options == nullptr && given.backend_option_count > 0) {
    return invalid_argument("`backend_options` is NULL, but there should be {}", given.backend_option_count);
  }
  for (size_t i = 0; i < given.backend_option_count; ++i) {
    const tandem_backend_option& option = given.backend_options[i];
    if (option.name == nullptr || option.value == nullptr) {
      return invalid_argument("the name or the value of `backend_options`[{}] is NULL; give both", i);
    }
    if (!backend.emplace(option.name, option.value).second) {
      return invalid_argument("the back end's option {} is given twice; give it once", option.name);
    }
  }
  return ok_status();
}

StreamCallback to_callback(tandem_text_function function, void* user_data) {
  if (function == nullptr) return {};
  return [function, user_data](std::string_view piece) {
    const std::string text(piece);  // Ends with a zero byte.
    return function(text.c_str(), text.size(), user_data) != 0;
  };
}

Status set_stop_strings(const tandem_generate_options& given, std::vector<std::string>& stop_strings) {
  if (given.stop_strings == nullptr && given.stop_string_count > 0) {
    return invalid_argument("`stop_strings` is NULL, but there should be {}", given.stop_string_count);
  }
  for (size_t i = 0; i < given.stop_string_count; ++i) {
    if (given.stop_strings[i] == nullptr) return invalid_argument("`stop_strings`[{}] is NULL; give a text", i);
    stop_strings.emplace_back(given.stop_strings[i]);
  }
  return ok_status();
}

}  // namespace

Result<EngineOptions> to_engine_options(const tandem_engine_options* given) {
  EngineOptions options;
  if (given == nullptr) return options;
  tandem_engine_options known = TANDEM_ENGINE_OPTIONS_INIT;
  TANDEM_TRY(read_struct(kEngineOptionsLayout, given, &known));
  if (known.reserved != 0) return unsupported("`reserved` of the options is {}; leave it zero", known.reserved);
  if (known.verify < TANDEM_VERIFY_ON_FIRST_USE || known.verify > TANDEM_VERIFY_NEVER) {
    return invalid_argument("`verify` is {}; give one of TANDEM_VERIFY_…", known.verify);
  }
  if (known.log_level < TANDEM_LOG_DEFAULT || known.log_level > TANDEM_LOG_DEBUG) {
    return invalid_argument("`log_level` is {}; give one of TANDEM_LOG_…", known.log_level);
  }
  options.threads = known.threads;
  options.verify = static_cast<VerifyWeights>(known.verify);
  if (known.log_level != TANDEM_LOG_DEFAULT) options.log_level = static_cast<LogLevel>(known.log_level - 1);
  if (known.log != nullptr) {
    options.log = [function = known.log, user_data = known.log_user_data](LogLevel level, std::string_view message) {
      const std::string text(message);
      function(static_cast<tandem_log_level>(level) + 1, text.c_str(), user_data);
    };
  }
  if (known.run_on != nullptr) options.run_on = known.run_on;
  if (known.decode_on != nullptr) options.decode_on = known.decode_on;
  TANDEM_TRY(set_backend_options(known, options.backend));
  return options;
}

Result<GenerateCall> to_generate_call(const tandem_generate_options* given) {
  GenerateCall call;
  if (given == nullptr) return call;
  tandem_generate_options known = TANDEM_GENERATE_OPTIONS_INIT;
  TANDEM_TRY(read_struct(kGenerateOptionsLayout, given, &known));
  GenerateOptions& options = call.options;
  options.sampler.temperature = known.temperature;
  options.sampler.top_k = known.top_k;
  options.sampler.min_p = known.min_p;
  // Zero is no value of these two: it means that they are off.
  if (known.top_p != 0) options.sampler.top_p = known.top_p;
  if (known.repetition_penalty != 0) options.sampler.repetition_penalty = known.repetition_penalty;
  options.sampler.repetition_window = known.repetition_window;
  options.sampler.seed = known.seed;
  options.max_new_tokens = known.max_new_tokens;
  TANDEM_TRY(set_stop_strings(known, options.stop_strings));
  if (known.template_variables != nullptr) options.template_variables = known.template_variables;
  options.parse_special = known.parse_special != 0;
  options.ignore_eos = known.ignore_eos != 0;
  options.on_reasoning = to_callback(known.on_reasoning, known.user_data);
  call.callback = to_callback(known.on_text, known.user_data);
  return call;
}

void from_generate_options(const GenerateOptions& from, tandem_generate_options* options) {
  tandem_generate_options known = TANDEM_GENERATE_OPTIONS_INIT;
  known.temperature = from.sampler.temperature;
  known.top_k = from.sampler.top_k;
  known.top_p = from.sampler.top_p;
  known.min_p = from.sampler.min_p;
  known.repetition_penalty = from.sampler.repetition_penalty;
  known.repetition_window = from.sampler.repetition_window;
  known.seed = from.sampler.seed;
  known.max_new_tokens = from.max_new_tokens;
  write_struct(kGenerateOptionsLayout, &known, options);
}

Result<std::vector<Message>> to_messages(const tandem_message* messages, size_t count) {
  if (messages == nullptr && count > 0) return invalid_argument("`messages` is NULL, but there should be {}", count);
  std::vector<Message> list;
  for (size_t i = 0; i < count; ++i) {
    const tandem_message& message = messages[i];
    if (message.role == nullptr || message.content == nullptr) {
      return invalid_argument("the role or the content of message {} is NULL; give both", i);
    }
    list.push_back({message.role, message.content, message.fields == nullptr ? "" : message.fields});
  }
  return list;
}

Result<std::vector<Message>> to_messages(const char* json) {
  TANDEM_ASSIGN(const std::string_view text, text_view(json, "the conversation"));
  return parse_messages(text);
}

Status write_result(const GenerateResult& from, tandem_generate_result* result) {
  tandem_generate_result known = TANDEM_GENERATE_RESULT_INIT;
  ScopeExit forget([&] {
    for (void* memory : {static_cast<void*>(known.text), static_cast<void*>(known.reasoning),
                         static_cast<void*>(known.stop_string), static_cast<void*>(known.tokens)}) {
      std::free(memory);
    }
  });
  const auto wants = [&](size_t offset) { return has_field(result, offset, sizeof(void*)); };
  if (wants(offsetof(tandem_generate_result, text))) TANDEM_TRY(copy_text(from.text, &known.text, &known.text_length));
  if (wants(offsetof(tandem_generate_result, reasoning))) {
    TANDEM_TRY(copy_text(from.reasoning, &known.reasoning, &known.reasoning_length));
  }
  if (wants(offsetof(tandem_generate_result, stop_string))) {
    TANDEM_TRY(copy_text(from.stop_string, &known.stop_string, nullptr));
  }
  if (wants(offsetof(tandem_generate_result, tokens))) {
    TANDEM_TRY(copy_tokens(from.tokens, &known.tokens, &known.token_count));
  }
  known.prompt_tokens = from.prompt_tokens;
  known.reused_tokens = from.reused_tokens;
  known.prompt_seconds = from.prompt_seconds;
  known.first_token_seconds = from.first_token_seconds;
  known.decode_seconds = from.decode_seconds;
  known.finish = static_cast<tandem_finish_reason>(from.finish);
  write_struct(kGenerateResultLayout, &known, result);
  forget.cancel();
  return ok_status();
}

}  // namespace tandem::c_api
