package io.tandem;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
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
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

class SessionTest {
    private static Engine engine;
    private static final ExecutorService background = Executors.newCachedThreadPool();

    @BeforeAll
    static void load() {
        engine = Engine.load(Demo.path());
    }

    @AfterAll
    static void close() {
        engine.close();
        background.shutdown();
    }

    @Test
    void greedyTokensAreThoseOfTheCommandLine() throws Exception {
        for (String prompt : Arrays.asList(Demo.PROMPT, "Tell me a story about a 🦊 in Ελλάδα.")) {
            try (Session session = engine.newSession()) {
                GenerateResult result =
                        session.generateChat(
                                Collections.singletonList(Message.user(prompt)), GenerateConfig.greedy(), null);
                assertArrayEquals(Demo.tokensOfCommandLine("--greedy", "-p", prompt), result.tokens());
            }
        }
        try (Session session = engine.newSession()) {
            int[] tokens = engine.encode("Once upon a time", true);
            assertArrayEquals(
                    Demo.tokensOfCommandLine("--greedy", "--no-template", "-n", "40", "-p", "Once upon a time"),
                    session.generate(tokens, Demo.greedy(40), null).tokens());
        }
    }

    @Test
    void sampledTokensAreThoseOfTheCommandLine() throws Exception {
        try (Session session = engine.newSession()) {
            GenerateConfig config =
                    GenerateConfig.builder().temperature(0.9).topK(40).topP(0.95).minP(0.01).repetitionPenalty(1.1)
                            .seed(7).maxNewTokens(50).build();
            assertArrayEquals(
                    Demo.tokensOfCommandLine(
                            "--temperature", "0.9", "--top-k", "40", "--top-p", "0.95", "--min-p", "0.01",
                            "--repetition-penalty", "1.1", "--seed", "7", "-n", "50", "-p", Demo.PROMPT),
                    session.generateChat(Demo.STORY, config, null).tokens());
        }
    }

    @Test
    void piecesAreTheText() {
        try (Session session = engine.newSession()) {
            StringBuilder pieces = new StringBuilder();
            AtomicInteger count = new AtomicInteger();
            Thread caller = Thread.currentThread();
            GenerateResult result =
                    session.generateChat(
                            Demo.STORY,
                            GenerateConfig.greedy(),
                            piece -> {
                                assertSame(caller, Thread.currentThread());
                                count.incrementAndGet();
                                pieces.append(piece);
                                return true;
                            });
            assertEquals(result.text(), pieces.toString());
            assertTrue(result.text().contains("Leo"), result.text());
            assertTrue(count.get() > 20);
            assertEquals(FinishReason.STOP, result.finish());
            assertEquals(session.tokens().length, result.promptTokens() + result.tokens().length);
            assertEquals(result.text(), engine.decode(result.tokens(), true));
        }
    }

    @Test
    void optionsReachTheModel() {
        try (Session session = engine.newSession()) {
            GenerateResult stopped =
                    session.generateChat(
                            Demo.STORY,
                            GenerateConfig.builder().temperature(0).stopStrings(Collections.singletonList("Leo")).build(),
                            null);
            assertEquals("Leo", stopped.stopString());
            assertFalse(stopped.text().contains("Leo"));
            assertEquals(
                    FinishReason.LENGTH, session.generateChat(Demo.STORY, Demo.greedy(3), null).finish());
            GenerateResult full = session.generateFrom(engine.encode("A", true), Demo.ENDLESS, null);
            assertEquals(FinishReason.CONTEXT_FULL, full.finish());
            assertThrows(IllegalArgumentException.class, () -> GenerateConfig.builder().temperature(Double.NaN));
            for (GenerateConfig bad :
                    Arrays.asList(
                            GenerateConfig.builder().temperature(-1).build(),
                            GenerateConfig.builder().temperature(1).topP(2).build(),
                            GenerateConfig.builder().temperature(1).topK(-5).build(),
                            GenerateConfig.builder().maxNewTokens(-1).build(),
                            GenerateConfig.builder().stopStrings(Collections.singletonList("")).build(),
                            GenerateConfig.builder().templateVariables("[1]").build())) {
                TandemException e =
                        assertThrows(TandemException.class, () -> session.generateChat(Demo.STORY, bad, null));
                assertFalse(e.getMessage().isEmpty());
            }
        }
    }

