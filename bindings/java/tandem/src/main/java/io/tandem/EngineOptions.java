package io.tandem;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How a file is loaded and run. {@link #DEFAULT} suits most apps. */
public final class EngineOptions {
    public static final EngineOptions DEFAULT = builder().build();

    private final int threads;
    private final VerifyWeights verify;
    private final LogLevel logLevel;
    private final LogSink log;
    private final byte[][] texts;

    private EngineOptions(Builder b) {
        threads = b.threads;
        verify = b.verify;
        logLevel = b.logLevel;
        log = b.log == null ? null : new LogSink(b.log);
        List<String> parts = new ArrayList<>();
        parts.add(b.runOn);
        parts.add(b.decodeOn);
        for (Map.Entry<String, String> option : b.backend.entrySet()) {
            parts.add(option.getKey());
            parts.add(option.getValue());
        }
        texts = Utf8.encodeAll(parts);
    }

    public static Builder builder() {
        return new Builder();
    }

    long loadFile(byte[] path) {
        return Native.loadFile(path, threads, verify.ordinal(), logLevel.ordinal(), log, texts);
    }

    long loadRegion(int descriptor, long offset, long length) {
        return Native.loadRegion(
                descriptor, offset, length, threads, verify.ordinal(), logLevel.ordinal(), log, texts);
    }

    String probeFile(byte[] path) {
        return Utf8.decode(Native.probeFile(path, threads, verify.ordinal(), logLevel.ordinal(), log, texts));
    }

    String probeRegion(int descriptor, long offset, long length) {
        return Utf8.decode(
                Native.probeRegion(
                        descriptor, offset, length, threads, verify.ordinal(), logLevel.ordinal(), log, texts));
    }

    /** What native code calls for each message. */
    static final class LogSink {
        private final LogCallback callback;

        LogSink(LogCallback callback) {
            this.callback = callback;
        }

        void log(int level, byte[] message) {
            callback.onLog(LogLevel.values()[level], Utf8.decode(message));
        }
    }

    public static final class Builder {
        private int threads;
        private VerifyWeights verify = VerifyWeights.ON_FIRST_USE;
        private LogLevel logLevel = LogLevel.WARNING;
        private LogCallback log;
        private String runOn = "";
        private String decodeOn = "";
        private final Map<String, String> backend = new LinkedHashMap<>();

        private Builder() {}

        /** 0, the default: one per core that this process may use. */
        public Builder threads(int count) {
            threads = count;
            return this;
        }

        public Builder verify(VerifyWeights when) {
            verify = Check.notNull(when, "when");
            return this;
        }

        /** Receives warnings and notes that are not errors, as long as the engine or one of its sessions lives. */
        public Builder log(LogCallback callback, LogLevel finest) {
            log = Check.notNull(callback, "callback");
            logLevel = Check.notNull(finest, "finest");
            return this;
        }

        /**
         * An option of a back end, such as "profile", "sustained". Those of a back end other than the file's have no
         * effect; a name that none knows is refused when the file is loaded.
         */
        public Builder backend(String name, String value) {
            backend.put(Check.notNull(name, "name"), Check.notNull(value, "value"));
            return this;
        }

        /**
         * Which program of a file for several targets to take, by its target ("sm8750") or its back end ("cpu"). "", the
         * default: the first that works here; the log says why not those before it.
         */
        public Builder runOn(String name) {
            runOn = Check.notNull(name, "name");
            return this;
        }

        /**
         * Another program of the file, which computes single tokens while the first one computes prompts. Answers may
         * differ from those of either alone; where only one of the two works, it does everything, and the log says why.
         */
        public Builder decodeOn(String name) {
            decodeOn = Check.notNull(name, "name");
            return this;
        }

        public EngineOptions build() {
            return new EngineOptions(this);
        }
    }
}
