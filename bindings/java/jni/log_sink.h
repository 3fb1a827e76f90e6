// A LogCallback that calls a Java object, from whatever thread the library logs in.
#pragma once

#include <jni.h>

#include "tandem/log.h"

namespace tandem::jni {

// `sink` has a method `void log(int level, byte[] message)`. Its exceptions are dropped, as those of every LogCallback.
// Null: an empty callback.
LogCallback make_log_callback(JNIEnv* env, jobject sink);

}  // namespace tandem::jni