    @Test
    void scoresSayWhatGreedyPicks() {
        try (Session session = engine.newSession()) {
            int[] prompt = engine.encodeChat(Demo.STORY, true);
            int[] answer = session.generateFrom(prompt, Demo.greedy(8), null).tokens();
            session.rewind(prompt.length);
            assertArrayEquals(prompt, session.tokens());
            List<Integer> best = new ArrayList<>();
            session.score(
                    answer,
                    (index, logits) -> {
                        assertEquals(engine.vocabSize(), logits.length);
                        assertEquals(best.size(), index);
                        int top = 0;
                        for (int i = 1; i < logits.length; ++i) {
                            top = logits[i] > logits[top] ? i : top;
                        }
                        best.add(top);
                        return true;
                    });
            for (int i = 0; i + 1 < answer.length; ++i) {
                assertEquals(answer[i + 1], best.get(i));
            }
            int before = session.tokens().length;
            session.score(new int[] {5, 6}, null);
            assertEquals(before + 2, session.tokens().length);
            TandemException stopped =
                    assertThrows(TandemException.class, () -> session.score(new int[] {5, 6}, (i, row) -> false));
            assertEquals(ErrorCode.CANCELLED, stopped.code());
            IllegalStateException mine = new IllegalStateException("mine");
            assertSame(
                    mine,
                    assertThrows(
                            IllegalStateException.class,
                            () -> session.score(new int[] {5}, (i, row) -> { throw mine; })));
            assertThrows(TandemException.class, () -> session.rewind(-1));
            assertThrows(TandemException.class, () -> session.rewind(1L << 40));
            assertThrows(TandemException.class, () -> session.score(new int[] {1 << 30}, null));
        }
    }

