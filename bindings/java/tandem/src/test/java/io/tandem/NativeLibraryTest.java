package io.tandem;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Scanner;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class NativeLibraryTest {
    /** A program of its own: says the version, so that the library is loaded. */
    static final class Main {
        public static void main(String[] arguments) {
            System.out.println(Engine.version());
        }
    }

    @TempDir Path folder;

    /** Runs Main with these properties and returns what it says. */
    private static String say(String... properties) throws Exception {
        List<String> command = new ArrayList<>();
        command.add(Paths.get(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(Arrays.asList(properties));
        command.addAll(Arrays.asList("-cp", folderOf(Engine.class) + ":" + folderOf(Main.class), Main.class.getName()));
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        try (Scanner scanner = new Scanner(process.getInputStream(), "UTF-8").useDelimiter("\\A")) {
            return scanner.hasNext() ? scanner.next().trim() : "";
        }
    }

    private static Path folderOf(Class<?> type) throws Exception {
        return Paths.get(type.getProtectionDomain().getCodeSource().getLocation().toURI());
    }

    @Test
    void theLibraryInsideTheJarIsLoadedAndLeavesNoFiles() throws Exception {
        assertEquals(Engine.version(), say("-Djava.io.tmpdir=" + folder, "-Djava.library.path=" + folder));
        assertEquals(0, folder.toFile().list().length);
    }

    @Test
    void aLibraryOfTheSystemComesFirst() throws Exception {
        String nowhere = "-Djava.io.tmpdir=" + folder.resolve("missing"); // Nothing can be extracted.
        String library = "io/tandem/native/" + NativeLibrary.platform() + "/libtandem_jni.so";
        Path inside = folderOf(Engine.class).resolve(library);
        assertEquals(Engine.version(), say(nowhere, "-Djava.library.path=" + inside.getParent()));
        assertEquals(Engine.version(), say(nowhere, "-Dio.tandem.library=" + inside));
        String failure = say(nowhere, "-Djava.library.path=" + folder);
        assertTrue(failure.contains("tandem's native library cannot be loaded"), failure);
    }

    @Test
    void namesOfPlatforms() {
        assertEquals("linux-x86_64", platformOf("Linux", "amd64"));
        assertEquals("linux-aarch64", platformOf("Linux", "aarch64"));
    }

    private static String platformOf(String os, String arch) {
        String oldOs = System.setProperty("os.name", os);
        String oldArch = System.setProperty("os.arch", arch);
        try {
            return NativeLibrary.platform();
        } finally {
            System.setProperty("os.name", oldOs);
            System.setProperty("os.arch", oldArch);
        }
    }
}
