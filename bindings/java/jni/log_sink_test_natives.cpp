// A library for the tests: logs to a Java object from threads that the JVM has never seen, as a vendor's library does.
#include <thread>

#include "java_calls.h"
#include "log_sink.h"

extern "C" JNIEXPORT void JNICALL Java_io_tandem_LogFromForeignThreadTest_logFromThreads(JNIEnv* env, jclass,
                                                                                         jobject sink, jint threads,
                                                                                         jint messages) {
  std::vector<std::thread> running;
  {
    // The last thread to end frees the callback, and with it the reference to the Java object.
    const tandem::LogCallback log = tandem::jni::make_log_callback(env, sink);
    for (jint t = 0; t < threads; ++t) {
      running.emplace_back([log, messages, t] {
        for (jint m = 0; m < messages; ++m) {
          log(tandem::LogLevel::kInfo, "thread " + std::to_string(t) + ", message " + std::to_string(m) + " 🦊");
        }
      });
    }
  }
  for (std::thread& thread : running) thread.join();
}
