package io.tandem;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.io.File;
import org.junit.jupiter.api.Test;

class NativeLibraryTest {
    @Test
    void theLibraryInsideTheJarIsLoadedAndLeavesNoFiles() {
        assertNotNull(
                NativeLibrary.class.getResource("/io/tandem/native/" + NativeLibrary.platform() + "/libtandem_jni.so"));
        Engine.version();
        String[] left =
                new File(System.getProperty("java.io.tmpdir")).list((folder, name) -> name.startsWith("tandem-jni-"));
        assertEquals(0, left == null ? 0 : left.length);
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
