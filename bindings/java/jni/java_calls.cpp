#include "java_calls.h"

namespace tandem::jni {

ThreadEnv::ThreadEnv(JavaVM* vm) : vm_(vm) {
  void* env = nullptr;
  if (vm->GetEnv(&env, JNI_VERSION_1_6) == JNI_OK) {
    env_ = static_cast<JNIEnv*>(env);
    return;
  }
#ifdef __ANDROID__
  attached_ = vm->AttachCurrentThreadAsDaemon(&env_, nullptr) == JNI_OK;
#else
  attached_ = vm->AttachCurrentThreadAsDaemon(&env, nullptr) == JNI_OK;
  env_ = static_cast<JNIEnv*>(env);
#endif
  if (!attached_) env_ = nullptr;
}

ThreadEnv::~ThreadEnv() {
  if (attached_) vm_->DetachCurrentThread();
}

GlobalRef::GlobalRef(JNIEnv* env, jobject object) {
  if (env->GetJavaVM(&vm_) != JNI_OK) throw std::bad_alloc();
  object_ = env->NewGlobalRef(object);
  if (object_ == nullptr) throw std::bad_alloc();
}

GlobalRef::~GlobalRef() {
  const ThreadEnv env(vm_);
  if (env.get() != nullptr) env.get()->DeleteGlobalRef(object_);
}

std::string to_string(JNIEnv* env, jbyteArray bytes) {
  if (bytes == nullptr) return {};
  std::string text(static_cast<size_t>(env->GetArrayLength(bytes)), '\0');
  env->GetByteArrayRegion(bytes, 0, static_cast<jsize>(text.size()), reinterpret_cast<jbyte*>(text.data()));
  check_pending(env);
  return text;
}

std::vector<std::string> to_strings(JNIEnv* env, jobjectArray arrays) {
  std::vector<std::string> texts;
  if (arrays == nullptr) return texts;
  const jsize count = env->GetArrayLength(arrays);
  texts.reserve(static_cast<size_t>(count));
  for (jsize i = 0; i < count; ++i) {
    const auto bytes = static_cast<jbyteArray>(env->GetObjectArrayElement(arrays, i));
    check_pending(env);
    texts.push_back(to_string(env, bytes));
    env->DeleteLocalRef(bytes);
  }
  return texts;
}

std::vector<int32_t> to_tokens(JNIEnv* env, jintArray tokens) {
  if (tokens == nullptr) return {};
  std::vector<int32_t> copy(static_cast<size_t>(env->GetArrayLength(tokens)));
  env->GetIntArrayRegion(tokens, 0, static_cast<jsize>(copy.size()), copy.data());
  check_pending(env);
  return copy;
}

std::vector<double> to_doubles(JNIEnv* env, jdoubleArray numbers) {
  if (numbers == nullptr) return {};
  std::vector<double> copy(static_cast<size_t>(env->GetArrayLength(numbers)));
  env->GetDoubleArrayRegion(numbers, 0, static_cast<jsize>(copy.size()), copy.data());
  check_pending(env);
  return copy;
}

jbyteArray to_java(JNIEnv* env, std::string_view text) {
  const auto size = static_cast<jsize>(text.size());
  jbyteArray bytes = env->NewByteArray(size);
  if (bytes == nullptr) throw PendingException();
  env->SetByteArrayRegion(bytes, 0, size, reinterpret_cast<const jbyte*>(text.data()));
  return bytes;
}

jintArray to_java(JNIEnv* env, std::span<const int32_t> tokens) {
  const auto size = static_cast<jsize>(tokens.size());
  jintArray array = env->NewIntArray(size);
  if (array == nullptr) throw PendingException();
  env->SetIntArrayRegion(array, 0, size, tokens.data());
  return array;
}

jlongArray to_java(JNIEnv* env, std::span<const int64_t> numbers) {
  const auto size = static_cast<jsize>(numbers.size());
  jlongArray array = env->NewLongArray(size);
  if (array == nullptr) throw PendingException();
  static_assert(sizeof(jlong) == sizeof(int64_t));
  env->SetLongArrayRegion(array, 0, size, reinterpret_cast<const jlong*>(numbers.data()));
  return array;
}

jdoubleArray to_java(JNIEnv* env, std::span<const double> numbers) {
  const auto size = static_cast<jsize>(numbers.size());
  jdoubleArray array = env->NewDoubleArray(size);
  if (array == nullptr) throw PendingException();
  env->SetDoubleArrayRegion(array, 0, size, numbers.data());
  return array;
}

jfloatArray to_java(JNIEnv* env, std::span<const float> numbers) {
  const auto size = static_cast<jsize>(numbers.size());
  jfloatArray array = env->NewFloatArray(size);
  if (array == nullptr) throw PendingException();
  env->SetFloatArrayRegion(array, 0, size, numbers.data());
  return array;
}

void throw_error(JNIEnv* env, jclass natives, const Error& error) {
  try {
    jbyteArray message = to_java(env, std::string_view(error.message));
    jmethodID fail = env->GetStaticMethodID(natives, "fail", "(I[B)V");
    if (fail != nullptr) env->CallStaticVoidMethod(natives, fail, static_cast<jint>(error.code), message);
  } catch (const PendingException&) {  // Java's OutOfMemoryError takes the place of ours.
  }
}

}  // namespace tandem::jni
