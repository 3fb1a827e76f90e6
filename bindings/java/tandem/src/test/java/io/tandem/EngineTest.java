package io.tandem;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EngineTest {
    @TempDir Path folder;

    @Test
    void saysWhatTheFileIs() {
        try (Engine engine = Engine.load(Demo.path(), EngineOptions.builder().threads(2).build())) {
            assertEquals("hybrid", engine.mode());
            assertEquals(2048, engine.context());
            assertEquals(2, engine.threads());
            assertEquals("cpu", engine.target());
            assertEquals("cpu", engine.backend());
            assertTrue(engine.vocabSize() > 1000);
            assertTrue(engine.hasTokenizer());
            assertTrue(engine.eosTokens().length > 0);
            assertTrue(Engine.version().matches("\\d+\\.\\d+\\.\\d+.*"), Engine.version());
        }
    }

    @Test
    void textsSurviveTokens() {
        try (Engine engine = Engine.load(Demo.path())) {
            for (String text : Arrays.asList("A fox.", "", "🦊 naïve Ελλάδα 狐", "a\0b", "\u00e9\u200d")) {
                assertEquals(text, engine.decode(engine.encode(text, false), false));
            }
            // Half a surrogate pair is no character; Unicode's replacement stands for it.
            assertEquals("a\ufffdb", engine.decode(engine.encode("a\ud83eb", false), false));
        }
    }

    @Test
    void specialTokensNeedPermission() {
        try (Engine engine = Engine.load(Demo.path())) {
            List<Message> chat = Collections.singletonList(Message.user("Hi"));
            String text = engine.renderChat(chat, true, "");
            assertTrue(text.contains("Hi"), text);
            assertArrayEquals(engine.encodeChat(chat, true), engine.encode(text, false, true));
            assertFalse(Arrays.equals(engine.encodeChat(chat, true), engine.encode(text, false)));
        }
    }

    @Test
    void aModelInsideAnotherFileRunsTheSame() throws IOException {
        byte[] model = Files.readAllBytes(Paths.get(Demo.path()));
        int[] expected;
        try (Engine engine = Engine.load(Demo.path());
                Session session = engine.newSession()) {
            expected = session.generateChat(Demo.STORY, Demo.greedy(16), null).tokens();
        }
        for (int offset : new int[] {4096, 64, 1}) {
            Path apk = folder.resolve("package-" + offset);
            byte[] bytes = new byte[offset + model.length + 10];
            System.arraycopy(model, 0, bytes, offset, model.length);
            Files.write(apk, bytes);
            Engine engine;
            try (RandomAccessFile file = new RandomAccessFile(apk.toFile(), "r")) {
                engine = Engine.load(descriptorOf(apk), offset, model.length, EngineOptions.DEFAULT);
            }
            try (Engine e = engine;
                    Session session = e.newSession()) {
                assertArrayEquals(expected, session.generateChat(Demo.STORY, Demo.greedy(16), null).tokens());
            }
        }
    }

    /** The number of an open file: Java hides it, and Android's ParcelFileDescriptor does not. */
    private static int descriptorOf(Path file) throws IOException {
        try (DirectoryStream<Path> all = Files.newDirectoryStream(Paths.get("/proc/self/fd"))) {
            for (Path link : all) {
                if (Files.isSymbolicLink(link) && Files.readSymbolicLink(link).equals(file.toRealPath())) {
                    return Integer.parseInt(link.getFileName().toString());
                }
            }
        }
        throw new IOException(file + " is not open");
    }

    @Test
    void probingSaysWhetherTheFileCanRun() throws IOException {
        String report = LlmModule.probe(Demo.path());
        assertEquals(Arrays.asList("true", "true"), usable(report), report); // The CPU's program, and so the file.
        assertTrue(LlmModule.probe(null).contains("\"backends\""));
        assertEquals(
                ErrorCode.NOT_FOUND,
                assertThrows(TandemException.class, () -> LlmModule.probe("/no/such/file.tdm")).code());
        assertThrows(NullPointerException.class, () -> LlmModule.probe(Demo.path(), null));
        assertThrows(TandemException.class, () -> LlmModule.probe(-1, 0, -1, EngineOptions.DEFAULT));
        Path model = Paths.get(Demo.path());
        try (RandomAccessFile file = new RandomAccessFile(model.toFile(), "r")) {
            assertEquals(usable(report), usable(LlmModule.probe(descriptorOf(model), 0, -1, EngineOptions.DEFAULT)));
        }
    }

    private static List<String> usable(String json) {
        List<String> values = new ArrayList<>();
        java.util.regex.Matcher found = java.util.regex.Pattern.compile("\"usable\":\\s*(\\w+)").matcher(json);
        while (found.find()) {
            values.add(found.group(1));
        }
        return values;
    }

    @Test
    void badRegionsAreRefused() {
        for (int descriptor : new int[] {-1, 100000}) {
            TandemException e =
                    assertThrows(
                            TandemException.class, () -> Engine.load(descriptor, 0, -1, EngineOptions.DEFAULT));
            assertFalse(e.getMessage().isEmpty());
        }
    }

    @Test
    void badFilesAreRefusedWithAReason() throws IOException {
        TandemException missing = assertThrows(TandemException.class, () -> Engine.load("/no/such/file.tdm"));
        assertEquals(ErrorCode.NOT_FOUND, missing.code());
        assertEquals("not_found", missing.code().label());
        assertTrue(missing.getMessage().contains("/no/such/file.tdm"), missing.getMessage());
        assertTrue(missing.toString().contains("not_found"), missing.toString());

        Path text = folder.resolve("fóx 🦊.tdm");
        Files.write(text, "not a model".getBytes(StandardCharsets.UTF_8));
        TandemException wrong = assertThrows(TandemException.class, () -> Engine.load(text.toString()));
        assertTrue(wrong.getMessage().contains("fóx 🦊.tdm"), wrong.getMessage());

        byte[] model = Files.readAllBytes(Paths.get(Demo.path()));
        Path truncated = folder.resolve("truncated.tdm");
        Files.write(truncated, Arrays.copyOf(model, model.length / 2));
        assertThrows(TandemException.class, () -> Engine.load(truncated.toString()));
        model[model.length / 2] ^= 1;
        Files.write(truncated, model);
        EngineOptions strict = EngineOptions.builder().verify(VerifyWeights.AT_LOAD).build();
        TandemException flipped = assertThrows(TandemException.class, () -> Engine.load(truncated.toString(), strict));
        assertEquals(ErrorCode.CORRUPT, flipped.code());
    }

    @Test
    void badArgumentsAreRefused() {
        assertThrows(NullPointerException.class, () -> Engine.load(null));
        assertThrows(NullPointerException.class, () -> Engine.load(Demo.path(), null));
        assertThrows(IllegalArgumentException.class, () -> Engine.load(""));
        assertThrows(IllegalArgumentException.class, () -> Engine.load(Demo.path() + "\0.tdm"));
        assertThrows(TandemException.class, () -> Engine.load(Demo.path(), EngineOptions.builder().threads(-1).build()));
        assertThrows(NullPointerException.class, () -> EngineOptions.builder().runOn(null));
        assertThrows(NullPointerException.class, () -> EngineOptions.builder().decodeOn(null));
        assertThrows(
                TandemException.class,
                () -> Engine.load(Demo.path(), EngineOptions.builder().backend("no-such", "1").build()));
        try (Engine engine = Engine.load(Demo.path())) {
            assertThrows(NullPointerException.class, () -> engine.encode(null, true));
            assertThrows(NullPointerException.class, () -> engine.decode(null, true));
            assertThrows(NullPointerException.class, () -> engine.encodeChat(null, true));
            assertThrows(
                    NullPointerException.class,
                    () -> engine.encodeChat(Collections.singletonList((Message) null), true));
            assertEquals("", engine.decode(new int[] {-1, Integer.MAX_VALUE}, true)); // No text has such tokens.
            assertEquals(
                    ErrorCode.INVALID_ARGUMENT,
                    assertThrows(TandemException.class, () -> engine.renderChat(Demo.STORY, true, "{not json")).code());
        }
    }

    @Test
    void aClosedEngineIsRefusedAndItsSessionsGoOn() {
        Engine engine = Engine.load(Demo.path());
        Session session = engine.newSession();
        engine.close();
        engine.close();
        assertTrue(engine.isClosed());
        assertThrows(IllegalStateException.class, engine::newSession);
        assertThrows(IllegalStateException.class, () -> engine.encode("a", true));
        assertEquals(4, session.generateChat(Demo.STORY, Demo.greedy(4), null).tokens().length);
        session.close();
    }

    @Test
    void theLogHearsOfACopy() throws IOException {
        byte[] model = Files.readAllBytes(Paths.get(Demo.path()));
        Path apk = folder.resolve("unaligned");
        byte[] bytes = new byte[model.length + 1];
        System.arraycopy(model, 0, bytes, 1, model.length);
        Files.write(apk, bytes);
        List<String> log = Collections.synchronizedList(new ArrayList<>());
        LogCallback failing =
                (level, message) -> {
                    log.add(level + ": " + message);
                    throw new IllegalStateException("dropped");
                };
        try (RandomAccessFile file = new RandomAccessFile(apk.toFile(), "r")) {
            EngineOptions options = EngineOptions.builder().log(failing, LogLevel.DEBUG).build();
            Engine.load(descriptorOf(apk), 1, -1, options).close();
        }
        assertFalse(log.isEmpty());
    }
}
