package io.tandem;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class LlmModuleTest {
    private static final class Recorder implements LlmCallback {
        final StringBuilder text = new StringBuilder();
        final List<String> stats = new ArrayList<>();
        final List<String> errors = new ArrayList<>();
        final CountDownLatch started = new CountDownLatch(1);

        @Override
        public void onResult(String piece) {
            text.append(piece);
            started.countDown();
        }

        @Override
        public void onStats(String json) {
            stats.add(json);
        }

        @Override
        public void onError(ErrorCode code, String message) {
            errors.add(code.label() + ": " + message);
        }
    }

    private static void inBackground(ThrowingBody body) throws Exception {
        ExecutorService background = Executors.newSingleThreadExecutor();
        try {
            body.run(background);
        } finally {
            background.shutdown();
            assertTrue(background.awaitTermination(30, TimeUnit.SECONDS));
        }
    }

    private interface ThrowingBody {
        void run(ExecutorService background) throws Exception;
    }

    @Test
    void aPromptIsAnswered() {
        try (LlmModule module = new LlmModule(Demo.path())) {
            assertFalse(module.isLoaded());
            module.load();
            module.load();
            assertTrue(module.isLoaded());
            Recorder recorder = new Recorder();
            module.generate(Demo.PROMPT, GenerateConfig.greedy(), recorder);
            assertTrue(recorder.text.toString().contains("Leo"), recorder.text.toString());
            assertEquals(1, recorder.stats.size());
            assertTrue(
                    recorder.stats.get(0).matches("\\{\"prompt_tokens\":18,\"reused_tokens\":0,\"generated_tokens\":\\d+,.*\"finish\":\"stop\"\\}"),
                    recorder.stats.get(0));
            assertTrue(recorder.errors.isEmpty());
            assertEquals(
                    Arrays.asList(Message.user(Demo.PROMPT), Message.assistant(recorder.text.toString())),
                    module.conversation());
        }
    }

    @Test
    void theModuleKeepsTheConversationUntilItIsReset() {
        try (LlmModule module = new LlmModule(Demo.path());
                Engine engine = Engine.load(Demo.path());
                Session session = engine.newSession()) {
            GenerateResult first = module.generate(Demo.PROMPT, Demo.greedy(30));
            GenerateResult second = module.generate("Tell me more.", Demo.greedy(30));
            assertTrue(second.reusedTokens() > 0);
            List<Message> whole =
                    Arrays.asList(
                            Message.user(Demo.PROMPT), Message.assistant(first.text()), Message.user("Tell me more."));
            assertEquals(session.generateChat(whole, Demo.greedy(30), null).text(), second.text());
            assertEquals(4, module.conversation().size());

            module.resetContext();
            assertTrue(module.conversation().isEmpty());
            GenerateResult again = module.generate(Demo.PROMPT, Demo.greedy(30));
            assertEquals(first.text(), again.text());
            assertEquals(0, again.reusedTokens());

            // Messages take the place of the conversation, and prompts continue from there.
            assertEquals(second.text(), module.generate(whole, Demo.greedy(30)).text());
            assertEquals(4, module.conversation().size());
            Recorder recorder = new Recorder();
            module.generate(whole, Demo.greedy(30), recorder);
            assertEquals(second.text(), recorder.text.toString());
        }
    }

    @Test
    void errorsGoToOnErrorOrOutOfTheCall() {
        LlmModule missing = new LlmModule("/no/such/file.tdm");
        assertEquals(ErrorCode.NOT_FOUND, assertThrows(TandemException.class, missing::load).code());
        Recorder recorder = new Recorder();
        missing.generate("Hi", GenerateConfig.DEFAULT, recorder);
        assertEquals(1, recorder.errors.size());
        assertTrue(recorder.errors.get(0).startsWith("not_found: "), recorder.errors.get(0));
        assertTrue(recorder.stats.isEmpty());
        assertThrows(TandemException.class, () -> missing.generate("Hi", GenerateConfig.DEFAULT, piece -> {}));
        assertThrows(TandemException.class, () -> missing.generate("Hi", GenerateConfig.DEFAULT));
        missing.close();

        try (LlmModule module = new LlmModule(Demo.path())) {
            String tooLong = String.join(" ", Collections.nCopies(5000, "fox"));
            module.generate(tooLong, GenerateConfig.DEFAULT, recorder);
            assertTrue(recorder.errors.get(1).startsWith("resource_exhausted: "), recorder.errors.get(1));
            assertTrue(module.conversation().isEmpty());
            assertEquals(3, module.generate(Demo.PROMPT, Demo.greedy(3)).tokens().length);
        }
    }

    @Test
    void aCallbackThatThrowsLeavesTheConversationAsItWas() {
        try (LlmModule module = new LlmModule(Demo.path())) {
            String expected = module.generate(Demo.PROMPT, Demo.greedy(20)).text();
            module.resetContext();
            for (RuntimeException mine :
                    Arrays.asList(new IllegalStateException("mine"), new TandemException(ErrorCode.IO, "mine"))) {
                AtomicInteger errors = new AtomicInteger();
                LlmCallback failing =
                        new LlmCallback() {
                            @Override
                            public void onResult(String piece) {
                                throw mine;
                            }

                            @Override
                            public void onError(ErrorCode code, String message) {
                                errors.incrementAndGet();
                            }
                        };
                assertSame(
                        mine,
                        assertThrows(
                                RuntimeException.class,
                                () -> module.generate(Demo.PROMPT, GenerateConfig.greedy(), failing)));
                assertEquals(0, errors.get());
                assertTrue(module.conversation().isEmpty());
            }
            assertEquals(expected, module.generate(Demo.PROMPT, Demo.greedy(20)).text());
        }
    }

    @Test
    void stopEndsARunningAnswerWithinAToken() throws Exception {
        inBackground(
                background -> {
                    try (LlmModule module = new LlmModule(Demo.path())) {
                        module.load();
                        AtomicInteger pieces = new AtomicInteger();
                        module.generate(
                                Demo.PROMPT,
                                Demo.ENDLESS,
                                piece -> {
                                    if (pieces.incrementAndGet() == 3) {
                                        module.stop();
                                    }
                                });
                        // A piece is at least a token; the text that was held back for a stop string may follow.
                        assertTrue(pieces.get() <= 4, pieces.toString());
                        assertEquals(2, module.conversation().size());

                        Recorder recorder = new Recorder();
                        Future<?> running = background.submit(() -> module.generate("More.", Demo.ENDLESS, recorder));
                        assertTrue(recorder.started.await(30, TimeUnit.SECONDS));
                        module.stop();
                        running.get(30, TimeUnit.SECONDS);
                        assertTrue(recorder.stats.get(0).contains("\"finish\":\"cancelled\""), recorder.stats.get(0));
                    }
                });
    }

    @Test
    void stopCountsFromTheMomentThatGenerateIsCalled() throws Exception {
        inBackground(
                background -> {
                    // The model is not loaded yet: stop() finds a generate() that native code has not seen.
                    for (int i = 0; i < 50; ++i) {
                        try (LlmModule module = new LlmModule(Demo.path())) {
                            CountDownLatch entered = new CountDownLatch(1);
                            Recorder recorder = new Recorder();
                            Future<?> running =
                                    background.submit(
                                            () -> {
                                                entered.countDown();
                                                module.generate(Demo.PROMPT, Demo.ENDLESS, recorder);
                                            });
                            assertTrue(entered.await(30, TimeUnit.SECONDS));
                            while (!running.isDone() && recorder.text.length() == 0 && !isRunning(module)) {
                                Thread.yield();
                            }
                            module.stop();
                            running.get(30, TimeUnit.SECONDS); // ENDLESS would fill the context.
                            assertTrue(recorder.stats.get(0).contains("cancelled"), recorder.stats.get(0));
                        }
                    }
                });
    }

    /** Whether stop() would find something: a second generate() is refused. */
    private static boolean isRunning(LlmModule module) {
        try {
            module.resetContext();
            return false;
        } catch (IllegalStateException e) {
            return true;
        }
    }

    @Test
    void stopHasNoEffectWhenNothingRuns() {
        try (LlmModule module = new LlmModule(Demo.path())) {
            module.stop();
            assertEquals(5, module.generate(Demo.PROMPT, Demo.greedy(5)).tokens().length);
            module.stop();
            module.stop();
            assertEquals(5, module.generate(Demo.PROMPT, Demo.greedy(5)).tokens().length);
        }
    }

    @Test
    void aSignalStopsItsOwnGenerationOnly() {
        try (LlmModule module = new LlmModule(Demo.path())) {
            StopSignal signal = new StopSignal();
            signal.stop();
            Recorder recorder = new Recorder();
            module.generate(Demo.PROMPT, Demo.ENDLESS, recorder, signal);
            assertEquals("", recorder.text.toString());
            assertTrue(recorder.stats.get(0).contains("cancelled"));
            assertTrue(module.conversation().isEmpty()); // Nothing was said.
            signal.stop();
            assertEquals(5, module.generate(Demo.PROMPT, Demo.greedy(5)).tokens().length);
        }
    }

    @Test
    void oneGenerationAtATime() {
        try (LlmModule module = new LlmModule(Demo.path())) {
            module.generate(
                    Demo.PROMPT,
                    Demo.greedy(3),
                    piece -> {
                        assertThrows(IllegalStateException.class, () -> module.generate("Hi", Demo.greedy(3)));
                        assertThrows(IllegalStateException.class, module::resetContext);
                    });
            assertNotEquals(0, module.generate("Hi", Demo.greedy(3)).tokens().length);
        }
    }

    @Test
    void closeEndsARunningGeneration() throws Exception {
        inBackground(
                background -> {
                    LlmModule module = new LlmModule(Demo.path());
                    Recorder recorder = new Recorder();
                    Future<?> running = background.submit(() -> module.generate(Demo.PROMPT, Demo.ENDLESS, recorder));
                    assertTrue(recorder.started.await(30, TimeUnit.SECONDS));
                    module.close();
                    running.get(30, TimeUnit.SECONDS);
                    assertTrue(recorder.stats.get(0).contains("cancelled"));
                    module.close();
                    module.stop();
                    assertFalse(module.isLoaded());
                    assertThrows(IllegalStateException.class, module::load);
                    assertThrows(IllegalStateException.class, module::resetContext);
                    assertThrows(IllegalStateException.class, () -> module.generate("Hi", GenerateConfig.DEFAULT));
                    assertThrows(
                            IllegalStateException.class, () -> module.generate("Hi", GenerateConfig.DEFAULT, recorder));
                });
    }

    @Test
    void badArgumentsAreRefused() {
        assertThrows(NullPointerException.class, () -> new LlmModule(null));
        assertThrows(NullPointerException.class, () -> new LlmModule(Demo.path(), null));
        assertThrows(IllegalArgumentException.class, () -> new LlmModule(""));
        try (LlmModule module = new LlmModule(Demo.path())) {
            assertThrows(NullPointerException.class, () -> module.generate((String) null, GenerateConfig.DEFAULT));
            assertThrows(NullPointerException.class, () -> module.generate("Hi", null));
            assertThrows(
                    NullPointerException.class, () -> module.generate("Hi", GenerateConfig.DEFAULT, (LlmCallback) null));
            assertThrows(
                    NullPointerException.class, () -> module.generate("Hi", GenerateConfig.DEFAULT, piece -> {}, null));
            assertThrows(
                    NullPointerException.class,
                    () -> module.generate(Collections.singletonList((Message) null), GenerateConfig.DEFAULT));
        }
        assertThrows(
                TandemException.class, () -> new LlmModule(-1, 0, -1, EngineOptions.DEFAULT).load());
    }

    @Test
    void emojisReachTheModelAndReturn() {
        try (LlmModule module = new LlmModule(Demo.path())) {
            module.generate("Tell me about 🦊 and 👩‍👩‍👧.", Demo.greedy(5));
            assertEquals("Tell me about 🦊 and 👩‍👩‍👧.", module.conversation().get(0).content());
            module.generate("half \ud83e of it", Demo.greedy(5));
        }
    }
}
