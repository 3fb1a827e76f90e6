package io.tandem;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/** Native memory: nothing is freed while it is used, and nothing is kept. */
class LifetimeTest {
    @Test
    void theCollectorDoesNotDisturbAGeneration() {
        int[] expected;
        try (Engine engine = Engine.load(Demo.path());
                Session session = engine.newSession()) {
            expected = session.generateChat(Demo.STORY, GenerateConfig.greedy(), null).tokens();
        }
        // Nothing of Java's holds the engine or the session while native code runs.
        int[] tokens =
                Engine.load(Demo.path())
                        .newSession()
                        .generateChat(
                                Demo.STORY,
                                GenerateConfig.greedy(),
                                piece -> {
                                    System.gc();
                                    return true;
                                })
                        .tokens();
        assertArrayEquals(expected, tokens);
    }

    @Test
    void anOwnerThatIsCollectedDuringACallIsFreedAfterItWithoutACancel() throws InterruptedException {
        List<String> done = java.util.Collections.synchronizedList(new ArrayList<>());
        NativeHandle.Kind kind =
                new NativeHandle.Kind() {
                    @Override
                    public void free(long address) {
                        done.add("free " + address);
                    }

                    @Override
                    public void cancel(long address) {
                        done.add("cancel");
                    }
                };
        NativeHandle handle = NativeHandle.own(new Object(), 7, kind, "thing");
        assertEquals(7, handle.acquire());
        assertTrue(Demo.collectUntil(handle::isClosed));
        assertEquals(0, done.size());
        handle.release();
        assertEquals(java.util.Collections.singletonList("free 7"), done);
        handle.close();
        assertEquals(1, done.size());
    }

    @Test
    void forgottenObjectsAreFreed() throws InterruptedException {
        int before = NativeHandle.liveCount();
        for (int i = 0; i < 20; ++i) {
            Engine engine = Engine.load(Demo.path());
            engine.newSession().generateChat(Demo.STORY, Demo.greedy(2), null);
        }
        assertTrue(Demo.collectUntil(() -> NativeHandle.liveCount() <= before), () -> NativeHandle.liveCount() + " live");
    }

    @Test
    void closingFreesAtOnce() {
        int before = NativeHandle.liveCount();
        Engine engine = Engine.load(Demo.path());
        Session session = engine.newSession();
        assertEquals(before + 2, NativeHandle.liveCount());
        session.close();
        engine.close();
        assertEquals(before, NativeHandle.liveCount());
    }

    @Test
    void eightThreadsCancelAndCloseAtRandom() throws Exception {
        int threads = 8;
        int before = NativeHandle.liveCount();
        ExecutorService pool = Executors.newFixedThreadPool(2 * threads);
        AtomicInteger cancelled = new AtomicInteger();
        AtomicInteger finished = new AtomicInteger();
        AtomicInteger closed = new AtomicInteger();
        try (Engine engine = Engine.load(Demo.path(), EngineOptions.builder().threads(2).build())) {
            int[] expected;
            try (Session session = engine.newSession()) {
                expected = session.generateChat(Demo.STORY, Demo.greedy(25), null).tokens();
            }
            List<Future<?>> work = new ArrayList<>();
            for (int t = 0; t < threads; ++t) {
                java.util.Random random = new java.util.Random(t);
                work.add(
                        pool.submit(
                                () -> {
                                    for (int i = 0; i < 40; ++i) {
                                        Session session = engine.newSession();
                                        int pick = random.nextInt(4);
                                        long nanos = random.nextInt(8_000_000);
                                        Future<?> disturbance =
                                                pool.submit(
                                                        () -> {
                                                            java.util.concurrent.locks.LockSupport.parkNanos(nanos);
                                                            if (pick == 0) {
                                                                session.cancel();
                                                            } else if (pick == 1) {
                                                                session.close();
                                                            } else if (pick == 2) {
                                                                System.gc();
                                                            }
                                                        });
                                        try {
                                            GenerateResult result =
                                                    session.generateChat(Demo.STORY, Demo.greedy(25), piece -> true);
                                            if (result.finish() == FinishReason.CANCELLED) {
                                                cancelled.incrementAndGet();
                                            } else {
                                                finished.incrementAndGet();
                                                assertArrayEquals(expected, result.tokens());
                                            }
                                        } catch (IllegalStateException e) {
                                            closed.incrementAndGet();
                                            assertEquals(1, pick);
                                        }
                                        disturbance.get();
                                        if (random.nextBoolean()) { // Else the collector has to find it.
                                            session.close();
                                        }
                                    }
                                    return null;
                                }));
            }
            for (Future<?> f : work) {
                f.get(120, TimeUnit.SECONDS);
            }
        } finally {
            pool.shutdown();
        }
        assertEquals(threads * 40, cancelled.get() + finished.get() + closed.get());
        assertTrue(cancelled.get() > 0 && finished.get() > 0, cancelled + " cancelled, " + finished + " finished");
        assertTrue(Demo.collectUntil(() -> NativeHandle.liveCount() <= before), () -> NativeHandle.liveCount() + " live");
    }

