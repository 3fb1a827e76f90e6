package io.tandem;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The demo model, and the command line as an oracle. */
final class Demo {
    static final String PROMPT = "Tell me a story about a fox named Leo.";
    static final List<Message> STORY = Collections.singletonList(Message.user(PROMPT));
    /** Long enough to be stopped in the middle. */
    static final GenerateConfig ENDLESS = GenerateConfig.builder().temperature(0).ignoreEos(true).build();

    private Demo() {}

    static String path() {
        return System.getProperty("tandem.model");
    }

    static GenerateConfig greedy(int tokens) {
        return GenerateConfig.builder().temperature(0).maxNewTokens(tokens).build();
    }

    /** The tokens that `tandem run` generates with the demo model. */
    static int[] tokensOfCommandLine(String... arguments) throws IOException, InterruptedException {
        return tokensOfFile(path(), arguments);
    }

    /** The tokens that `tandem run` generates. */
    static int[] tokensOfFile(String file, String... arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(Arrays.asList("run", file, "--json"));
        command.addAll(Arrays.asList(arguments));
        String output = commandLine(command);
        Matcher list = Pattern.compile("\"tokens\":\\s*\\[([^\\]]*)\\]").matcher(output);
        if (!list.find()) {
            throw new IOException("no tokens in " + output);
        }
        return Arrays.stream(list.group(1).trim().split("\\s*,\\s*")).mapToInt(Integer::parseInt).toArray();
    }

    /** What tandem prints. */
    static String commandLine(List<String> arguments) throws IOException, InterruptedException {
        List<String> command = new ArrayList<>(Collections.singletonList(System.getProperty("tandem.cli")));
        command.addAll(arguments);
        Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        process.getOutputStream().close();
        ByteArrayOutputStream output = new ByteArrayOutputStream();
        try (InputStream in = process.getInputStream()) {
            byte[] buffer = new byte[8192];
            for (int n = in.read(buffer); n >= 0; n = in.read(buffer)) {
                output.write(buffer, 0, n);
            }
        }
        if (process.waitFor() != 0) {
            throw new IOException(command + " failed");
        }
        return output.toString("UTF-8");
    }

    /** Runs the collector until the condition holds, for up to 20 s. */
    static boolean collectUntil(java.util.function.BooleanSupplier done) throws InterruptedException {
        for (int i = 0; i < 2000 && !done.getAsBoolean(); ++i) {
            System.gc();
            Thread.sleep(10);
        }
        return done.getAsBoolean();
    }
}
