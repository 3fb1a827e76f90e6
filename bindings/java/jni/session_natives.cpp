// The native methods of a session: generating, scoring, rewinding.
#include <cmath>
#include <optional>

#include "java_calls.h"
#include "natives.h"

namespace tandem::jni {
namespace {

// A Java object whose methods C++ calls while it computes. The first exception of one of them is kept until the
// computation has ended, and then thrown again; meanwhile C++ code runs that must not find it pending.
class JavaCallback {
 public:
  JavaCallback(JNIEnv* env, jobject object) : object_(env, object), type_(env->GetObjectClass(object)) {
    check_pending(env);
  }

  jmethodID method(JNIEnv* env, const char* name, const char* signature) const {
    jmethodID id = env->GetMethodID(type_, name, signature);
    check_pending(env);
    return id;
  }

  // Calls a method that returns a boolean. An exception of Java leaves as one of C++, which ends the session's call and
  // restores the session.
  template <typename Value>
  bool call(jmethodID method, const Value& value) {
    const ThreadEnv thread(object_.vm());
    JNIEnv* env = thread.get();
    if (env == nullptr) throw std::bad_alloc();
    try {
      const LocalFrame frame(env);
      const jboolean wanted = call_with(env, method, value);
      check_pending(env);
      return wanted == JNI_TRUE;
    } catch (const PendingException&) {
      jthrowable thrown = env->ExceptionOccurred();
      env->ExceptionClear();
      if (!thrown_) thrown_.emplace(env, thrown);
      env->DeleteLocalRef(thrown);
      throw;
    }
  }

  // True if a method threw; its exception is pending now.
  bool rethrow(JNIEnv* env) const {
    if (!thrown_) return false;
    env->Throw(static_cast<jthrowable>(thrown_->get()));
    return true;
  }

  jobject object() const { return object_.get(); }

 private:
  jboolean call_with(JNIEnv* env, jmethodID method, std::string_view piece) const {
    return env->CallBooleanMethod(object_.get(), method, to_java(env, piece));
  }
  jboolean call_with(JNIEnv* env, jmethodID method, const std::pair<size_t, std::span<const float>>& row) const {
    return env->CallBooleanMethod(object_.get(), method, static_cast<jint>(row.first), to_java(env, row.second));
  }

