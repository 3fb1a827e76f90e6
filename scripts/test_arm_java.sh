#!/usr/bin/env bash
# The Java interface on 64-bit ARM under qemu's emulation, after `make java` and `make test-arm`: test_arm_java.sh [JOBS]
# The program of docs/java.md tells the demo model's story as this machine does, and an AAR is assembled of the library.
set -euo pipefail
cd "$(dirname "$0")/.."

build=build/arm64
java=$(scripts/install_arm_jvm.sh)
root=${java%/usr/lib/jvm/*}
cmake --preset arm64 -DTANDEM_JNI=ON > /dev/null
cmake --build "$build" --target tandem_jni -j "${1:-$(nproc)}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The classes alone: the jar has this machine's library in it.
cp -r build/java/maven/tandem/classes "$work/classes"
rm -rf "$work/classes/io/tandem/native"
javac -cp "$work/classes" -d "$work/classes" build/java/docs/java/Story.java

told=$(qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$root/lib/aarch64-linux-gnu" \
  "$java" -Xint -Djava.library.path="$build" -cp "$work/classes" Story build/demo.tdm 2> "$work/log") ||
  { cat "$work/log" >&2; echo "test_arm_java.sh: the program failed on ARM" >&2; exit 1; }
expected=$(TANDEM_ISA=portable build/release/tandem run build/demo.tdm -q --greedy \
  -p "Tell me a story about a fox named Leo.")
[[ $told == "$expected" ]] || { echo "test_arm_java.sh: on ARM it tells: $told" >&2; exit 1; }

scripts/make_aar.sh --linux "$build" "$work/tandem.aar"
echo "test_arm_java.sh: the same story on ARM; an AAR has $(stat -c %s "$work/tandem.aar") bytes"
