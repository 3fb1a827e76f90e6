// The native methods that need no session: loading, tokens, chat templates.
#include "java_calls.h"
#include "log_sink.h"
#include "natives.h"
#include "tandem/probe.h"
#include "tandem/version.h"

namespace tandem::jni {

std::vector<Message> to_messages(JNIEnv* env, jobjectArray texts) {
  std::vector<std::string> parts = to_strings(env, texts);
  std::vector<Message> messages;
  for (size_t i = 0; i + 2 < parts.size(); i += 3) {
    messages.push_back({std::move(parts[i]), std::move(parts[i + 1]), std::move(parts[i + 2])});
  }
  return messages;
}

namespace {

jlong to_handle(std::shared_ptr<Engine> engine) {
  return to_handle(std::make_unique<EngineHandle>(EngineHandle{std::move(engine)}));
}

// texts: run_on, decode_on, then the options of back ends: name, value, name, …
EngineOptions to_engine_options(JNIEnv* env, jint threads, jint verify, jint log_level, jobject log,
                                jobjectArray texts) {
  EngineOptions options;
  options.threads = threads;
  options.verify = static_cast<VerifyWeights>(verify);
  options.log_level = static_cast<LogLevel>(log_level);
  options.log = make_log_callback(env, log);
  std::vector<std::string> parts = to_strings(env, texts);
  if (parts.size() < 2) return options;
  options.run_on = std::move(parts[0]);
  options.decode_on = std::move(parts[1]);
  for (size_t i = 2; i + 1 < parts.size(); i += 2) options.backend[parts[i]] = std::move(parts[i + 1]);
  return options;
}

jlong JNICALL load_file(JNIEnv* env, jclass natives, jbyteArray path, jint threads, jint verify, jint log_level,
                        jobject log, jobjectArray texts) {
  return at_border(env, natives, [&]() -> Result<jlong> {
    auto engine = Engine::load(to_string(env, path), to_engine_options(env, threads, verify, log_level, log, texts));
    if (!engine.ok()) return engine.error();
    return to_handle(*std::move(engine));
  });
}

jlong JNICALL load_region(JNIEnv* env, jclass natives, jint descriptor, jlong offset, jlong length, jint threads,
                          jint verify, jint log_level, jobject log, jobjectArray texts) {
  return at_border(env, natives, [&]() -> Result<jlong> {
    auto engine = Engine::load(FileRegion{descriptor, offset, length},
                               to_engine_options(env, threads, verify, log_level, log, texts));
    if (!engine.ok()) return engine.error();
    return to_handle(*std::move(engine));
  });
}

jbyteArray JNICALL version_text(JNIEnv* env, jclass natives) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> { return to_java(env, std::string_view(version())); });
}

jbyteArray JNICALL probe_file(JNIEnv* env, jclass natives, jbyteArray path, jint threads, jint verify, jint log_level,
                              jobject log, jobjectArray texts) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> {
    const auto report = probe(to_string(env, path), to_engine_options(env, threads, verify, log_level, log, texts));
    if (!report.ok()) return report.error();
    return to_java(env, std::string_view(report->to_json()));
  });
}

jbyteArray JNICALL probe_region(JNIEnv* env, jclass natives, jint descriptor, jlong offset, jlong length, jint threads,
                                jint verify, jint log_level, jobject log, jobjectArray texts) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> {
    const auto report =
        probe(FileRegion{descriptor, offset, length}, to_engine_options(env, threads, verify, log_level, log, texts));
    if (!report.ok()) return report.error();
    return to_java(env, std::string_view(report->to_json()));
  });
}

void JNICALL free_engine(JNIEnv*, jclass, jlong handle) { delete &from_handle<EngineHandle>(handle); }

jlongArray JNICALL describe(JNIEnv* env, jclass natives, jlong handle) {
  return at_border(env, natives, [&]() -> Result<jlongArray> {
    const Engine& engine = *from_handle<EngineHandle>(handle).engine;
    const int64_t numbers[] = {engine.context(), engine.vocab_size(), engine.threads(), engine.has_tokenizer() ? 1 : 0};
    return to_java(env, std::span<const int64_t>(numbers));
  });
}

jbyteArray JNICALL mode(JNIEnv* env, jclass natives, jlong handle) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> {
    return to_java(env, std::string_view(mode_name(from_handle<EngineHandle>(handle).engine->mode())));
  });
}

jbyteArray JNICALL target(JNIEnv* env, jclass natives, jlong handle) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> {
    return to_java(env, from_handle<EngineHandle>(handle).engine->target());
  });
}

jbyteArray JNICALL backend(JNIEnv* env, jclass natives, jlong handle) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> {
    return to_java(env, from_handle<EngineHandle>(handle).engine->backend());
  });
}

jintArray JNICALL eos_tokens(JNIEnv* env, jclass natives, jlong handle) {
  return at_border(env, natives, [&]() -> Result<jintArray> {
    return to_java(env, from_handle<EngineHandle>(handle).engine->eos_tokens());
  });
}

