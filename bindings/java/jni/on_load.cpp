// What the JVM calls when it has loaded this library: the native methods of io.tandem.Native get their functions. A
// library of another version than the classes has other signatures, and loading it fails with NoSuchMethodError.
#include "natives.h"

using tandem::jni::engine_natives;
using tandem::jni::session_natives;

extern "C" JNIEXPORT jint JNICALL JNI_OnLoad(JavaVM* vm, void*) {
  void* env_pointer = nullptr;
  if (vm->GetEnv(&env_pointer, JNI_VERSION_1_6) != JNI_OK) return JNI_ERR;
  JNIEnv* env = static_cast<JNIEnv*>(env_pointer);
  jclass natives = env->FindClass("io/tandem/Native");
  if (natives == nullptr) return JNI_ERR;
  for (const auto table : {engine_natives(), session_natives()}) {
    if (env->RegisterNatives(natives, table.data(), static_cast<jint>(table.size())) != JNI_OK) return JNI_ERR;
  }
  env->DeleteLocalRef(natives);
  return JNI_VERSION_1_6;
}
