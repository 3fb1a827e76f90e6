package io.tandem;

/**
 * The native methods (bindings/java/jni). Handles are addresses: {@link NativeHandle} hands them out and sees to it that
 * none is freed while it is used. Texts are UTF-8; messages are role, content, fields, role, …; what is loaded is told
 * the program to run, the one that decodes, and options of back ends: name, value, name, …
 */
final class Native {
    private Native() {}

    static {
        NativeLibrary.load();
    }

    static native byte[] version();

    static native long loadFile(
            byte[] path, int threads, int verify, int logLevel, Object log, byte[][] texts);

    static native long loadRegion(
            int descriptor, long offset, long length, int threads, int verify, int logLevel, Object log, byte[][] texts);

    static native byte[] probeFile(byte[] path, int threads, int verify, int logLevel, Object log, byte[][] texts);

    static native byte[] probeRegion(
            int descriptor, long offset, long length, int threads, int verify, int logLevel, Object log, byte[][] texts);

    static native void freeEngine(long engine);

    /** Context, vocabulary, threads, whether there is a tokenizer. */
    static native long[] describe(long engine);

    static native byte[] mode(long engine);

    static native byte[] target(long engine);

    static native byte[] backend(long engine);

    static native int[] eosTokens(long engine);

    static native int[] encode(long engine, byte[] text, boolean addSpecial, boolean parseSpecial);

    static native byte[] decode(long engine, int[] tokens, boolean skipSpecial);

    static native int[] encodeChat(
            long engine, byte[][] messages, boolean addGenerationPrompt, byte[] variables, boolean parseSpecial);

    static native byte[] renderChat(long engine, byte[][] messages, boolean addGenerationPrompt, byte[] variables);

    static native long newSession(long engine);

    static native void freeSession(long session);

    /** From messages or, if these are null, from tokens: after the session's, or in their place. */
    static native boolean generate(
            long session,
            int[] tokens,
            boolean replace,
            byte[][] messages,
            double[] numbers,
            long seed,
            byte[][] stopStrings,
            byte[] variables,
            Object sink);

    static native boolean score(long session, int[] tokens, Object sink);

    static native void cancel(long session);

    static native void clearCancel(long session);

    static native int[] tokens(long session);

    static native boolean rewind(long session, long length);

    /** Called by native code, whose errors leave it here. */
    @SuppressWarnings("unused")
    private static void fail(int code, byte[] message) {
        throw new TandemException(ErrorCode.of(code), Utf8.decode(message));
    }
}
