#!/usr/bin/env python3
"""Checks an AAR: check_aar.py [--linux] FILE. Its entries, the manifest's line for the NPU, the classes that the keep rules name,
and that the library is for 64-bit ARM, aligned for 16 KB pages, exports JNI_OnLoad alone and
needs no library that Android lacks (with --linux, for tests, it may)."""
import io
import struct
import sys
import xml.etree.ElementTree
import zipfile

ANDROID = "{http://schemas.android.com/apk/res/android}"
ANDROID_LIBRARIES = {"libc.so", "libm.so", "libdl.so", "liblog.so", "libandroid.so"}
LIBRARY = "jni/arm64-v8a/libtandem_jni.so"


def fail(message):
    sys.exit(f"check_aar.py: {message}")


def sections(elf):
    offset, = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    for i in range(count):
        yield struct.unpack_from("<IIQQQQIIQQ", elf, offset + i * size)


def exported_names(elf):
    headers = list(sections(elf))
    for header in headers:
        if header[1] != 11:  # SHT_DYNSYM
            continue
        names = headers[header[6]]
        for at in range(header[4], header[4] + header[5], 24):
            name, info, _, index = struct.unpack_from("<IBBH", elf, at)
            if index != 0 and info >> 4 in (1, 2):  # Defined here; global or weak.
                start = names[4] + name
                yield elf[start:elf.index(b"\0", start)].decode()


def needed_libraries(elf):
    headers = list(sections(elf))
    for header in headers:
        if header[1] != 6:  # SHT_DYNAMIC
            continue
        names = headers[header[6]]
        for at in range(header[4], header[4] + header[5], 16):
            tag, value = struct.unpack_from("<QQ", elf, at)
            if tag == 1:  # DT_NEEDED
                start = names[4] + value
                yield elf[start:elf.index(b"\0", start)].decode()


def check_library(elf, linux):
    if elf[:4] != b"\x7fELF" or elf[4] != 2 or elf[5] != 1:
        fail(f"{LIBRARY} is not a 64-bit ELF file")
    machine, = struct.unpack_from("<H", elf, 18)
    if machine != 183:
        fail(f"{LIBRARY} is for machine {machine}, and 183 is AArch64: build it for 64-bit ARM")
    offset, = struct.unpack_from("<Q", elf, 32)
    size, count = struct.unpack_from("<HH", elf, 54)
    for i in range(count):
        kind, _, _, _, _, _, _, align = struct.unpack_from("<IIQQQQQQ", elf, offset + i * size)
        if kind == 1 and align < 16384:  # PT_LOAD
            fail(f"a segment of {LIBRARY} is aligned to {align}; devices with 16 KB pages refuse it")
    names = [name for name in exported_names(elf) if name != "JNI_OnLoad"]
    if names or "JNI_OnLoad" not in exported_names(elf):
        fail(f"{LIBRARY} should export JNI_OnLoad and nothing else, but exports {names or 'nothing'}")
    unknown = sorted(set(needed_libraries(elf)) - ANDROID_LIBRARIES)
    if unknown and not linux:
        fail(f"{LIBRARY} needs {', '.join(unknown)}, which Android does not have: build it with the NDK")


def main():
    linux = "--linux" in sys.argv
    files = [argument for argument in sys.argv[1:] if argument != "--linux"]
    if len(files) != 1:
        fail("say which file")
    with zipfile.ZipFile(files[0]) as aar:
        missing = {"AndroidManifest.xml", "classes.jar", "R.txt", "proguard.txt", LIBRARY} - set(aar.namelist())
        if missing:
            fail(f"{', '.join(sorted(missing))} is not in it")
        manifest = xml.etree.ElementTree.fromstring(aar.read("AndroidManifest.xml"))
        npu = manifest.find("application/uses-native-library")
        if npu is None or npu.get(ANDROID + "name") != "libcdsprpc.so" or npu.get(ANDROID + "required") != "false":
            fail("the manifest does not say that the app may use libcdsprpc.so")
        with zipfile.ZipFile(io.BytesIO(aar.read("classes.jar"))) as classes:
            names = set(classes.namelist())
            for line in aar.read("proguard.txt").decode().splitlines():
                words = line.split()
                if words[:2] == ["-keep", "class"] and words[2].replace(".", "/") + ".class" not in names:
                    fail(f"proguard.txt keeps {words[2]}, which is not in classes.jar")
            if any(not name.endswith(("/", ".class")) for name in names):
                fail("classes.jar has more than classes in it")
            version = {struct.unpack_from(">H", classes.read(n), 6)[0] for n in names if n.endswith(".class")}
            if max(version) > 55:
                fail(f"classes.jar has class files of version {max(version)}; Android takes those of Java 11 (55)")
        library = aar.read(LIBRARY)
        check_library(library, linux)
        size = sum(entry.compress_size for entry in aar.infolist())
    print(f"check_aar.py: in order: {size / 1e6:.2f} MB, its library {len(library) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
