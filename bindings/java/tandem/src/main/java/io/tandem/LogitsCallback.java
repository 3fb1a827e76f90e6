package io.tandem;

/** Receives the logits after each token of {@link Session#score}. */
public interface LogitsCallback {
    /**
     * @param logits one per token of the vocabulary, the callee's to keep
     * @return false to stop, which ends the call with {@link ErrorCode#CANCELLED}
     */
    boolean onRow(int index, float[] logits);
}
