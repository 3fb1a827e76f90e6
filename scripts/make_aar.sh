#!/usr/bin/env bash
# Assembles build/java/tandem.aar from the Java classes and from libraries that are built already:
#   make_aar.sh [--linux] [FOLDER] [OUTPUT]
# --linux: for tests, take a library for ARM Linux, which Android cannot load. FOLDER has libtandem_jni.so for 64-bit ARM: build/android-arm64 by default. An AAR is a zip file.
set -euo pipefail
cd "$(dirname "$0")/.."

check=()
if [[ ${1:-} == --linux ]]; then
  check=(--linux)
  shift
fi
libraries=${1:-build/android-arm64}
output=${2:-build/java/tandem.aar}
classes=build/java/maven/tandem/classes

die() {
  echo "make_aar.sh: $*" >&2
  exit 1
}
[[ -f $libraries/libtandem_jni.so ]] ||
  die "there is no $libraries/libtandem_jni.so; build it with the NDK (make android) or say where it is: JNI_LIBS=FOLDER"
[[ -f $classes/io/tandem/LlmModule.class ]] || die "the Java classes are not built; \`make java\` builds them"
command -v jar > /dev/null || die "there is no \`jar\`; install a JDK"

work=$(mktemp -d)
trap 'rm -rf "$work" "$work.aar"' EXIT
mkdir -p "$work/jni/arm64-v8a" "$(dirname "$output")"
cp bindings/java/aar/AndroidManifest.xml bindings/java/aar/proguard.txt "$work/"
: > "$work/R.txt"  # No resources.
cp "$libraries/libtandem_jni.so" "$work/jni/arm64-v8a/"
# Without the host's library, which would only make apps larger.
mkdir "$work/classes"
cp -r "$classes/io" "$work/classes/"
rm -rf "$work/classes/io/tandem/native"
jar --create --file "$work/classes.jar" --no-manifest -C "$work/classes" io
rm -r "$work/classes"
jar --create --file "$work.aar" --no-manifest -C "$work" .
scripts/check_aar.py "${check[@]}" "$work.aar"
mv "$work.aar" "$output"
echo "make_aar.sh: $output"
