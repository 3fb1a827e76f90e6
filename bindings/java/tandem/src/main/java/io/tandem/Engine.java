package io.tandem;

import java.util.List;

/**
 * A loaded file. It is immutable, and any number of threads and sessions may share it. The file's memory is freed when
 * the engine and all of its sessions are closed.
 */
public final class Engine implements AutoCloseable {
    private static final NativeHandle.Kind KIND =
            new NativeHandle.Kind() {
                @Override
                public void free(long address) {
                    Native.freeEngine(address);
                }

                @Override
                public void cancel(long address) {}
            };

    private final NativeHandle handle;
    private final long[] facts;
    private final String mode;
    private final String target;
    private final String backend;

    private Engine(long address) {
        handle = NativeHandle.own(this, address, KIND, "engine");
        facts = Native.describe(address);
        mode = Utf8.decode(Native.mode(address));
        target = Utf8.decode(Native.target(address));
        backend = Utf8.decode(Native.backend(address));
    }

    /** The version of the native library, such as "0.1.0". */
    public static String version() {
        return Utf8.decode(Native.version());
    }

    public static Engine load(String path) {
        return load(path, EngineOptions.DEFAULT);
    }

    /** Maps the file and checks its header. The weights are not read. */
    public static Engine load(String path, EngineOptions options) {
        byte[] bytes = Utf8.encode(Check.path(path));
        return new Engine(Check.notNull(options, "options").loadFile(bytes));
    }

    /**
     * A model that is a part of a file: inside an app's package, say, which has a descriptor, an offset and a length (an
     * AssetFileDescriptor's). The descriptor may be closed once the call has returned.
     *
     * @param offset a multiple of 64, or else the model is copied into memory
     * @param length -1: up to the file's end
     */
    public static Engine load(int descriptor, long offset, long length, EngineOptions options) {
        return new Engine(Check.notNull(options, "options").loadRegion(descriptor, offset, length));
    }

    public Session newSession() {
        long address = handle.acquire();
        try {
            return new Session(Native.newSession(address));
        } finally {
            handle.release();
        }
    }

    /** "kv": one token per call, prompts too; "hybrid": prompts in chunks. */
    public String mode() {
        return mode;
    }

    /** What the file's program that runs was compiled for, such as "sm8750". */
    public String target() {
        return target;
    }

    /** The back end of that program, such as "qnn". */
    public String backend() {
        return backend;
    }

    /** Positions of a session. */
    public long context() {
        return facts[0];
    }

    public long vocabSize() {
        return facts[1];
    }

    public int threads() {
        return (int) facts[2];
    }

    public boolean hasTokenizer() {
        return facts[3] != 0;
    }

    /** The tokens that end an answer. */
    public int[] eosTokens() {
        long address = handle.acquire();
        try {
            return Native.eosTokens(address);
        } finally {
            handle.release();
        }
    }

    public int[] encode(String text, boolean addSpecial) {
        return encode(text, addSpecial, false);
    }

    /**
     * The tokens of a text. What it spells never becomes a control token, unless parseSpecial says so: for your own text,
     * never for others'.
     *
     * @param addSpecial put those tokens around it that the tokenizer adds, such as the beginning of text
     */
    public int[] encode(String text, boolean addSpecial, boolean parseSpecial) {
        byte[] bytes = Utf8.encode(Check.notNull(text, "text"));
        long address = handle.acquire();
        try {
            return Native.encode(address, bytes, addSpecial, parseSpecial);
        } finally {
            handle.release();
        }
    }

    public String decode(int[] tokens, boolean skipSpecial) {
        Check.notNull(tokens, "tokens");
        long address = handle.acquire();
        try {
            return Utf8.decode(Native.decode(address, tokens, skipSpecial));
        } finally {
            handle.release();
        }
    }

    public int[] encodeChat(List<Message> messages, boolean addGenerationPrompt) {
        return encodeChat(messages, addGenerationPrompt, "", false);
    }

    /**
     * The tokens of a conversation, as {@link Session#generateChat} gives them to the model.
     *
     * @param addGenerationPrompt up to where an answer begins
     * @param variables for the chat template, as a JSON object; "": none
     */
    public int[] encodeChat(
            List<Message> messages, boolean addGenerationPrompt, String variables, boolean parseSpecial) {
        byte[][] parts = Utf8.encodeMessages(Check.noNulls(messages, "messages"));
        byte[] json = Utf8.encode(Check.notNull(variables, "variables"));
        long address = handle.acquire();
        try {
            return Native.encodeChat(address, parts, addGenerationPrompt, json, parseSpecial);
        } finally {
            handle.release();
        }
    }

    /** The conversation as the text that the model expects, for display; for tokens use {@link #encodeChat}. */
    public String renderChat(List<Message> messages, boolean addGenerationPrompt, String variables) {
        byte[][] parts = Utf8.encodeMessages(Check.noNulls(messages, "messages"));
        byte[] json = Utf8.encode(Check.notNull(variables, "variables"));
        long address = handle.acquire();
        try {
            return Utf8.decode(Native.renderChat(address, parts, addGenerationPrompt, json));
        } finally {
            handle.release();
        }
    }

    public boolean isClosed() {
        return handle.isClosed();
    }

    /** Sessions go on and keep the file loaded until they are closed. Closing again does nothing. */
    @Override
    public void close() {
        handle.close();
    }
}
