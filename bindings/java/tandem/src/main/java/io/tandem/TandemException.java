package io.tandem;

/** A failed call. The message is one sentence for a person: what is wrong, and what to do about it. */
public class TandemException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final ErrorCode code;

    public TandemException(ErrorCode code, String message) {
        super(message);
        if (code == null) {
            throw new NullPointerException("code is null");
        }
        this.code = code;
    }

    public ErrorCode code() {
        return code;
    }

    @Override
    public String toString() {
        return getClass().getName() + ": " + code.label() + ": " + getMessage();
    }
}