    @Test
    void modulesAreClosedWhileTheyLoadAndGenerate() throws Exception {
        int before = NativeHandle.liveCount();
        ExecutorService pool = Executors.newFixedThreadPool(2);
        java.util.Random random = new java.util.Random(5);
        for (int i = 0; i < 100; ++i) {
            LlmModule module = new LlmModule(Demo.path());
            Future<?> running =
                    pool.submit(
                            () -> {
                                try {
                                    module.generate(Demo.PROMPT, Demo.greedy(40), piece -> {});
                                } catch (IllegalStateException closed) {
                                    // close() was quicker.
                                }
                            });
            java.util.concurrent.locks.LockSupport.parkNanos(random.nextInt(6_000_000));
            module.close();
            running.get(30, TimeUnit.SECONDS);
        }
        pool.shutdown();
        assertTrue(Demo.collectUntil(() -> NativeHandle.liveCount() <= before), () -> NativeHandle.liveCount() + " live");
    }

    @Test
    void memoryIsFlatOverManyGenerations() throws IOException, InterruptedException {
        int generations = Integer.getInteger("tandem.generations", 2000);
        int windows = 5;
        try (LlmModule module = new LlmModule(Demo.path())) {
            generateMany(module, 500);
            long heap = heapBytes();
            long[] rss = new long[windows + 1];
            rss[0] = residentBytes();
            for (int w = 0; w < windows; ++w) {
                generateMany(module, generations / windows);
                rss[w + 1] = residentBytes();
            }
            long grownHeap = heapBytes() - heap;
            // The JVM compiles methods and allocates for itself now and then; a leak grows in every window.
            long least = Long.MAX_VALUE;
            for (int w = 0; w < windows; ++w) {
                least = Math.min(least, rss[w + 1] - rss[w]);
            }
            long perGeneration = least * windows / generations;
            System.out.printf(
                    "%d generations: resident memory grew by %d KB, %d B per generation where it grew least; the heap by %d KB%n",
                    generations, (rss[windows] - rss[0]) / 1024, perGeneration, grownHeap / 1024);
            assertTrue(perGeneration < 200, perGeneration + " bytes are lost by each generation");
            assertTrue(rss[windows] - rss[0] < 32 << 20, "resident memory grew");
            assertTrue(grownHeap < 1 << 19, grownHeap + " more bytes of heap are in use");
        }
    }

    /** Sessions of their own, messages, options, callbacks, and exceptions too. */
    private static void generateMany(LlmModule module, int count) {
        for (int i = 0; i < count; ++i) {
            if (i % 50 == 49) {
                try {
                    module.generate("Hi", Demo.greedy(4), piece -> { throw new IllegalStateException("mine"); });
                } catch (IllegalStateException expected) {
                    // Its exception must not be kept either.
                }
            }
            module.generate("Hi", Demo.greedy(4), piece -> {});
            module.resetContext();
        }
    }

    private static long residentBytes() throws IOException {
        String[] fields =
                new String(Files.readAllBytes(Paths.get("/proc/self/statm")), java.nio.charset.StandardCharsets.US_ASCII)
                        .split(" ");
        return Long.parseLong(fields[1]) * 4096;
    }

    private static long heapBytes() throws InterruptedException {
        for (int i = 0; i < 3; ++i) {
            System.gc();
            Thread.sleep(20);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
