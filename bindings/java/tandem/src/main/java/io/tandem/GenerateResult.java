package io.tandem;

import java.util.Locale;

/** An answer and what it took. */
public final class GenerateResult {
    private final String text;
    private final String reasoning;
    private final FinishReason finish;
    private final String stopString;
    private final int[] tokens;
    private final long[] counts;
    private final double[] seconds;

    GenerateResult(
            String text,
            String reasoning,
            FinishReason finish,
            String stopString,
            int[] tokens,
            long[] counts,
            double[] seconds) {
        this.text = text;
        this.reasoning = reasoning;
        this.finish = finish;
        this.stopString = stopString;
        this.tokens = tokens;
        this.counts = counts;
        this.seconds = seconds;
    }

    /** Of a chat: without the reasoning. */
    public String text() {
        return text;
    }

    /** Of a chat: what a thinking model wrote before its answer. */
    public String reasoning() {
        return reasoning;
    }

    public FinishReason finish() {
        return finish;
    }

    /** The stop string that ended the answer; "" if none did. */
    public String stopString() {
        return stopString;
    }

    /** Without the end-of-text token. */
    public int[] tokens() {
        return tokens.clone();
    }

    /** Computed ones; those that were still in the session's cache do not count. */
    public long promptTokens() {
        return counts[0];
    }

    /** Tokens of the prompt that were in the cache. */
    public long reusedTokens() {
        return counts[1];
    }

    /** Until the prompt was computed. */
    public double promptSeconds() {
        return seconds[0];
    }

    public double firstTokenSeconds() {
        return seconds[1];
    }

    /** After the first token. */
    public double decodeSeconds() {
        return seconds[2];
    }

    /** What {@link LlmCallback#onStats} gets: counts, seconds and how the answer finished, as a JSON object. */
    public String statsJson() {
        return String.format(
                Locale.ROOT,
                "{\"prompt_tokens\":%d,\"reused_tokens\":%d,\"generated_tokens\":%d,\"prompt_seconds\":%.6f,"
                        + "\"first_token_seconds\":%.6f,\"decode_seconds\":%.6f,\"finish\":\"%s\"}",
                promptTokens(),
                reusedTokens(),
                tokens.length,
                promptSeconds(),
                firstTokenSeconds(),
                decodeSeconds(),
                finish.label());
    }

    @Override
    public String toString() {
        return text;
    }
}
