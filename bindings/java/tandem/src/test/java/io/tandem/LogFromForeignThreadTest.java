package io.tandem;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** A vendor's library logs from its own threads, which are attached to the JVM for each message. */
class LogFromForeignThreadTest {
    private static native void logFromThreads(Object sink, int threads, int messages);

    @Test
    void messagesArriveAndThreadsAreDetached() throws InterruptedException {
        System.load(System.getProperty("tandem.test.library"));
        Map<String, Integer> received = new ConcurrentHashMap<>();
        AtomicInteger strangers = new AtomicInteger();
        LogCallback callback =
                (level, message) -> {
                    assertEquals(LogLevel.INFO, level);
                    strangers.addAndGet(Thread.currentThread().isDaemon() ? 1 : 0);
                    received.merge(message, 1, Integer::sum);
                    throw new IllegalStateException("dropped");
                };
        EngineOptions.LogSink sink = new EngineOptions.LogSink(callback);
        int before = Thread.activeCount();
        logFromThreads(sink, 8, 50);
        assertEquals(400, received.size());
        assertTrue(received.containsKey("thread 7, message 49 🦊"));
        assertEquals(400, strangers.get());
        assertTrue(Thread.activeCount() <= before, "threads are still attached");

        WeakReference<Object> forgotten = new WeakReference<>(sink);
        sink = null;
        assertTrue(Demo.collectUntil(() -> forgotten.get() == null), "native code still refers to the callback");
    }
}
