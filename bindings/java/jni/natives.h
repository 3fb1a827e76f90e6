// The native methods of io.tandem.Native, in two tables. A handle is the address of one of these structs; Java's
// NativeHandle sees to it that none is used after it was freed.
#pragma once

#include <jni.h>

#include <memory>
#include <span>

#include "tandem/engine.h"

namespace tandem::jni {

struct EngineHandle {
  std::shared_ptr<Engine> engine;
};

struct SessionHandle {
  std::shared_ptr<Engine> engine;
  std::unique_ptr<Session> session;
};

template <typename Handle>
Handle& from_handle(jlong handle) {
  return *reinterpret_cast<Handle*>(static_cast<intptr_t>(handle));  // NOLINT: a handle is an address.
}
template <typename Handle>
jlong to_handle(std::unique_ptr<Handle> object) {
  return static_cast<jlong>(reinterpret_cast<intptr_t>(object.release()));
}

std::vector<Message> to_messages(JNIEnv* env, jobjectArray texts);  // role, content, fields, role, …

std::span<const JNINativeMethod> engine_natives();
std::span<const JNINativeMethod> session_natives();

}  // namespace tandem::jni
