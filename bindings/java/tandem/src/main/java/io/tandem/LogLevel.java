package io.tandem;

/** How important a log message is; the order is that of the native enum. */
public enum LogLevel {
    /** Something failed; the call may have found another way. */
    ERROR,
    /** It works, but slower than it could, or differently. */
    WARNING,
    INFO,
    DEBUG
}
