package io.tandem;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * A model that answers. Mode, chat template and back end come from the file.
 *
 * <pre>
 * try (LlmModule module = new LlmModule("demo.tdm")) {
 *     module.load();
 *     module.generate("Tell me a story.", GenerateConfig.DEFAULT, piece -> System.out.print(piece));
 * }
 * </pre>
 *
 * <p>The module keeps the conversation: {@code generate(prompt)} adds the user's message and then the answer, and
 * the next prompt continues from there. {@code generate(messages)} puts these messages in its place. An answer that was
 * stopped is kept as far as it got; a turn that failed, or was stopped before its first character, is forgotten. A file
 * without a chat template has no turns: a prompt is then appended to the text so far, and the model continues it.
 *
 * <p>All methods may be called from any thread. One generation at a time: another one throws IllegalStateException.
 * generate() blocks; call it in a background thread, and stop() or close() from wherever you like.
 */
public final class LlmModule implements AutoCloseable {
    /** Where the model is. */
    private interface Source {
        Engine load();
    }

    private final Source source;
    private final Object loadLock = new Object(); // Held while loading, so that there is one engine.
    private final Object lock = new Object(); // Guards what follows; never held while anything native computes.
    private Engine engine;
    private Session session;
    private boolean hasTemplate;
    private StopSignal running;
    private boolean closed;
    private List<Message> conversation = Collections.emptyList();

    public LlmModule(String path) {
        this(path, EngineOptions.DEFAULT);
    }

    /** Nothing is loaded until {@link #load} or the first generate(). */
    public LlmModule(final String path, final EngineOptions options) {
        Check.path(path);
        Check.notNull(options, "options");
        source = () -> Engine.load(path, options);
    }

    /**
     * A model inside another file, such as an app's package.
     *
     * @see Engine#load(int, long, long, EngineOptions) the descriptor must stay open until the module is loaded
     */
    public LlmModule(final int descriptor, final long offset, final long length, final EngineOptions options) {
        Check.notNull(options, "options");
        source = () -> Engine.load(descriptor, offset, length, options);
    }

    /** {@link #probe(String, EngineOptions)} with the default options. */
    public static String probe(String path) {
        return probe(path, EngineOptions.DEFAULT);
    }

    /**
     * Whether a file can run on this machine and, if not, why and what to do about it: a JSON object with "usable" and,
     * for each of the file's programs, an entry in "backends" (docs/targets.md). The weights are not read.
     *
     * @param path null: what the back ends of this build say without a file
     * @throws TandemException if the file is absent or broken
     */
    public static String probe(String path, EngineOptions options) {
        byte[] bytes = path == null ? new byte[0] : Utf8.encode(Check.path(path));
        return Check.notNull(options, "options").probeFile(bytes);
    }

    /** The same for a model inside another file. */
    public static String probe(int descriptor, long offset, long length, EngineOptions options) {
        return Check.notNull(options, "options").probeRegion(descriptor, offset, length);
    }

    /** Maps the file and makes a session. Does nothing if that was done. */
    public void load() {
        synchronized (loadLock) {
            synchronized (lock) {
                checkOpen();
                if (session != null) {
                    return;
                }
            }
            Engine loaded = source.load();
            try {
                Session made = loaded.newSession();
                boolean template = hasChatTemplate(loaded);
                synchronized (lock) {
                    if (!closed) {
                        engine = loaded;
                        session = made;
                        hasTemplate = template;
                        return;
                    }
                }
                made.close();
            } catch (RuntimeException | Error e) {
                loaded.close();
                throw e;
            }
            loaded.close(); // close() came meanwhile.
            checkOpenLocked();
        }
    }

    public boolean isLoaded() {
        synchronized (lock) {
            return session != null && !closed;
        }
    }

    /** What the file's program that runs was compiled for, such as "sm8750"; once the module is loaded. */
    public String target() {
        return loadedEngine().target();
    }

    /** The back end of that program, such as "qnn"; once the module is loaded. */
    public String backend() {
        return loadedEngine().backend();
    }

    private Engine loadedEngine() {
        synchronized (lock) {
            checkOpen();
            if (engine == null) {
                throw new IllegalStateException("the module is not loaded; call load() first");
            }
            return engine;
        }
    }

    /** Answers a prompt within the conversation. Errors go to {@link LlmCallback#onError}. */
    public void generate(String prompt, GenerateConfig config, LlmCallback callback) {
        generate(prompt, config, callback, new StopSignal());
    }

    /** Answers the last of these messages; they become the conversation. */
    public void generate(List<Message> messages, GenerateConfig config, LlmCallback callback) {
        generate(messages, config, callback, new StopSignal());
    }

    /** @param signal stops this generation and no other, even if it has not begun yet */
    public void generate(String prompt, GenerateConfig config, LlmCallback callback, StopSignal signal) {
        Check.notNull(prompt, "prompt");
        report(new Turn(prompt, null), config, Check.notNull(callback, "callback"), signal);
    }

    /** @param signal stops this generation and no other, even if it has not begun yet */
    public void generate(List<Message> messages, GenerateConfig config, LlmCallback callback, StopSignal signal) {
        Check.noNulls(messages, "messages");
        report(new Turn(null, new ArrayList<>(messages)), config, Check.notNull(callback, "callback"), signal);
    }

    /** Answers a prompt without streaming; errors are thrown. */
    public GenerateResult generate(String prompt, GenerateConfig config) {
        Check.notNull(prompt, "prompt");
        return run(new Turn(prompt, null), config, null, new StopSignal());
    }

