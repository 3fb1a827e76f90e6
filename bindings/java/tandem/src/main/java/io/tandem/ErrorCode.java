package io.tandem;

/** What kind of error it is. The names are the same in all of tandem's languages. */
public enum ErrorCode {
    /** The caller asked for something that makes no sense. */
    INVALID_ARGUMENT("invalid_argument"),
    /** A file, tensor, method or token that should be there is not. */
    NOT_FOUND("not_found"),
    /** Well-formed, but nothing here can do it. */
    UNSUPPORTED("unsupported"),
    /** The bytes do not say what they should: truncated, flipped, hostile. */
    CORRUPT("corrupt"),
    /** The operating system refused a read, write, map or rename. */
    IO("io"),
    /** Memory, context or another limit is used up. */
    RESOURCE_EXHAUSTED("resource_exhausted"),
    /** The user asked to stop. */
    CANCELLED("cancelled"),
    /** A bug in tandem. */
    INTERNAL("internal");

    private final String label;

    ErrorCode(String label) {
        this.label = label;
    }

    /** The name for logs and JSON, such as "not_found". */
    public String label() {
        return label;
    }

    /** In the order of the native enum; a number that it does not have is a bug. */
    static ErrorCode of(int number) {
        ErrorCode[] all = values();
        return number >= 0 && number < all.length ? all[number] : INTERNAL;
    }
}