jintArray JNICALL encode(JNIEnv* env, jclass natives, jlong handle, jbyteArray text, jboolean add_special,
                         jboolean parse_special) {
  return at_border(env, natives, [&]() -> Result<jintArray> {
    const auto tokens = from_handle<EngineHandle>(handle).engine->encode(to_string(env, text), add_special == JNI_TRUE,
                                                                         parse_special == JNI_TRUE);
    if (!tokens.ok()) return tokens.error();
    return to_java(env, std::span<const int32_t>(*tokens));
  });
}

jbyteArray JNICALL decode(JNIEnv* env, jclass natives, jlong handle, jintArray tokens, jboolean skip_special) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> {
    const auto text =
        from_handle<EngineHandle>(handle).engine->decode(to_tokens(env, tokens), skip_special == JNI_TRUE);
    if (!text.ok()) return text.error();
    return to_java(env, std::string_view(*text));
  });
}

jintArray JNICALL encode_chat(JNIEnv* env, jclass natives, jlong handle, jobjectArray messages,
                              jboolean add_generation_prompt, jbyteArray variables, jboolean parse_special) {
  return at_border(env, natives, [&]() -> Result<jintArray> {
    const auto tokens = from_handle<EngineHandle>(handle).engine->encode_chat(
        to_messages(env, messages), add_generation_prompt == JNI_TRUE, to_string(env, variables),
        parse_special == JNI_TRUE);
    if (!tokens.ok()) return tokens.error();
    return to_java(env, std::span<const int32_t>(*tokens));
  });
}

jbyteArray JNICALL render_chat(JNIEnv* env, jclass natives, jlong handle, jobjectArray messages,
                               jboolean add_generation_prompt, jbyteArray variables) {
  return at_border(env, natives, [&]() -> Result<jbyteArray> {
    const auto text = from_handle<EngineHandle>(handle).engine->render_chat(
        to_messages(env, messages), add_generation_prompt == JNI_TRUE, to_string(env, variables));
    if (!text.ok()) return text.error();
    return to_java(env, std::string_view(*text));
  });
}

jlong JNICALL new_session(JNIEnv* env, jclass natives, jlong handle) {
  return at_border(env, natives, [&]() -> Result<jlong> {
    const std::shared_ptr<Engine>& engine = from_handle<EngineHandle>(handle).engine;
    auto session = engine->new_session();
    if (!session.ok()) return session.error();
    return to_handle(std::make_unique<SessionHandle>(SessionHandle{engine, *std::move(session)}));
  });
}

}  // namespace

std::span<const JNINativeMethod> engine_natives() {
  // The casts that JNI's table asks for.
  static const JNINativeMethod table[] = {
      {const_cast<char*>("loadFile"), const_cast<char*>("([BIIILjava/lang/Object;[[B)J"),
       reinterpret_cast<void*>(load_file)},
      {const_cast<char*>("loadRegion"), const_cast<char*>("(IJJIIILjava/lang/Object;[[B)J"),
       reinterpret_cast<void*>(load_region)},
      {const_cast<char*>("probeFile"), const_cast<char*>("([BIIILjava/lang/Object;[[B)[B"),
       reinterpret_cast<void*>(probe_file)},
      {const_cast<char*>("probeRegion"), const_cast<char*>("(IJJIIILjava/lang/Object;[[B)[B"),
       reinterpret_cast<void*>(probe_region)},
      {const_cast<char*>("version"), const_cast<char*>("()[B"), reinterpret_cast<void*>(version_text)},
      {const_cast<char*>("freeEngine"), const_cast<char*>("(J)V"), reinterpret_cast<void*>(free_engine)},
      {const_cast<char*>("describe"), const_cast<char*>("(J)[J"), reinterpret_cast<void*>(describe)},
      {const_cast<char*>("mode"), const_cast<char*>("(J)[B"), reinterpret_cast<void*>(mode)},
      {const_cast<char*>("target"), const_cast<char*>("(J)[B"), reinterpret_cast<void*>(target)},
      {const_cast<char*>("backend"), const_cast<char*>("(J)[B"), reinterpret_cast<void*>(backend)},
      {const_cast<char*>("eosTokens"), const_cast<char*>("(J)[I"), reinterpret_cast<void*>(eos_tokens)},
      {const_cast<char*>("encode"), const_cast<char*>("(J[BZZ)[I"), reinterpret_cast<void*>(encode)},
      {const_cast<char*>("decode"), const_cast<char*>("(J[IZ)[B"), reinterpret_cast<void*>(decode)},
      {const_cast<char*>("encodeChat"), const_cast<char*>("(J[[BZ[BZ)[I"), reinterpret_cast<void*>(encode_chat)},
      {const_cast<char*>("renderChat"), const_cast<char*>("(J[[BZ[B)[B"), reinterpret_cast<void*>(render_chat)},
      {const_cast<char*>("newSession"), const_cast<char*>("(J)J"), reinterpret_cast<void*>(new_session)},
  };
  return table;
}

}  // namespace tandem::jni
