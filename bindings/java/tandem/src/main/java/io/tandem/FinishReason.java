package io.tandem;

/** Why an answer ended. */
public enum FinishReason {
    /** An end-of-text token or a stop string. */
    STOP("stop"),
    /** {@link GenerateConfig.Builder#maxNewTokens}. */
    LENGTH("length"),
    /** No position is left. */
    CONTEXT_FULL("context_full"),
    /** It was stopped, or a callback wanted no more. */
    CANCELLED("cancelled");

    private final String label;

    FinishReason(String label) {
        this.label = label;
    }

    /** The name for logs and JSON, such as "context_full". */
    public String label() {
        return label;
    }
}
