package io.tandem;

/** Checks of arguments, before anything native sees them. */
final class Check {
    private Check() {}

    static <T> T notNull(T value, String name) {
        if (value == null) {
            throw new NullPointerException(name + " is null");
        }
        return value;
    }

    static <T extends Iterable<?>> T noNulls(T values, String name) {
        for (Object value : notNull(values, name)) {
            if (value == null) {
                throw new NullPointerException("one of " + name + " is null");
            }
        }
        return values;
    }

    /** A path of the system; one with a NUL would be cut there. */
    static String path(String path) {
        if (notNull(path, "path").isEmpty() || path.indexOf('\0') >= 0) {
            throw new IllegalArgumentException(path.isEmpty() ? "path is empty" : "path has a NUL character");
        }
        return path;
    }
}
