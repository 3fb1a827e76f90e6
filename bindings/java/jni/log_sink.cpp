#include "log_sink.h"

#include <memory>

#include "java_calls.h"

namespace tandem::jni {
namespace {

struct LogSink {
  LogSink(JNIEnv* env, jobject sink) : object(env, sink) {
    jclass type = env->GetObjectClass(sink);
    log = env->GetMethodID(type, "log", "(I[B)V");
    check_pending(env);
  }
  GlobalRef object;
  jmethodID log = nullptr;  // Valid as long as the object keeps its class loaded.
};

void call_log(const LogSink& sink, LogLevel level, std::string_view message) {
  const ThreadEnv thread(sink.object.vm());
  JNIEnv* env = thread.get();
  // A message may come while an exception of this thread waits for the return to Java; no Java code may run then.
  if (env == nullptr || env->ExceptionCheck() == JNI_TRUE) return;
  try {
    const LocalFrame frame(env);
    env->CallVoidMethod(sink.object.get(), sink.log, static_cast<jint>(level), to_java(env, message));
    if (env->ExceptionCheck() == JNI_TRUE) env->ExceptionClear();
  } catch (const PendingException&) {
    env->ExceptionClear();
  }
}

}  // namespace

LogCallback make_log_callback(JNIEnv* env, jobject sink) {
  if (sink == nullptr) return {};
  return [shared = std::make_shared<const LogSink>(env, sink)](LogLevel level, std::string_view message) {
    call_log(*shared, level, message);
  };
}

}  // namespace tandem::jni
