package io.tandem;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;

/** How an answer is generated. What is not set is what the model's authors recommend, from the file. */
public final class GenerateConfig {
    public static final GenerateConfig DEFAULT = builder().build();

    private final double[] numbers;
    private final Long seed;
    private final byte[][] stopStrings;
    private final byte[] variables;

    private GenerateConfig(Builder b) {
        numbers = b.numbers.clone();
        seed = b.seed;
        stopStrings = b.stopStrings == null ? null : Utf8.encodeAll(b.stopStrings);
        variables = Utf8.encode(b.variables);
    }

    public static Builder builder() {
        return new Builder();
    }

    /** The most likely token, always: the same answer each time. */
    public static GenerateConfig greedy() {
        return builder().temperature(0).build();
    }

    boolean generate(long session, int[] tokens, boolean replace, byte[][] messages, Object sink) {
        long seedNow = seed != null ? seed : ThreadLocalRandom.current().nextLong();
        return Native.generate(session, tokens, replace, messages, numbers, seedNow, stopStrings, variables, sink);
    }

    boolean parsesSpecial() {
        return numbers[PARSE_SPECIAL] == 1;
    }

    // The order that session_natives.cpp reads; NaN: not set.
    private static final int MAX_NEW_TOKENS = 0;
    private static final int TEMPERATURE = 1;
    private static final int TOP_K = 2;
    private static final int TOP_P = 3;
    private static final int MIN_P = 4;
    private static final int REPETITION_PENALTY = 5;
    private static final int REPETITION_WINDOW = 6;
    private static final int IGNORE_EOS = 7;
    private static final int PARSE_SPECIAL = 8;
    private static final int NUMBERS = 9;

    public static final class Builder {
        private final double[] numbers = new double[NUMBERS];
        private Long seed;
        private List<String> stopStrings;
        private String variables = "";

        private Builder() {
            java.util.Arrays.fill(numbers, Double.NaN);
        }

        private Builder set(int which, double value) {
            // NaN would mean "not set", and an option that cannot be obeyed is refused.
            if (Double.isNaN(value)) {
                throw new IllegalArgumentException("NaN is not a number that an option can have");
            }
            numbers[which] = value;
            return this;
        }

        /** 0: until the model stops or the context is full. */
        public Builder maxNewTokens(int count) {
            return set(MAX_NEW_TOKENS, count);
        }

        /** 0: always the most likely token; the other filters then have no effect. */
        public Builder temperature(double value) {
            return set(TEMPERATURE, value);
        }

        /** Keep the k most likely; 0: all. */
        public Builder topK(int k) {
            return set(TOP_K, k);
        }

        /** Keep the most likely that together have this probability; 1: all. */
        public Builder topP(double p) {
            return set(TOP_P, p);
        }

        /** Keep what has at least this share of the most likely one's probability; 0: all. */
        public Builder minP(double p) {
            return set(MIN_P, p);
        }

        /** Above 1: tokens of the history get less likely; 1: off. */
        public Builder repetitionPenalty(double value) {
            return set(REPETITION_PENALTY, value);
        }

        /** How many of the last tokens count for the penalty; 0: all. */
        public Builder repetitionWindow(int tokens) {
            return set(REPETITION_WINDOW, tokens);
        }

        /** For the same answer again; not set: another one each time. */
        public Builder seed(long value) {
            seed = value;
            return this;
        }

        /** Text that ends the answer; it is not part of it. */
        public Builder stopStrings(List<String> texts) {
            stopStrings = new ArrayList<>(Check.noNulls(texts, "stopStrings"));
            return this;
        }

        /** Go on after end-of-text tokens; for measurements. */
        public Builder ignoreEos(boolean value) {
            return set(IGNORE_EOS, value ? 1 : 0);
        }

        /** Further variables for the chat template, as a JSON object: {"enable_thinking": false}. */
        public Builder templateVariables(String json) {
            variables = Check.notNull(json, "json");
            return this;
        }

        /**
         * Special tokens spelled in messages become tokens. Whoever writes a message can then forge turns: for your own
         * text, never for others'.
         */
        public Builder parseSpecial(boolean value) {
            return set(PARSE_SPECIAL, value ? 1 : 0);
        }

        public GenerateConfig build() {
            return new GenerateConfig(this);
        }
    }
}
