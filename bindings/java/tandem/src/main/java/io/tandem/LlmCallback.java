package io.tandem;

/**
 * Receives an answer while it is generated, in the thread that called {@link LlmModule#generate}. An exception ends the
 * generation and comes out of generate().
 */
public interface LlmCallback {
    /** A piece of the answer: whole characters, never a part of one. */
    void onResult(String piece);

    /** What a thinking model writes before its answer. */
    default void onReasoning(String piece) {}

    /** At the end of an answer, also of one that was stopped: {@link GenerateResult#statsJson}. */
    default void onStats(String json) {}

    /**
     * The generation failed; nothing else follows. As it stands, the error comes out of generate() as an exception;
     * an override that returns has dealt with it, and generate() returns normally.
     */
    default void onError(ErrorCode code, String message) {
        throw new TandemException(code, message);
    }
}