  GlobalRef object_;
  jclass type_;
  std::optional<GlobalRef> thrown_;
};

// The order of GenerateConfig.numbers(). NaN: what the file recommends.
enum Number : size_t {
  kMaxNewTokens,
  kTemperature,
  kTopK,
  kTopP,
  kMinP,
  kRepetitionPenalty,
  kRepetitionWindow,
  kIgnoreEos,
  kParseSpecial,
  kNumbers,
};

Result<GenerateOptions> to_generate_options(JNIEnv* env, const Engine& engine, jdoubleArray numbers, jlong seed,
                                            jobjectArray stop_strings, jbyteArray variables) {
  const std::vector<double> given = to_doubles(env, numbers);
  if (given.size() != kNumbers) return Error{ErrorCode::kInternal, "Java and native code are of different versions"};
  GenerateOptions options = engine.default_options();
  const auto set = [&](Number which, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if (!std::isnan(given[which])) field = static_cast<Field>(given[which]);
  };
  set(kMaxNewTokens, options.max_new_tokens);
  set(kTemperature, options.sampler.temperature);
  set(kTopK, options.sampler.top_k);
  set(kTopP, options.sampler.top_p);
  set(kMinP, options.sampler.min_p);
  set(kRepetitionPenalty, options.sampler.repetition_penalty);
  set(kRepetitionWindow, options.sampler.repetition_window);
  set(kIgnoreEos, options.ignore_eos);
  set(kParseSpecial, options.parse_special);
  options.sampler.seed = static_cast<uint64_t>(seed);
  if (stop_strings != nullptr) options.stop_strings = to_strings(env, stop_strings);
  options.template_variables = to_string(env, variables);
  return options;
}

void deliver(JNIEnv* env, const JavaCallback& sink, const GenerateResult& result) {
  jmethodID finish = sink.method(env, "finish", "([B[BI[B[I[J[D)V");
  const int64_t counts[] = {result.prompt_tokens, result.reused_tokens};
  const double seconds[] = {result.prompt_seconds, result.first_token_seconds, result.decode_seconds};
  env->CallVoidMethod(sink.object(), finish, to_java(env, std::string_view(result.text)),
                      to_java(env, std::string_view(result.reasoning)), static_cast<jint>(result.finish),
                      to_java(env, std::string_view(result.stop_string)),
                      to_java(env, std::span<const int32_t>(result.tokens)),
                      to_java(env, std::span<const int64_t>(counts)), to_java(env, std::span<const double>(seconds)));
  check_pending(env);
}

// Generates from tokens (after the session's, or instead of them) or, if there are messages, answers these.
jboolean JNICALL generate(JNIEnv* env, jclass natives, jlong handle, jintArray tokens, jboolean replace,
                          jobjectArray messages, jdoubleArray numbers, jlong seed, jobjectArray stop_strings,
                          jbyteArray variables, jobject java_sink) {
  return at_border(env, natives, [&]() -> Result<jboolean> {
    SessionHandle& h = from_handle<SessionHandle>(handle);
    auto options = to_generate_options(env, *h.engine, numbers, seed, stop_strings, variables);
    if (!options.ok()) return options.error();
    JavaCallback sink(env, java_sink);
    const auto stream = [&sink, on_piece = sink.method(env, "piece", "([B)Z")](std::string_view piece) {
      return sink.call(on_piece, piece);
    };
    options->on_reasoning = [&sink, on_piece = sink.method(env, "reasoning", "([B)Z")](std::string_view piece) {
      return sink.call(on_piece, piece);
    };
    const auto result = [&] {
      if (messages != nullptr) return h.session->generate_chat(to_messages(env, messages), *options, stream);
      const std::vector<int32_t> prompt = to_tokens(env, tokens);
      if (replace == JNI_TRUE) return h.session->generate_from(prompt, *options, stream);
      return h.session->generate(prompt, *options, stream);
    }();
    if (sink.rethrow(env)) return JNI_FALSE;
    if (!result.ok()) return result.error();
    deliver(env, sink, *result);
    return JNI_TRUE;
  });
}

// Computes the tokens after the session's; without a sink, no logits.
jboolean JNICALL score(JNIEnv* env, jclass natives, jlong handle, jintArray tokens, jobject java_sink) {
  return at_border(env, natives, [&]() -> Result<jboolean> {
    Session& session = *from_handle<SessionHandle>(handle).session;
    const std::vector<int32_t> copy = to_tokens(env, tokens);
    if (java_sink == nullptr) {
      const Status status = session.score(copy, {});
      if (!status.ok()) return status.error();
      return JNI_TRUE;
    }
    JavaCallback sink(env, java_sink);
    jmethodID on_row = sink.method(env, "row", "(I[F)Z");
    const Status status = session.score(copy, [&](size_t index, std::span<const float> logits) -> Status {
      if (sink.call(on_row, std::pair(index, logits))) return ok_status();
      return Error{ErrorCode::kCancelled, "the callback wants no more rows"};
    });
    if (sink.rethrow(env)) return JNI_FALSE;
    if (!status.ok()) return status.error();
    return JNI_TRUE;
  });
}

void JNICALL free_session(JNIEnv*, jclass, jlong handle) { delete &from_handle<SessionHandle>(handle); }

void JNICALL cancel(JNIEnv*, jclass, jlong handle) { from_handle<SessionHandle>(handle).session->cancel(); }

void JNICALL clear_cancel(JNIEnv*, jclass, jlong handle) { from_handle<SessionHandle>(handle).session->clear_cancel(); }

jintArray JNICALL tokens(JNIEnv* env, jclass natives, jlong handle) {
  return at_border(env, natives, [&]() -> Result<jintArray> {
    return to_java(env, from_handle<SessionHandle>(handle).session->tokens());
  });
}

jboolean JNICALL rewind(JNIEnv* env, jclass natives, jlong handle, jlong length) {
  return at_border(env, natives, [&]() -> Result<jboolean> {
    const Status status = from_handle<SessionHandle>(handle).session->rewind(length);
    if (!status.ok()) return status.error();
    return JNI_TRUE;
  });
}

}  // namespace

std::span<const JNINativeMethod> session_natives() {
  static const JNINativeMethod table[] = {
      {const_cast<char*>("generate"), const_cast<char*>("(J[IZ[[B[DJ[[B[BLjava/lang/Object;)Z"),
       reinterpret_cast<void*>(generate)},
      {const_cast<char*>("score"), const_cast<char*>("(J[ILjava/lang/Object;)Z"), reinterpret_cast<void*>(score)},
      {const_cast<char*>("freeSession"), const_cast<char*>("(J)V"), reinterpret_cast<void*>(free_session)},
      {const_cast<char*>("cancel"), const_cast<char*>("(J)V"), reinterpret_cast<void*>(cancel)},
      {const_cast<char*>("clearCancel"), const_cast<char*>("(J)V"), reinterpret_cast<void*>(clear_cancel)},
      {const_cast<char*>("tokens"), const_cast<char*>("(J)[I"), reinterpret_cast<void*>(tokens)},
      {const_cast<char*>("rewind"), const_cast<char*>("(JJ)Z"), reinterpret_cast<void*>(rewind)},
  };
  return table;
}

}  // namespace tandem::jni