    /** Answers the last of these messages without streaming; errors are thrown. */
    public GenerateResult generate(List<Message> messages, GenerateConfig config) {
        Check.noNulls(messages, "messages");
        return run(new Turn(null, new ArrayList<>(messages)), config, null, new StopSignal());
    }

    /**
     * Stops the running generation within a token, from any thread; one that has just been called counts as running. If
     * there is none, nothing happens, now or later.
     */
    public void stop() {
        StopSignal signal;
        synchronized (lock) {
            signal = running;
        }
        if (signal != null) {
            signal.stop();
        }
    }

    /** Forgets the conversation. The model stays loaded. */
    public void resetContext() {
        synchronized (lock) {
            checkOpen();
            if (running != null) {
                throw new IllegalStateException("a generation is running; stop it and wait until it has returned");
            }
            conversation = Collections.emptyList();
            if (session != null) {
                session.rewind(0);
            }
        }
    }

    /** The conversation so far, with the model's answers. Empty with a file that has no chat template. */
    public List<Message> conversation() {
        synchronized (lock) {
            return Collections.unmodifiableList(new ArrayList<>(conversation));
        }
    }

    /**
     * Ends a running generation as {@link #stop} does and frees the model when that has returned; this method does not
     * wait for it. Closing again does nothing; any other use afterwards throws IllegalStateException.
     */
    @Override
    public void close() {
        Session oldSession;
        Engine oldEngine;
        synchronized (lock) {
            closed = true;
            oldSession = session;
            oldEngine = engine;
        }
        stop();
        if (oldSession != null) {
            oldSession.close();
        }
        if (oldEngine != null) {
            oldEngine.close();
        }
    }

    /** What a call asks for: one of the two. */
    private static final class Turn {
        final String prompt;
        final List<Message> messages;

        Turn(String prompt, List<Message> messages) {
            this.prompt = prompt;
            this.messages = messages;
        }
    }

    private void report(Turn turn, GenerateConfig config, LlmCallback callback, StopSignal signal) {
        GenerateResult result;
        try {
            result = run(turn, config, new Forwarder(callback), signal);
        } catch (FromCallback e) {
            throw e.unwrap();
        } catch (TandemException e) {
            callback.onError(e.code(), e.getMessage());
            return;
        }
        callback.onStats(result.statsJson());
    }

    private GenerateResult run(Turn turn, GenerateConfig config, StreamCallback callback, StopSignal signal) {
        Check.notNull(config, "config");
        Check.notNull(signal, "signal");
        synchronized (lock) {
            checkOpen();
            if (running != null) {
                throw new IllegalStateException("a generation is running; stop it and wait until it has returned");
            }
            running = signal;
        }
        try {
            load();
            Session current;
            synchronized (lock) {
                current = session;
            }
            signal.attach(current);
            return hasTemplate || turn.messages != null
                    ? answer(current, turn, config, callback)
                    : continueText(current, turn.prompt, config, callback);
        } finally {
            signal.detach();
            synchronized (lock) {
                running = null;
            }
        }
    }

    private GenerateResult answer(Session current, Turn turn, GenerateConfig config, StreamCallback callback) {
        List<Message> messages = turn.messages;
        if (messages == null) {
            messages = conversation();
            messages = new ArrayList<>(messages);
            messages.add(Message.user(turn.prompt));
        }
        GenerateResult result = current.generateChat(messages, config, callback);
        if (result.finish() == FinishReason.CANCELLED && result.text().isEmpty()) {
            return result;
        }
        String fields =
                result.reasoning().isEmpty() ? "" : "{\"reasoning_content\":" + Json.quote(result.reasoning()) + "}";
        messages.add(new Message("assistant", result.text(), fields));
        synchronized (lock) {
            conversation = messages;
        }
        return result;
    }

    private GenerateResult continueText(Session current, String text, GenerateConfig config, StreamCallback callback) {
        boolean first = current.tokens().length == 0;
        int[] tokens = engine.encode(text, first, config.parsesSpecial());
        return current.generate(tokens, config, callback);
    }

    /** Whether the file can chat. One that has no tokenizer either says so when it is given a text. */
    private static boolean hasChatTemplate(Engine engine) {
        try {
            engine.renderChat(Collections.singletonList(Message.user("")), true, "");
        } catch (TandemException e) {
            return e.code() != ErrorCode.NOT_FOUND;
        }
        return true;
    }

    private void checkOpen() {
        if (closed) {
            throw new IllegalStateException("the module is closed");
        }
    }

    private void checkOpenLocked() {
        synchronized (lock) {
            checkOpen();
        }
    }

    private static final class Forwarder implements StreamCallback {
        private final LlmCallback callback;

        Forwarder(LlmCallback callback) {
            this.callback = callback;
        }

        @Override
        public boolean onPiece(String piece) {
            try {
                callback.onResult(piece);
            } catch (TandemException e) {
                throw new FromCallback(e);
            }
            return true;
        }

        @Override
        public boolean onReasoning(String piece) {
            try {
                callback.onReasoning(piece);
            } catch (TandemException e) {
                throw new FromCallback(e);
            }
            return true;
        }
    }

    /** A TandemException that the app's callback threw: it is not an error of the generation, and onError not called. */
    private static final class FromCallback extends RuntimeException {
        private static final long serialVersionUID = 1;

        FromCallback(TandemException cause) {
            super(cause);
        }

        TandemException unwrap() {
            return (TandemException) getCause();
        }
    }
}
