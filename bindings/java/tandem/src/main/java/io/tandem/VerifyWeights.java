package io.tandem;

/** When the checksums of the weights are verified. The order is that of the native enum. */
public enum VerifyWeights {
    /** Before the first token: that reads all weights anyway, and loading only maps the file. */
    ON_FIRST_USE,
    AT_LOAD,
    NEVER
}
