package io.tandem;

/**
 * Receives one message at a time, from any thread, from several at once, and from threads of a vendor's library. It must
 * not call tandem. Its exceptions are dropped.
 */
public interface LogCallback {
    void onLog(LogLevel level, String message);
}
