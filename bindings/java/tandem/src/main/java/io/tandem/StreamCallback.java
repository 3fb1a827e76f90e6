package io.tandem;

/**
 * Receives a session's answer while it is generated, in the thread that called. An exception ends the call and comes out
 * of it.
 */
public interface StreamCallback {
    /**
     * @param piece whole characters, never a part of one
     * @return false to stop
     */
    boolean onPiece(String piece);

    /** What a thinking model writes before its answer. */
    default boolean onReasoning(String piece) {
        return true;
    }
}
