package io.tandem;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Loads libtandem_jni: the file that the property io.tandem.library names; else where the system finds libraries
 * (java.library.path, an Android app's own); else the one inside the jar, from a private temporary folder.
 */
final class NativeLibrary {
    private static final String NAME = "tandem_jni";

    private NativeLibrary() {}

    static void load() {
        String chosen = System.getProperty("io.tandem.library");
        if (chosen != null) {
            System.load(new File(chosen).getAbsolutePath());
            return;
        }
        try {
            System.loadLibrary(NAME);
        } catch (UnsatisfiedLinkError systems) {
            try {
                loadFromJar();
            } catch (IOException | UnsatisfiedLinkError jars) {
                UnsatisfiedLinkError error =
                        new UnsatisfiedLinkError(
                                "tandem's native library cannot be loaded: " + systems.getMessage() + "; " + jars.getMessage());
                error.initCause(jars);
                throw error;
            }
        }
    }

    /** Such as linux-x86_64. */
    static String platform() {
        String arch = System.getProperty("os.arch", "");
        if (arch.equals("amd64")) {
            arch = "x86_64";
        } else if (arch.equals("arm64")) {
            arch = "aarch64";
        }
        return System.getProperty("os.name", "").toLowerCase(Locale.ROOT).replace(' ', '_') + "-" + arch;
    }

    private static void loadFromJar() throws IOException {
        String resource = "/io/tandem/native/" + platform() + "/lib" + NAME + ".so";
        try (InputStream in = NativeLibrary.class.getResourceAsStream(resource)) {
            if (in == null) {
                throw new IOException(
                        "tandem.jar has none for " + platform() + "; put lib" + NAME + ".so on java.library.path");
            }
            // Readable by this user alone, so that nobody can put another library there before it is loaded. Once it is
            // loaded the file is not needed any more.
            Path folder = Files.createTempDirectory("tandem-jni-");
            Path file = folder.resolve("lib" + NAME + ".so");
            try {
                Files.copy(in, file);
                System.load(file.toString());
            } finally {
                Files.deleteIfExists(file);
                Files.deleteIfExists(folder);
            }
        }
    }
}
