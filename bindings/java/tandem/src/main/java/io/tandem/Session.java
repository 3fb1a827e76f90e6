package io.tandem;

import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * One conversation: a KV cache and the tokens in it. One call at a time; another one, from a thread or from a callback,
 * throws IllegalStateException and changes nothing. {@link #cancel} and {@link #close} may come from any thread.
 */
public final class Session implements AutoCloseable {
    private static final NativeHandle.Kind KIND =
            new NativeHandle.Kind() {
                @Override
                public void free(long address) {
                    Native.freeSession(address);
                }

                @Override
                public void cancel(long address) {
                    Native.cancel(address);
                }
            };

    private final NativeHandle handle;
    private final AtomicBoolean inCall = new AtomicBoolean();

    Session(long address) {
        handle = NativeHandle.own(this, address, KIND, "session");
    }

    /**
     * Computes prompt after the session's tokens, then generates. If it fails, the session holds the tokens it held
     * before.
     *
     * @param callback receives the answer piece by piece; may be null
     */
    public GenerateResult generate(int[] prompt, GenerateConfig config, StreamCallback callback) {
        return run(Check.notNull(prompt, "prompt"), false, null, config, callback);
    }

    /** Makes the session hold exactly these tokens and generates from there; a common prefix stays in the cache. */
    public GenerateResult generateFrom(int[] tokens, GenerateConfig config, StreamCallback callback) {
        return run(Check.notNull(tokens, "tokens"), true, null, config, callback);
    }

    /** Answers the last message of a conversation. Tokens that the cache still holds from earlier turns are reused. */
    public GenerateResult generateChat(List<Message> messages, GenerateConfig config, StreamCallback callback) {
        return run(null, false, Utf8.encodeMessages(Check.noNulls(messages, "messages")), config, callback);
    }

    private GenerateResult run(
            int[] tokens, boolean replace, byte[][] messages, GenerateConfig config, StreamCallback callback) {
        Check.notNull(config, "config");
        GenerateSink sink = new GenerateSink(callback);
        long address = enter();
        try {
            config.generate(address, tokens, replace, messages, sink);
        } finally {
            leave();
        }
        return sink.result;
    }

    /**
     * Stops the running generate or score call within a token, from any thread. Without one the next such call is stopped
     * at once, so that a request that comes just before a call is not lost. Does nothing after {@link #close}.
     */
    public void cancel() {
        handle.cancel();
    }

    /** Withdraws a request that no call has taken yet. */
    public void clearCancel() {
        long address;
        try {
            address = handle.acquire();
        } catch (IllegalStateException closed) {
            return;
        }
        try {
            Native.clearCancel(address);
        } finally {
            handle.release();
        }
    }

    /** The tokens in the cache. */
    public int[] tokens() {
        long address = enter();
        try {
            return Native.tokens(address);
        } finally {
            leave();
        }
    }

    /** Forgets all tokens from length on. */
    public void rewind(long length) {
        long address = enter();
        try {
            Native.rewind(address, length);
        } finally {
            leave();
        }
    }

    /**
     * Appends these tokens to the session's and passes on the logits after each of them. After an error the session holds
     * the tokens computed until then.
     *
     * @param callback null: the tokens are computed and appended, and no logits are
     */
    public void score(int[] tokens, LogitsCallback callback) {
        Check.notNull(tokens, "tokens");
        ScoreSink sink = callback == null ? null : new ScoreSink(callback);
        long address = enter();
        try {
            Native.score(address, tokens, sink);
        } finally {
            leave();
        }
    }

    public boolean isClosed() {
        return handle.isClosed();
    }

    /**
     * Ends the conversation. A call that is running is cancelled, returns normally to whoever called it, and frees the
     * memory then; this method does not wait for it. Closing again does nothing.
     */
    @Override
    public void close() {
        handle.close();
    }

    private long enter() {
        if (!inCall.compareAndSet(false, true)) {
            throw new IllegalStateException("the session is in another call; wait until that has returned");
        }
        try {
            return handle.acquire();
        } catch (IllegalStateException closed) {
            inCall.set(false);
            throw closed;
        }
    }

    private void leave() {
        inCall.set(false);
        handle.release();
    }

    /** What native code calls while it generates; the names are in session_natives.cpp. */
    static final class GenerateSink {
        private final StreamCallback callback;
        private GenerateResult result;

        GenerateSink(StreamCallback callback) {
            this.callback = callback;
        }

        boolean piece(byte[] text) {
            return callback == null || callback.onPiece(Utf8.decode(text));
        }

        boolean reasoning(byte[] text) {
            return callback == null || callback.onReasoning(Utf8.decode(text));
        }

        void finish(
                byte[] text, byte[] reasoning, int finish, byte[] stop, int[] tokens, long[] counts, double[] seconds) {
            result =
                    new GenerateResult(
                            Utf8.decode(text),
                            Utf8.decode(reasoning),
                            FinishReason.values()[finish],
                            Utf8.decode(stop),
                            tokens,
                            counts,
                            seconds);
        }
    }

    static final class ScoreSink {
        private final LogitsCallback callback;

        ScoreSink(LogitsCallback callback) {
            this.callback = callback;
        }

        boolean row(int index, float[] logits) {
            return callback.onRow(index, logits);
        }
    }
}
