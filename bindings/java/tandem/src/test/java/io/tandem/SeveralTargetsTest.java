package io.tandem;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A file with a program for the CPU and one for the interpreter. */
class SeveralTargetsTest {
    private static final int TOKENS = 8;

    @TempDir static Path folder;
    private static String file;

    @BeforeAll
    static void compile() throws IOException, InterruptedException {
        file = folder.resolve("several.tdm").toString();
        String checkpoint = System.getProperty("tandem.checkpoint");
        Demo.commandLine(
                Arrays.asList(
                        "compile", checkpoint, "-o", file, "-q", "--target", "cpu,reference", "--context", "256"));
    }

    private static EngineOptions options(String runOn, String decodeOn) {
        return EngineOptions.builder().runOn(runOn).decodeOn(decodeOn).build();
    }

    @Test
    void eachProgramRunsAsOnTheCommandLine() throws IOException, InterruptedException {
        String[][] cases = {{"", "", "cpu"}, {"cpu", "", "cpu"}, {"reference", "", "reference"}, {"cpu", "reference", "cpu"}};
        for (String[] names : cases) {
            try (Engine engine = Engine.load(file, options(names[0], names[1]));
                    Session session = engine.newSession()) {
                assertEquals(names[2], engine.target());
                assertEquals(names[2], engine.backend());
                int[] expected =
                        Demo.tokensOfFile(
                                file, "-p", Demo.PROMPT, "--greedy", "-n", "" + TOKENS,
                                "--on", names[2], "--decode-on", names[1].isEmpty() ? names[2] : names[1]);
                assertArrayEquals(expected, session.generateChat(Demo.STORY, Demo.greedy(TOKENS), null).tokens());
            }
        }
    }

    @Test
    void aModuleSaysWhatItRunsOn() {
        try (LlmModule module = new LlmModule(file, options("reference", ""))) {
            assertThrows(IllegalStateException.class, module::target);
            module.load();
            assertEquals("reference", module.target());
            assertEquals("reference", module.backend());
            module.close();
            assertThrows(IllegalStateException.class, module::backend);
        }
    }

    @Test
    void anUnknownNameIsRefused() {
        for (EngineOptions wrong : new EngineOptions[] {options("sm8750", ""), options("", "sm8750"), options("c\0pu", "")}) {
            TandemException e = assertThrows(TandemException.class, () -> Engine.load(file, wrong));
            assertEquals(ErrorCode.INVALID_ARGUMENT, e.code());
            assertTrue(e.getMessage().contains("cpu, reference"), e.getMessage());
            assertThrows(TandemException.class, () -> LlmModule.probe(file, wrong));
        }
        // A file for one target has a name too.
        Engine.load(Demo.path(), options("cpu", "")).close();
        assertThrows(TandemException.class, () -> Engine.load(Demo.path(), options("reference", "")));
    }

    @Test
    void probingIsAboutTheProgramsThatAreNamed() {
        String both = LlmModule.probe(file);
        assertTrue(both.contains("\"reference\"") && both.contains("\"cpu\""), both);
        String one = LlmModule.probe(file, options("reference", ""));
        assertTrue(one.contains("\"reference\"") && !one.contains("\"cpu\""), one);
    }
}