    @Test
    void aCallbackThatThrowsEndsTheCallAndTheSessionGoesOn() {
        try (Session session = engine.newSession()) {
            int[] expected = session.generateChat(Demo.STORY, Demo.greedy(20), null).tokens();
            session.rewind(0);
            for (Throwable mine : Arrays.asList(new IllegalStateException("mine"), new StackOverflowError("mine"))) {
                AtomicInteger pieces = new AtomicInteger();
                Throwable thrown =
                        assertThrows(
                                Throwable.class,
                                () ->
                                        session.generateChat(
                                                Demo.STORY,
                                                GenerateConfig.greedy(),
                                                piece -> {
                                                    if (pieces.incrementAndGet() < 5) {
                                                        return true;
                                                    }
                                                    return SessionTest.<RuntimeException>sneak(mine);
                                                }));
                assertSame(mine, thrown);
                assertEquals(5, pieces.get());
                assertEquals(0, session.tokens().length);
                assertArrayEquals(expected, session.generateChat(Demo.STORY, Demo.greedy(20), null).tokens());
                session.rewind(0);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> boolean sneak(Throwable any) throws T {
        throw (T) any;
    }

    @Test
    void aCallbackThatReturnsFalseStops() {
        try (Session session = engine.newSession()) {
            GenerateResult result = session.generateChat(Demo.STORY, Demo.ENDLESS, piece -> false);
            assertEquals(FinishReason.CANCELLED, result.finish());
            assertFalse(result.text().isEmpty());
        }
    }

    @Test
    void cancelStopsARunningCallAndWaitsForOneThatComes() throws Exception {
        try (Session session = engine.newSession()) {
            CountDownLatch started = new CountDownLatch(1);
            Future<GenerateResult> running =
                    background.submit(
                            () ->
                                    session.generateChat(
                                            Demo.STORY,
                                            Demo.ENDLESS,
                                            piece -> {
                                                started.countDown();
                                                return true;
                                            }));
            assertTrue(started.await(30, TimeUnit.SECONDS));
            session.cancel();
            assertEquals(FinishReason.CANCELLED, running.get(30, TimeUnit.SECONDS).finish());

            session.cancel(); // Before the call.
            GenerateResult none = session.generateChat(Demo.STORY, Demo.ENDLESS, null);
            assertEquals(FinishReason.CANCELLED, none.finish());
            assertEquals(0, none.tokens().length);
            assertEquals(3, session.generateChat(Demo.STORY, Demo.greedy(3), null).tokens().length);

            session.cancel();
            session.clearCancel();
            assertEquals(3, session.generateChat(Demo.STORY, Demo.greedy(3), null).tokens().length);
        }
    }

    @Test
    void aSignalThatComesBetweenTheCallAndItsReturnStopsNothingElse() {
        try (Session session = engine.newSession()) {
            StopSignal signal = new StopSignal();
            signal.attach(session);
            session.generateChat(Demo.STORY, Demo.greedy(3), null);
            signal.stop(); // Native code has returned, LlmModule.generate() has not.
            signal.detach();
            assertEquals(3, session.generateChat(Demo.STORY, Demo.greedy(3), null).tokens().length);
        }
    }

    @Test
    void aSecondCallIsRefused() throws Exception {
        try (Session session = engine.newSession()) {
            AtomicInteger refused = new AtomicInteger();
            session.generateChat(
                    Demo.STORY,
                    Demo.greedy(3),
                    piece -> {
                        assertThrows(IllegalStateException.class, session::tokens);
                        assertThrows(IllegalStateException.class, () -> session.rewind(0));
                        assertThrows(
                                IllegalStateException.class, () -> session.generateChat(Demo.STORY, Demo.greedy(1), null));
                        try {
                            background.submit(() -> session.score(new int[] {1}, null)).get();
                        } catch (Exception e) {
                            assertTrue(e.getCause() instanceof IllegalStateException);
                            refused.incrementAndGet();
                        }
                        return true;
                    });
            assertTrue(refused.get() > 0);
            assertEquals(3, session.generateChat(Demo.STORY, Demo.greedy(3), null).tokens().length);
        }
    }

    @Test
    void closeFromACallbackAndFromAnotherThreadEndsTheCall() throws Exception {
        Session own = engine.newSession();
        GenerateResult result =
                own.generateChat(
                        Demo.STORY,
                        Demo.ENDLESS,
                        piece -> {
                            own.close();
                            return true;
                        });
        assertEquals(FinishReason.CANCELLED, result.finish());
        assertThrows(IllegalStateException.class, own::tokens);

        Session other = engine.newSession();
        CountDownLatch started = new CountDownLatch(1);
        Future<GenerateResult> running =
                background.submit(
                        () ->
                                other.generateChat(
                                        Demo.STORY,
                                        Demo.ENDLESS,
                                        piece -> {
                                            started.countDown();
                                            return true;
                                        }));
        assertTrue(started.await(30, TimeUnit.SECONDS));
        other.close();
        assertEquals(FinishReason.CANCELLED, running.get(30, TimeUnit.SECONDS).finish());
        other.close();
        other.cancel();
        other.clearCancel();
        assertThrows(IllegalStateException.class, () -> other.generateChat(Demo.STORY, Demo.ENDLESS, null));
    }

    @Test
    void badArgumentsAreRefused() {
        try (Session session = engine.newSession()) {
            assertThrows(NullPointerException.class, () -> session.generate(null, Demo.ENDLESS, null));
            assertThrows(NullPointerException.class, () -> session.generate(new int[] {1}, null, null));
            assertThrows(NullPointerException.class, () -> session.generateChat(null, Demo.ENDLESS, null));
            assertThrows(NullPointerException.class, () -> session.score(null, null));
            assertThrows(NullPointerException.class, () -> new Message(null, "a"));
            assertThrows(NullPointerException.class, () -> new Message("user", null));
            assertThrows(TandemException.class, () -> session.generate(new int[0], Demo.ENDLESS, null));
            assertThrows(TandemException.class, () -> session.generate(new int[] {-7}, Demo.ENDLESS, null));
            TandemException tooLong =
                    assertThrows(TandemException.class, () -> session.generateFrom(new int[5000], Demo.ENDLESS, null));
            assertEquals(ErrorCode.RESOURCE_EXHAUSTED, tooLong.code());
            assertThrows(
                    TandemException.class,
                    () ->
                            session.generateChat(
                                    Collections.singletonList(new Message("user", "a", "[1]")), Demo.ENDLESS, null));
            assertEquals(0, session.tokens().length);
        }
    }
}
