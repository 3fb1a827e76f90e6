// Between C++ and Java: byte arrays, exceptions, threads. Texts cross as byte[] in UTF-8, because JNI's own strings are
// in a "modified UTF-8" that has no emojis. There is no global state: what is needed is looked up where it is needed.
#pragma once

#include <jni.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tandem/status.h"

namespace tandem::jni {

// Thrown in C++ when a Java exception is pending in this thread, to return to Java without another call to it.
struct PendingException {};

inline void check_pending(JNIEnv* env) {
  if (env->ExceptionCheck() == JNI_TRUE) throw PendingException();
}

// The calling thread's JNIEnv. A thread that the JVM does not know is attached for as long as this lives, as a daemon:
// it belongs to a library and must not keep the JVM from ending.
class ThreadEnv {
 public:
  explicit ThreadEnv(JavaVM* vm);
  ~ThreadEnv();
  ThreadEnv(const ThreadEnv&) = delete;
  ThreadEnv& operator=(const ThreadEnv&) = delete;

  JNIEnv* get() const { return env_; }  // nullptr: the JVM is ending, or has no memory for another thread.

 private:
  JavaVM* vm_;
  JNIEnv* env_ = nullptr;
  bool attached_ = false;
};

// A Java object that lives at least as long as this, whatever thread that ends in.
class GlobalRef {
 public:
  GlobalRef(JNIEnv* env, jobject object);
  ~GlobalRef();
  GlobalRef(const GlobalRef&) = delete;
  GlobalRef& operator=(const GlobalRef&) = delete;

  jobject get() const { return object_; }
  JavaVM* vm() const { return vm_; }

 private:
  JavaVM* vm_ = nullptr;
  jobject object_ = nullptr;
};

// Frees the local references that a callback makes: a generation may make thousands before it returns to Java.
class LocalFrame {
 public:
  explicit LocalFrame(JNIEnv* env) : env_(env) {
    if (env->PushLocalFrame(16) != JNI_OK) throw PendingException();
  }
  ~LocalFrame() { env_->PopLocalFrame(nullptr); }
  LocalFrame(const LocalFrame&) = delete;
  LocalFrame& operator=(const LocalFrame&) = delete;

 private:
  JNIEnv* env_;
};

// The conversions throw PendingException if Java has no memory. A null array is an empty text or list.
std::string to_string(JNIEnv* env, jbyteArray bytes);
std::vector<std::string> to_strings(JNIEnv* env, jobjectArray arrays);  // byte[][]
std::vector<int32_t> to_tokens(JNIEnv* env, jintArray tokens);
std::vector<double> to_doubles(JNIEnv* env, jdoubleArray numbers);
jbyteArray to_java(JNIEnv* env, std::string_view text);
jintArray to_java(JNIEnv* env, std::span<const int32_t> tokens);
jlongArray to_java(JNIEnv* env, std::span<const int64_t> numbers);
jdoubleArray to_java(JNIEnv* env, std::span<const double> numbers);
jfloatArray to_java(JNIEnv* env, std::span<const float> numbers);

// Makes Native.fail(code, message) throw the TandemException.
void throw_error(JNIEnv* env, jclass natives, const Error& error);

// The body of every native method: an Error, or whatever C++ throws, becomes a Java exception.
template <typename Body>
auto at_border(JNIEnv* env, jclass natives, Body&& body) -> decltype(body().value()) {
  using Value = decltype(body().value());
  try {
    auto result = body();
    if (result.ok()) return std::move(result).value();
    throw_error(env, natives, result.error());
  } catch (const PendingException&) {
  } catch (const std::bad_alloc&) {
    throw_error(env, natives, {ErrorCode::kResourceExhausted, "memory ran out; close what is not needed"});
  } catch (const std::exception& e) {
    throw_error(env, natives, {ErrorCode::kInternal, e.what()});
  } catch (...) {
    throw_error(env, natives, {ErrorCode::kInternal, "an unknown exception reached the border to Java"});
  }
  return Value();
}

}  // namespace tandem::jni
